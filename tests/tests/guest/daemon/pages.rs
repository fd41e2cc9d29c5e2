// SPDX-License-Identifier: GPL-2.0-only
//! What the README, the tutorial and the administrator's guide say to type is typed, and prints
//! what they show (`tix_tests::pages`). `TIX_WRITE_PAGES=1` puts what was printed into the pages, to
//! be read before it is kept.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Checks, Said, sh, tixctl, until};
use tix_tests::guest::tree;
use tix_tests::pages::{PAGES, Page, Step, rewritten};
use tix_tests::shell::Shell;

use super::service::PATIENCE;

/// What an installed package has, and a machine that people are logged in to.
pub fn prepare() -> Result<()> {
    let to = "/usr/share/tix/policies";
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(tree().join("policies"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(
                entry.path(),
                format!("{to}/{}", entry.file_name().display()),
            )?;
        }
    }
    let sysusers = tree().join("debian/tix.sysusers.conf");
    sh(&format!("systemd-sysusers {}", sysusers.display()))?.ok()?;
    until("alice and bob are logged in", PATIENCE, || {
        let tree = tixctl("tree --json")?.ok()?.out;
        Ok(["user-1000.slice", "user-1001.slice"]
            .iter()
            .all(|slice| tree.contains(slice)))
    })
}

/// A check for each page. One that leaves something behind may fail the next.
pub fn all(c: &mut Checks) {
    for (name, text) in PAGES {
        match Page::read(text) {
            Ok(page) => {
                for block in &page.left_out {
                    let what = format!("{name}:{} ({} commands)", block.line, block.commands);
                    c.skip(&what, &block.why);
                }
                c.check(name, || typed(name, text, &page));
            }
            Err(e) => c.check(name, || Err(e)),
        }
    }
}

fn typed(name: &str, text: &str, page: &Page) -> Result<()> {
    ensure!(!page.steps.is_empty(), "nothing to type");
    let mut shells = BTreeMap::new();
    let (mut wrong, mut printed) = (Vec::new(), Vec::new());
    for step in &page.steps {
        let said = ask(&mut shells, step).with_context(|| format!("{name}:{}", step.line))?;
        let lines = said.out.lines().chain(said.err.lines()).collect::<Vec<_>>();
        let shown = judge(step, &said, &lines);
        if step.shows.is_some() {
            let shown = shown.as_ref().ok().cloned();
            printed.push((step.line, shown.unwrap_or_else(|| step.shortened(&lines))));
        }
        if let Err(e) = shown {
            wrong.push(format!(
                "{name}:{}: {}\n{e:#}\nwhat it printed:\n{}",
                step.line,
                step.command,
                lines.join("\n")
            ));
        }
    }
    eprintln!("       {} commands of {name}", page.steps.len());
    if std::env::var_os("TIX_WRITE_PAGES").is_some() {
        let path = tree().join(name);
        fs::create_dir_all(path.parent().context("no directory")?)?;
        fs::write(&path, rewritten(text, &page.steps, &printed))?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// Each user has one terminal for a page.
fn ask(shells: &mut BTreeMap<String, Shell>, step: &Step) -> Result<Said> {
    if !shells.contains_key(&step.user) {
        shells.insert(step.user.clone(), Shell::login(&step.user)?);
    }
    let shell = shells.get_mut(&step.user).context("no shell")?;
    shell.types(&step.command)
}

/// What the page shows of it, as printed this time.
fn judge(step: &Step, said: &Said, lines: &[&str]) -> Result<Vec<String>> {
    ensure!(
        (said.status != 0) == step.fails(),
        "it exits with {}, and the page says that it {}",
        said.status,
        if step.fails() {
            "fails"
        } else {
            "does not fail"
        }
    );
    step.compare(lines)
}

/// What pages started has ended with them: nobody computes, and nobody holds what they gave.
pub fn over() -> Result<()> {
    until("nothing that a page started runs", PATIENCE, || {
        Ok(sh("pgrep -x sha256sum")?.status == 1)
    })
}
