// SPDX-License-Identifier: GPL-2.0-only
//! Output that is longer than the terminal, page by page.
//!
//! This process becomes the pager, with the text in a file of its own in memory: nobody has to wait
//! for it, and Ctrl-C is the pager's alone.

use crate::failure::Failure;
use crate::harmless::harmless;
use crate::out;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsString;
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

/// What the pager's environment has instead of ours: `less` shows our colours, ends at once where
/// all
/// fits, and leaves the screen as it is. From root's nothing is started, read or written, whoever
/// has set variables of less's: LESSSECURE_ALLOW and LESSKEY_CONTENT among others would permit it.
fn environment(
    variables: impl Iterator<Item = OsString>,
    is_root: bool,
) -> Vec<(OsString, Option<&'static str>)> {
    let own = |name: &OsString| name.as_encoded_bytes().starts_with(b"LESS");
    let set: Vec<OsString> = variables.filter(own).collect();
    let shown = (OsString::from("LESS"), Some("FRX"));
    if !is_root {
        let is_set = set.iter().any(|name| name == "LESS");
        return (!is_set).then_some(shown).into_iter().collect();
    }
    let ours = [
        shown,
        ("LESSSECURE".into(), Some("1")),
        ("LESSHISTFILE".into(), Some("-")),
    ];
    let gone = set.into_iter().map(|name| (name, None));
    gone.chain(ours).collect()
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
    let variables = std::env::vars_os().map(|(name, _)| name);
    for (name, value) in environment(variables, is_root) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
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
    use std::collections::BTreeMap;

    #[test]
    fn root_pages_with_less_whatever_the_environment_says() {
        assert_eq!(pager(None, false), Some(vec!["less"]));
        assert_eq!(pager(Some("most -s"), false), Some(vec!["most", "-s"]));
        assert_eq!(pager(Some(""), false), None);
        assert_eq!(pager(Some("cat"), false), None);
        assert_eq!(pager(Some("sh -c id"), true), Some(vec!["less"]));
    }
    #[test]
    fn nothing_of_less_is_anybodys_but_ours_for_root() {
        let set = ["LESSSECURE_ALLOW", "LESSOPEN", "HOME", "LESSKEYIN", "LESS"];
        let variables = || set.iter().map(OsString::from);
        let ours = [("LESS", "FRX"), ("LESSSECURE", "1"), ("LESSHISTFILE", "-")];
        let mut all: BTreeMap<OsString, &str> = variables().map(|name| (name, "set")).collect();
        for (name, value) in environment(variables(), true) {
            match value {
                Some(value) => all.insert(name, value),
                None => all.remove(&name),
            };
        }
        let mut wanted = BTreeMap::from(ours.map(|(name, value)| (name.into(), value)));
        wanted.insert("HOME".into(), "set");
        assert_eq!(all, wanted);
        // A user's variables are the user's.
        assert_eq!(environment(variables(), false), []);
        let unset = environment(["LESSOPEN".into()].into_iter(), false);
        assert_eq!(unset, [("LESS".into(), Some("FRX"))]);
    }
}
