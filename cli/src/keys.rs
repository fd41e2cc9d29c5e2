// SPDX-License-Identifier: GPL-2.0-only
//! The keyboard, while the whole terminal is ours.

use crate::failure::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// How soon a key is seen.
pub const PACE: Duration = Duration::from_millis(50);

/// A key, if one was pressed (Esc for Ctrl-C, too); `Null` for anything else that wants the screen
/// drawn again.
pub fn pressed() -> std::io::Result<Option<KeyCode>> {
    while event::poll(Duration::ZERO)? {
        match event::read()? {
            Event::Resize(..) => return Ok(Some(KeyCode::Null)),
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let interrupt =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                return Ok(Some(if interrupt { KeyCode::Esc } else { key.code }));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// `instead`: what does without a terminal.
pub fn no_terminal(err: &std::io::Error, instead: &str) -> Failure {
    Failure::refused(format!("cannot use the terminal: {err}"), instead)
}
