// SPDX-License-Identifier: GPL-2.0-only
//! Putting things on the screen: tables, units, JSON.

use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints `text` and a newline. Colours go where the terminal and `NO_COLOR` want them.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|err| match err.kind() {
            ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::refused(format!("cannot write the output: {err}"), ""),
        })
}

/// Prints a value as JSON, indented.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|err| Failure::refused(format!("cannot write JSON: {err}"), ""))?;
    print(&text)
}

/// Prints a value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|err| Failure::refused(format!("cannot write JSON: {err}"), ""))?;
    print(&text)
}

/// The terminal's width; `None` when stdout is none, so that pipes get whole lines.
pub fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// A table without lines; `columns` are titles, right-aligned when they start with `>`.
pub fn table(columns: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).enforce_styling();
    match width {
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.set_header(columns.iter().map(|title| {
        let (title, alignment) = aligned(title);
        Cell::new(title)
            .set_alignment(alignment)
            .fg(Color::DarkGrey)
    }));
    for (index, title) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(aligned(title).1);
            column.set_padding((0, 2));
        }
    }
    table
}

fn aligned(title: &str) -> (&str, CellAlignment) {
    match title.strip_prefix('>') {
        Some(title) => (title, CellAlignment::Right),
        None => (title, CellAlignment::Left),
    }
}

/// The table's text without blanks at line ends.
pub fn rendered(table: &Table) -> String {
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// A fraction of the machine in per cent.
pub fn percent(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

/// CPU time, from microseconds.
pub fn duration(usec: u64) -> String {
    let seconds = usec as f64 / 1e6;
    if usec < 1_000 {
        format!("{usec} µs")
    } else if usec < 1_000_000 {
        format!("{:.1} ms", usec as f64 / 1e3)
    } else if seconds < 600.0 {
        format!("{seconds:.1} s")
    } else if seconds < 36_000.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if seconds < 864_000.0 {
        format!("{:.1} h", seconds / 3_600.0)
    } else {
        format!("{:.1} d", seconds / 86_400.0)
    }
}

/// `1 ticket`, `2 tickets`.
pub fn tickets(amount: u64) -> String {
    match amount {
        1 => "1 ticket".into(),
        amount => format!("{amount} tickets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(percent(0.75), "75.00 %");
        assert_eq!(percent(0.0), "0.00 %");
        assert_eq!(duration(0), "0 µs");
        assert_eq!(duration(1_500), "1.5 ms");
        assert_eq!(duration(59_900_000), "59.9 s");
        assert_eq!(duration(3_600_000_000), "60.0 min");
        assert_eq!(duration(86_400_000_000), "24.0 h");
        assert_eq!(tickets(1), "1 ticket");
        assert_eq!(tickets(300), "300 tickets");
    }
}
