// SPDX-License-Identifier: GPL-2.0-only
//! How far it is, for who watches.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub struct Progress {
    done: AtomicUsize,
    all: usize,
    shown: bool,
}

impl Progress {
    pub fn of(all: usize) -> Progress {
        Progress {
            done: AtomicUsize::new(0),
            all,
            shown: std::io::stderr().is_terminal(),
        }
    }

    /// One more of many: a bar, on a terminal.
    pub fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.shown {
            let bar = "#".repeat(done * 40 / self.all);
            eprint!("\r[{bar:40}] {done} of {}", self.all);
            // What cannot be shown is not missed.
            let _ = std::io::stderr().flush();
            if done == self.all {
                eprintln!();
            }
        }
    }

    /// One more of few, which takes long: a line each.
    pub fn line(&self, what: &str, since: Instant) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let took = since.elapsed().as_secs_f64();
        eprintln!("{done} of {}: {what} ({took:.0} s)", self.all);
    }
}
