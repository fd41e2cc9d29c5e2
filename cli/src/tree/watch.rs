// SPDX-License-Identifier: GPL-2.0-only
//! The tree again and again.

use crate::failure::Failure;
use crate::{keys, out};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::time::Duration;
use tix_api::{Tix, TreeReply};
use tix_client::Client;
use tokio::time::interval;

/// Hands each to `print`, until that or tixd fails.
pub async fn lines(
    client: &mut Client,
    pace: Duration,
    mut print: impl FnMut(&TreeReply) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut looks = interval(pace);
    loop {
        looks.tick().await;
        print(&client.call(|tixd| tixd.tree()).await?)?;
    }
}

/// Shows what `text` says of each, on the whole terminal, until `q` is pressed.
pub async fn live(
    client: &mut Client,
    pace: Duration,
    text: impl Fn(&TreeReply) -> String,
) -> Result<(), Failure> {
    let failed = |err| keys::no_terminal(&err, "`tixctl tree` shows it once");
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let (mut looks, mut ticks) = (interval(pace), interval(keys::PACE));
    let mut screen = Screen::default();
    let result = loop {
        let seen = tokio::select! {
            _ = looks.tick() => match client.call(|tixd| tixd.tree()).await {
                Ok(tree) => Ok(screen.show(&text(&tree))),
                Err(err) => break Err(err.into()),
            },
            _ = ticks.tick() => keys::pressed().map(|key| key.map(|key| screen.key(key))),
        };
        match seen.map(|seen| seen.unwrap_or(Next::Nothing)) {
            Ok(Next::Draw) => {
                if let Err(err) = terminal.draw(|frame| screen.draw(frame)) {
                    break Err(failed(err));
                }
            }
            Ok(Next::Nothing) => {}
            Ok(Next::End) => break Ok(()),
            Err(err) => break Err(failed(err)),
        }
    };
    ratatui::restore();
    result
}

/// What is to be done with the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Draw,
    Nothing,
    End,
}

#[derive(Default)]
struct Screen {
    lines: Vec<String>,
    /// Lines below the heading that are scrolled away.
    above: usize,
    /// Lines that there was room for, the heading not among them.
    room: usize,
}

impl Screen {
    fn show(&mut self, text: &str) -> Option<Next> {
        let plain = anstream::adapter::strip_str(text).to_string();
        self.lines = plain.lines().map(str::to_owned).collect();
        self.above = self.above.min(self.below());
        Some(Next::Draw)
    }

    /// Lines that are scrolled away once the last one is seen.
    fn below(&self) -> usize {
        self.lines.len().saturating_sub(1 + self.room)
    }

    fn key(&mut self, key: KeyCode) -> Next {
        let below = self.below();
        self.above = match key {
            KeyCode::Char('q') | KeyCode::Esc => return Next::End,
            KeyCode::Up => self.above.saturating_sub(1),
            KeyCode::Down => self.above + 1,
            KeyCode::PageUp => self.above.saturating_sub(self.room),
            KeyCode::PageDown => self.above + self.room,
            KeyCode::Home => 0,
            KeyCode::End => below,
            // Of another size.
            KeyCode::Null => return Next::Draw,
            _ => return Next::Nothing,
        };
        self.above = self.above.min(below);
        Next::Draw
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.room = usize::from(area.height).saturating_sub(1);
        let heading = match out::has_colours() {
            true => Style::default().fg(Color::DarkGray),
            false => Style::default(),
        };
        let first = self
            .lines
            .first()
            .map(|line| Line::styled(line.as_str(), heading));
        let rest = self.lines.iter().skip(1 + self.above).take(self.room);
        let all = first
            .into_iter()
            .chain(rest.map(|line| Line::raw(line.as_str())));
        frame.render_widget(Paragraph::new(Text::from_iter(all)), area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(screen: &mut Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(8, 3)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |y| {
            (0..8)
                .map(|x| buffer[(x, y)].symbol().to_owned())
                .collect::<String>()
        };
        (0..3).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_heading_stays_and_the_rest_scrolls() {
        let mut screen = Screen::default();
        assert_eq!(screen.show("NAME\na\nb\nc\nd"), Some(Next::Draw));
        assert_eq!(shown(&mut screen), ["NAME", "a", "b"]);
        for (key, lines) in [
            (KeyCode::Down, ["NAME", "b", "c"]),
            (KeyCode::PageDown, ["NAME", "c", "d"]),
            (KeyCode::Down, ["NAME", "c", "d"]),
            (KeyCode::Up, ["NAME", "b", "c"]),
            (KeyCode::Home, ["NAME", "a", "b"]),
            (KeyCode::End, ["NAME", "c", "d"]),
            (KeyCode::PageUp, ["NAME", "a", "b"]),
        ] {
            assert_eq!(screen.key(key), Next::Draw, "{key:?}");
            assert_eq!(shown(&mut screen), lines, "{key:?}");
        }
        assert_eq!(screen.key(KeyCode::Char('x')), Next::Nothing);
        assert_eq!(screen.key(KeyCode::Char('q')), Next::End);
        assert_eq!(screen.key(KeyCode::Esc), Next::End);
    }
}
