// SPDX-License-Identifier: GPL-2.0-only
//! A process that commits is killed, again and again, and the next one goes on from what it left.
//!
//! Half of the kills come from outside, after a random number of acknowledgements; the other half
//! fall in the middle of a random write, sync or truncation, which a signal from outside would
//! hardly ever hit.

use crate::common::{Model, apply, dir, open};
use crate::vfs::Disk;
use crate::work::{Random, changes, commit, last, logged};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tix_store::Config;

const KILLS: u64 = 1_000;
const DIR: &str = "TIX_TEST_STORE";
const STEP: &str = "TIX_TEST_KILL_AT";

fn config() -> Config {
    Config {
        checkpoint_pages: 16,
        ..Config::default()
    }
}

/// The process that is killed: not a test of its own.
#[test]
#[ignore = "another test starts it"]
fn commits_until_it_is_killed() {
    let Ok(path) = std::env::var(DIR) else {
        return;
    };
    let path = Path::new(&path);
    if let Ok(step) = std::env::var(STEP) {
        let disk = Disk::at(path);
        disk.state().forget = true;
        disk.state().kill_at = Some(step.parse().unwrap());
    }
    let (mut store, model) = open(path, config()).unwrap();
    for n in last(&model) + 1.. {
        commit(&mut store, n).unwrap();
        // One write, so that it is all there or not at all.
        let line = format!("acknowledged {n}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// Starts it, has it killed, and tells which commit was the last that it acknowledged.
fn killed(path: &Path, random: &mut Random) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["kill::commits_until_it_is_killed", "--exact"])
        .args(["--ignored", "--nocapture"])
        .env(DIR, path)
        .stdout(Stdio::piped());
    let from_outside = random.below(2) == 0;
    if !from_outside {
        command.env(STEP, random.below(150).to_string());
    }
    let mut child = command.spawn().unwrap();
    let mut left = random.below(12);
    let mut acknowledged = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if from_outside && left == 0 {
            // What it has acknowledged meanwhile is still read.
            child.kill().unwrap();
        }
        left = left.saturating_sub(1);
        if let Some(n) = line.strip_prefix("acknowledged ") {
            acknowledged = Some(n.parse().unwrap());
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success(), "it ended by itself");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9),
        "{status}"
    );
    acknowledged
}

#[test]
fn killed_a_thousand_times_it_keeps_what_it_acknowledged() {
    let dir = dir();
    let mut random = Random(1);
    let (mut model, mut n) = (Model::new(), 0);
    for kill in 1..=KILLS {
        let acknowledged = killed(dir.path(), &mut random).unwrap_or(n);
        let (mut store, found) = open(dir.path(), config()).unwrap_or_else(|e| panic!("{e}"));
        let is = last(&found);
        assert!(
            is == acknowledged || is == acknowledged + 1,
            "kill {kill}: {is} commits are there, {acknowledged} were acknowledged"
        );
        for i in n + 1..=is {
            apply(&mut model, &changes(i));
        }
        assert_eq!(found, model, "kill {kill}");
        n = is;
        if kill % 50 == 0 {
            assert_eq!(logged(&store).last(), Some(&n));
            while store.prune(u64::MAX).unwrap() > 0 {}
        }
    }
    assert!(n > KILLS, "only {n} commits");
}
