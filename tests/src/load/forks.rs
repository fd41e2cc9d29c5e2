// SPDX-License-Identifier: GPL-2.0-only
//! A crowd of next to no share that forks all the time, and so holds the kernel's locks all the time: the semaphore that whoever forks
//! reads and who moves a process between cgroups writes, and those of the files that its memory is of. Another with nearly all shares
//! moves between cgroups, and starts programs from the same files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::report::{Table, columns};
use super::sys;

/// Between two moves or starts, ns: time that the crowd has for itself.
const PAUSE: u64 = 20_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forks {
    /// The longest that each took, and how many there were.
    pub move_ms: f64,
    pub moves: u64,
    pub start_ms: f64,
    pub starts: u64,
    /// Of a cgroup that is made and removed.
    pub make_ms: f64,
    pub makes: u64,
    /// Children of the crowd that came and went, and all else that it did.
    pub forks: u64,
}

/// For `seconds`, beside a crowd of so many. `mixed`: a third of them forks, one moves between cgroups, and one makes and removes some.
pub fn run(root: &Path, crowd: usize, mixed: bool, seconds: f64) -> Result<Forks> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(crowd + 3)?;
    let place = arena.add("crowd".as_ref(), 1)?;
    let own = ["a", "b"].map(|name| place.join(name));
    own.iter().try_for_each(std::fs::create_dir)?;
    let dir = cgroups::open(&place)?;
    for i in 0..crowd {
        match i % 3 {
            1 if mixed => {
                crew.spawn(Some(&dir), 0, |me| make_on(me, &place.join(i.to_string())))?
            }
            2 if mixed => crew.spawn(Some(&dir), 0, |me| move_on(me, &own))?,
            _ => crew.spawn(Some(&dir), 0, fork_on)?,
        };
    }
    let [here, there] = ["here", "there"].map(|name| arena.add(name.as_ref(), 10_000));
    let (here, there) = (here?, there?);
    let made = here.join("made");
    let dir = cgroups::open(&here)?;
    let doors = [there, here].map(|dir| dir.join("cgroup.procs"));
    let mover = crew.spawn(Some(&dir), 0, move |me| {
        for door in doors.iter().cycle() {
            each(me, || std::fs::write(door, "0").is_ok());
        }
    })?;
    let program = std::env::current_exe()?;
    let starter = crew.spawn(Some(&dir), 0, move |me| {
        loop {
            let mut start = Command::new(&program);
            start.arg("--version").stdout(Stdio::null());
            each(me, || start.status().is_ok_and(|s| s.success()));
        }
    })?;
    let maker = crew.spawn(Some(&dir), 0, |me| {
        loop {
            each(me, || {
                std::fs::create_dir(&made).is_ok() && std::fs::remove_dir(&made).is_ok()
            });
        }
    })?;
    crew.muster()?;
    crew.open(0);
    sys::sleep((seconds * 1e9) as u64);
    let done = |member: usize| {
        let slot = crew.slot(member);
        let longest = slot.wait.load(Ordering::Relaxed);
        // One that is not over yet has taken so long at least.
        let begun = slot.seen.load(Ordering::Relaxed);
        let now = sys::now().saturating_sub(begun);
        (
            longest.max(now) as f64 / 1e6,
            slot.count.load(Ordering::Relaxed),
        )
    };
    let [(move_ms, moves), (start_ms, starts), (make_ms, makes)] =
        [mover, starter, maker].map(done);
    let forks = (0..crowd).map(|m| done(m).1).sum();
    // Else the crowd has next to no CPU to end in.
    for member in [mover, starter, maker] {
        crew.dismiss(member)?;
    }
    ensure!(
        moves > 1 && starts > 1 && makes > 1,
        "{moves} moves, {starts} starts, {makes} cgroups"
    );
    Ok(Forks {
        move_ms,
        moves,
        start_ms,
        starts,
        make_ms,
        makes,
        forks,
    })
}

/// Do it once, and note how long it took; one that failed counts as an hour.
fn each(me: &Me, done: impl FnOnce() -> bool) {
    let began = sys::now();
    me.seen.store(began, Ordering::Relaxed);
    let took = if done() {
        sys::now() - began
    } else {
        3_600_000_000_000
    };
    me.seen.store(u64::MAX, Ordering::Relaxed);
    me.wait.fetch_max(took, Ordering::Relaxed);
    me.count.fetch_add(1, Ordering::Relaxed);
    sys::sleep(PAUSE);
}

fn fork_on(me: &Me) {
    loop {
        match sys::fork(None) {
            Ok(0) => sys::leave(),
            // It was just made.
            Ok(pid) => drop(sys::reap(pid)),
            Err(_) => return,
        }
        me.count.fetch_add(1, Ordering::Relaxed);
    }
}

fn make_on(me: &Me, dir: &Path) {
    while std::fs::create_dir(dir).is_ok() && std::fs::remove_dir(dir).is_ok() {
        me.count.fetch_add(1, Ordering::Relaxed);
    }
}

fn move_on(me: &Me, between: &[PathBuf; 2]) {
    for dir in between.iter().cycle() {
        if std::fs::write(dir.join("cgroup.procs"), "0").is_err() {
            return;
        }
        me.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Table for Forks {
    fn table(&self) -> String {
        let row = |what: &str, ms: f64, times: u64| {
            vec![what.to_owned(), format!("{ms:.1}"), times.to_string()]
        };
        let rows = [
            row("move to another cgroup", self.move_ms, self.moves),
            row("start a program", self.start_ms, self.starts),
            row("make a cgroup", self.make_ms, self.makes),
        ];
        format!(
            "{}{} rounds of the crowd\n",
            columns(&["beside a crowd that forks", "longest ms", "times"], &rows),
            self.forks
        )
    }
}
