// SPDX-License-Identifier: GPL-2.0-only
//! Output that is longer than the terminal, page by page.
//!
//! This process becomes the pager, with the text in a file of its own in memory: nobody has to wait
//! for it, and Ctrl-C is the pager's alone.

use crate::failure::Failure;
use crate::harmless::harmless;
use crate::out;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Was this process told to do without?
static OFF: AtomicBool = AtomicBool::new(false);

pub fn off() {
    OFF.store(true, Ordering::Relaxed);
}

/// Prints `text` as the last thing that this process does: by a pager if the terminal is too small.
pub fn print(text: &str) -> Result<(), Failure> {
    let named = std::env::var("PAGER").ok();
    let is_root = rustix::process::geteuid().is_root();
    if is_wanted(text)
        && let Some(pager) = pager(named.as_deref(), is_root)
    {
        // It returns only if there is no such program: the text is printed without.
        let _ = become_pager(pager, text, is_root);
    }
    out::print(text)
}

fn is_wanted(text: &str) -> bool {
    // What is no terminal has no size.
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    // The prompt takes a line, too.
    rows > 0 && text.lines().count() >= rows && !OFF.load(Ordering::Relaxed)
}

/// The program and its arguments; `None`: nothing is to page. root's is `less`, whoever has set the
/// variable: it may be somebody who may run tixctl as root, and nothing else.
fn pager(named: Option<&str>, is_root: bool) -> Option<Vec<&str>> {
    let words = named.map(|named| named.split_whitespace().collect::<Vec<_>>());
    match words.filter(|_| !is_root).as_deref() {
        None => Some(vec!["less"]),
        Some([] | ["cat"]) => None,
        Some(words) => Some(words.to_vec()),
    }
}

/// Returns only if it fails.
fn become_pager(pager: Vec<&str>, text: &str, is_root: bool) -> std::io::Result<()> {
    let [program, arguments @ ..] = pager.as_slice() else {
        return Ok(());
    };
    let mut file = file(text)?;
    file.rewind()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(file);
    // It shows our colours, ends at once where all fits, and leaves the screen as it is.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    // Nothing is started from it as root.
    if is_root {
        command.env("LESSSECURE", "1");
    }
    Err(command.exec())
}

/// The text in a file without a name, coloured if the terminal wants that.
fn file(text: &str) -> std::io::Result<File> {
    let file = File::from(memfd_create("tixctl", MemfdFlags::CLOEXEC)?);
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    let mut out = anstream::AutoStream::new(file, choice);
    writeln!(out, "{}", harmless(text))?;
    Ok(out.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_pages_with_less_whatever_the_environment_says() {
        assert_eq!(pager(None, false), Some(vec!["less"]));
        assert_eq!(pager(Some("most -s"), false), Some(vec!["most", "-s"]));
        assert_eq!(pager(Some(""), false), None);
        assert_eq!(pager(Some("cat"), false), None);
        assert_eq!(pager(Some("sh -c id"), true), Some(vec!["less"]));
    }
}
