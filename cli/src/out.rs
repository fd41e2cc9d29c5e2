// SPDX-License-Identifier: GPL-2.0-only
//! Putting things on the screen: tables, units, JSON.

use crate::failure::Failure;
use crate::harmless::harmless;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints `text` and a newline, and whatever is in it does nothing to the terminal. Colours go
/// where the terminal and `NO_COLOR` want them.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout, "{}", harmless(text))
        .and_then(|()| stdout.flush())
        .map_err(|err| match err.kind() {
            ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::refused(
                format!("cannot write the output: {err}"),
                "`df -h` says where there is room",
            ),
        })
}

/// Prints a value as JSON, indented.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(no_json)?;
    print(&text)
}

fn no_json(err: serde_json::Error) -> Failure {
    Failure::refused(
        format!("cannot write JSON: {err}"),
        "without --json the same is shown in words",
    )
}

/// Prints a value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(no_json)?;
    print(&text)
}

/// Are there to be colours on the terminal?
pub fn has_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// The terminal's width; `None` when stdout is none, so that pipes get whole lines.
pub fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Names get at least this much of a narrow terminal before columns go.
const NAME: usize = 24;
const GAP: usize = 2;

/// A table without lines. Titles that start with `>` are of right-aligned columns. In a terminal of
/// that width long names (the first column) are cut, and then columns go from the end, so that a
/// row stays a line.
pub fn table(columns: &[&str], mut rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let length = |text: &str| text.chars().count();
    let widest = |rows: &[Vec<String>], index: usize| -> usize {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(index))
            .map(|cell| length(cell));
        cells
            .chain([length(aligned(columns[index]).0)])
            .max()
            .unwrap_or(0)
    };
    let mut count = columns.len();
    if let Some(width) = width.map(usize::from) {
        let others = |count: usize| {
            (1..count)
                .map(|index| widest(&rows, index) + GAP)
                .sum::<usize>()
        };
        while count > 1 && others(count) + widest(&rows, 0).min(NAME) > width {
            count -= 1;
        }
        let room = width.saturating_sub(others(count)).max(1);
        for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
            *name = cut(name, room);
        }
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .enforce_styling();
    table.set_header(columns[..count].iter().map(|title| {
        let (title, alignment) = aligned(title);
        Cell::new(title)
            .set_alignment(alignment)
            .fg(Color::DarkGrey)
    }));
    for row in &rows {
        table.add_row(&row[..count.min(row.len())]);
    }
    for (index, title) in columns[..count].iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(aligned(title).1);
            column.set_padding((0, if index + 1 == count { 0 } else { GAP as u16 }));
        }
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// The text, its middle left out if it is longer than `room`: names differ at both ends.
fn cut(text: &str, room: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= room {
        return text.to_owned();
    }
    let end = (room - 1) / 2;
    let start = room - 1 - end;
    let (head, tail) = (&characters[..start], &characters[characters.len() - end..]);
    head.iter().chain(['…'].iter()).chain(tail).collect()
}

fn aligned(title: &str) -> (&str, CellAlignment) {
    match title.strip_prefix('>') {
        Some(title) => (title, CellAlignment::Right),
        None => (title, CellAlignment::Left),
    }
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

pub use tix_api::units::{display_bytes as bytes, display_thousandths as milli};

/// A limit, from thousandths of one CPU: `30 % of one CPU`.
pub fn limit(thousandths: u64) -> String {
    format!("{} of one CPU", milli(thousandths))
}

/// The size of a hard ticket: a part of its issuer, or of memory a size.
pub fn hard(amount: u64, in_bytes: Option<bool>) -> String {
    match in_bytes {
        Some(true) => bytes(amount),
        _ => milli(amount),
    }
}

/// Base tickets from thousandths, without the zeros at the end and with a sign: `+12.5`, `−3`.
pub fn signed_tickets(thousandths: i64) -> String {
    let sign = if thousandths < 0 { '−' } else { '+' };
    let (whole, rest) = (
        thousandths.unsigned_abs() / 1000,
        thousandths.unsigned_abs() % 1000,
    );
    let text = format!("{sign}{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
    fn narrow_tables_cut_names_and_then_lose_columns() {
        let rows = vec![vec![
            "/a-rather-long-name/of-a.service".into(),
            "100.00 %".into(),
            "1 s".into(),
        ]];
        let lines = |width| {
            anstream::adapter::strip_str(&table(&["NAME", ">SHARE", "USED"], rows.clone(), width))
                .to_string()
        };
        assert!(lines(None).ends_with("/a-rather-long-name/of-a.service  100.00 %  1 s"));
        assert!(
            lines(Some(40)).ends_with("/a-rather-lo…f-a.service  100.00 %  1 s"),
            "{}",
            lines(Some(40))
        );
        assert!(lines(Some(35)).ends_with("100.00 %"), "{}", lines(Some(35)));
        for width in 1..50 {
            for line in lines(Some(width)).lines() {
                assert!(
                    line.chars().count() <= usize::from(width).max(4),
                    "{width}: {line}"
                );
            }
        }
    }

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
        assert_eq!(limit(300), "30 % of one CPU");
        assert_eq!(limit(2_000), "200 % of one CPU");
        assert_eq!(hard(256 << 20, Some(true)), "256 MiB");
        assert_eq!(signed_tickets(12_500), "+12.5");
        assert_eq!(signed_tickets(-3_000), "−3");
        assert_eq!(signed_tickets(-1), "−0.001");
        assert_eq!(signed_tickets(i64::MIN), "−9223372036854775.808");
    }
}
