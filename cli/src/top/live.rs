// SPDX-License-Identifier: GPL-2.0-only
//! The live screen.

use super::stream::{News, Piece};
use super::view::{self, Options, Row};
use crate::failure::Failure;
use crate::{kernel, keys, out};
use futures_util::Stream;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row as Line2, Table};
use std::path::Path;
use tix_api::{Sample, WatchReply};

struct Screen {
    options: Options,
    before: Option<Sample>,
    now: Option<Sample>,
    /// The last thing that happened.
    event: String,
    held: bool,
    colours: bool,
}

pub async fn run<S>(news: &mut News<S>, options: Options) -> Result<(), Failure>
where
    S: Stream<Item = zlink::Result<Result<WatchReply, tix_api::Error>>>,
{
    let failed = |err| keys::no_terminal(&err, "`tixctl top --once` prints one table");
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let mut screen = Screen {
        options,
        before: None,
        now: None,
        event: String::new(),
        held: false,
        colours: out::has_colours(),
    };
    let mut ticks = tokio::time::interval(keys::PACE);
    let mut changed = true;
    let result = loop {
        if changed && let Err(err) = terminal.draw(|frame| screen.draw(frame)) {
            break Err(failed(err));
        }
        changed = true;
        tokio::select! {
            piece = news.next() => match piece {
                Ok(piece) => screen.take(piece),
                Err(failure) => break Err(failure),
            },
            _ = ticks.tick() => match keys::pressed() {
                Ok(Some(key)) if screen.key(key) => break Ok(()),
                Ok(key) => changed = key.is_some(),
                Err(err) => break Err(failed(err)),
            },
        }
    };
    ratatui::restore();
    result
}

impl Screen {
    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Event(event) => self.event = event.message,
            Piece::Sample(_) if self.held => {}
            Piece::Sample(sample) => self.before = self.now.replace(*sample),
        }
    }

    /// Does what a key says; true to end.
    fn key(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('a') => self.options.all ^= true,
            KeyCode::Char('p') => self.options.processes ^= true,
            KeyCode::Char('s') => self.options.sort = self.options.sort.next(),
            KeyCode::Char(' ') => self.held ^= true,
            _ => {}
        }
        false
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        let (Some(before), Some(now)) = (&self.before, &self.now) else {
            frame.render_widget(Line::from("waiting for two samples…"), body);
            return;
        };
        let rows = view::rows(before, now, &self.options);
        let bar = body.width.saturating_sub(72).min(40);
        frame.render_widget(self.table(&rows, bar), body);
        frame.render_widget(self.foot(), foot);
    }

    fn head(&self) -> Line<'static> {
        let force = kernel::sched_ext(Path::new("/"));
        let cpus = self
            .now
            .as_ref()
            .map_or(String::new(), |sample| format!("{} CPUs · ", sample.cpus));
        let colour = if force.in_force {
            Color::Green
        } else {
            Color::Red
        };
        Line::from(vec![
            Span::raw(format!("tix · {cpus}")),
            Span::styled(force.sentence(), self.style(colour)),
            Span::raw(if self.held { " · held" } else { "" }),
        ])
    }

    fn foot(&self) -> Line<'_> {
        let keys = format!(
            "q quit  a all  p processes  s sort ({})  Space hold   ",
            self.options.sort.word()
        );
        Line::from(vec![
            Span::styled(keys, self.style(Color::DarkGray)),
            Span::raw(match self.event.as_str() {
                "" => self.not_held(),
                event => event,
            }),
        ])
    }

    /// Why nothing holds what is shown; empty where something does.
    fn not_held(&self) -> &str {
        let problem = self.now.as_ref().and_then(|now| now.not_held.as_ref());
        problem.map_or("", |problem| problem.message.as_str())
    }

    fn table(&self, rows: &[Row], bar: u16) -> Table<'static> {
        let header = view::COLUMNS
            .iter()
            .map(|title| Cell::from(title.trim_start_matches('>').to_owned()));
        let lines = rows.iter().map(|row| {
            let cells = view::cells(row)
                .into_iter()
                .enumerate()
                .map(|(index, text)| match index {
                    0 => Cell::from(text),
                    _ => Cell::from(Line::from(text).right_aligned()),
                });
            let style = match (row.process, row.active) {
                (true, _) | (_, false) => self.style(Color::DarkGray),
                (false, true) => Style::default(),
            };
            Line2::new(cells.chain([Cell::from(self.bar(row, bar))])).style(style)
        });
        let numbers = [Constraint::Length(10); 4];
        let widths = [Constraint::Min(16)]
            .into_iter()
            .chain(numbers)
            .chain([Constraint::Length(bar)]);
        Table::new(lines, widths)
            .header(Line2::new(header).style(Style::default().add_modifier(Modifier::BOLD)))
            .column_spacing(2)
    }

    /// What it uses as a bar, with its entitlement as a mark.
    fn bar(&self, row: &Row, width: u16) -> Line<'static> {
        let at = |fraction: f64| (fraction.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
        let mut cells: Vec<char> = vec!['━'; at(row.used)];
        cells.resize(usize::from(width), ' ');
        if let (Some(entitlement), Some(last)) = (row.entitlement, cells.len().checked_sub(1)) {
            cells[at(entitlement).min(last)] = '┃';
        }
        Line::from(Span::styled(
            cells.into_iter().collect::<String>(),
            self.style(Color::Cyan),
        ))
    }

    fn style(&self, colour: Color) -> Style {
        match self.colours {
            true => Style::default().fg(colour),
            false => Style::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tix_api::{CurrencySample, Share};

    fn sample(seconds: u64, used_usec: u64) -> Sample {
        Sample {
            time_usec: 0,
            monotonic_usec: seconds * 1_000_000,
            cpus: 1,
            currencies: vec![CurrencySample {
                cid: 1,
                name: "alice".into(),
                cgroup: None,
                owner: 0,
                active: true,
                cpu: Share {
                    entitlement: 0.5,
                    share: 1.0,
                    used_usec,
                    entitlement_bytes: None,
                    ..Share::default()
                },
            }],
            processes: None,
            not_held: None,
        }
    }

    fn drawn(width: u16) -> String {
        let mut screen = Screen {
            options: Options::default(),
            before: None,
            now: None,
            event: String::new(),
            held: false,
            colours: false,
        };
        screen.take(Piece::Sample(Box::new(sample(1, 0))));
        screen.take(Piece::Sample(Box::new(sample(2, 750_000))));
        let mut terminal = Terminal::new(TestBackend::new(width, 5)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn shows_use_and_entitlement() {
        let wide = drawn(100);
        assert!(
            wide.contains("alice") && wide.contains("75.00 %") && wide.contains("50.00 %"),
            "{wide}"
        );
        assert!(wide.contains('┃'), "{wide}");
    }

    #[test]
    fn narrow_terminals_are_drawn() {
        for width in [1, 20, 40, 71, 72, 73, 80] {
            drawn(width);
        }
    }
}
