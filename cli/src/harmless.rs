// SPDX-License-Identifier: GPL-2.0-only
//! What others have named, on the reader's terminal. Any user may call a cgroup or a process
//! whatever the kernel takes, and a terminal takes orders: to change its title, to write elsewhere,
//! to say something at the next prompt, to show a line backwards.

use std::borrow::Cow;
use std::fmt::Write;

/// The colours that our own text has, and what ends them.
const OURS: [&str; 10] = [
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[36m",
    "\x1b[39m",
    "\x1b[90m",
    "\x1b[m",
    "\x1b[38;5;8m",
];

/// It has no glyph of its own, but does something to others.
fn acts(c: char) -> bool {
    let direction =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    direction || (c.is_control() && c != '\n')
}

/// The text with nothing left in it that a terminal would do, but for lines and our colours. It
/// stays JSON if it was: there what is put in stands for the same.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len() + 16), text);
    while let Some(c) = rest.chars().next() {
        let ours = OURS.iter().find(|ours| rest.starts_with(*ours));
        let taken = ours.map_or(c.len_utf8(), |ours| ours.len());
        match ours.is_none() && acts(c) {
            // Writing to a string cannot fail.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_shown_and_not_given() {
        for (text, shown) in [
            ("/a/é …\n/b", "/a/é …\n/b"),
            ("/a\x1b]0;title\x07", r"/a\u001b]0;title\u0007"),
            ("/a\x1b[2J\r/b\t", r"/a\u001b[2J\u000d/b\u0009"),
            ("\x1b[8mhidden", r"\u001b[8mhidden"),
            ("\u{9b}2J\u{7f}", r"\u009b2J\u007f"),
            ("a\u{202e}b", r"a\u202eb"),
        ] {
            assert_eq!(harmless(text), shown);
        }
        for ours in OURS {
            assert_eq!(harmless(ours), ours);
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"name": "/a\x1b[2J\u{9b}\u{7f}\u{202e}"});
        let text = value.to_string();
        let shown = harmless(&text);
        assert!(!shown.contains(acts) && shown != text);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
