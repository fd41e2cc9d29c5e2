// SPDX-License-Identifier: GPL-2.0-only
//! Programs that want all they can get, run by users in their own slices, and what they got.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bound;
use crate::daemon::{read, run, until};
use crate::load::sys;

/// A busy loop as a unit of the user's own systemd, until dropped.
pub struct Hog {
    user: String,
    unit: String,
    /// Its cgroup, relative to the root.
    pub cgroup: String,
}

impl Hog {
    pub fn start(user: &str, unit: &str) -> Result<Hog> {
        Self::several(user, unit, 1)
    }

    /// So many busy threads in one unit.
    pub fn several(user: &str, unit: &str, threads: usize) -> Result<Hog> {
        let more = "while :; do :; done & ".repeat(threads - 1);
        let machine = format!("{user}@");
        run(Command::new("systemd-run").args([
            "--user",
            "-M",
            &machine,
            "-q",
            "--unit",
            unit,
            "/bin/sh",
            "-c",
            &format!("{more}while :; do :; done"),
        ]))?
        .ok()?;
        let uid = if user == "alice" { 1000 } else { 1001 };
        let hog = Hog {
            user: user.into(),
            unit: unit.into(),
            cgroup: format!(
                "/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/{unit}.service"
            ),
        };
        until("the hog runs", Duration::from_secs(30), || {
            Ok(used(&hog.cgroup).is_ok_and(|n| n > 100_000))
        })?;
        Ok(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let machine = format!("{}@", self.user);
        let args = ["--user", "-M", &machine, "stop", &self.unit];
        // What it is measured for is over; the guest's end ends it for sure.
        let _ = run(Command::new("systemctl").args(args));
    }
}

/// CPU time of a cgroup with all below it, microseconds.
pub fn used(cgroup: &str) -> Result<u64> {
    let text = read(&format!("/sys/fs/cgroup{cgroup}/cpu.stat"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
    Ok(line.context("no usage_usec")?.parse()?)
}

/// What two had had at moments that follow each other closely.
#[derive(Default)]
pub struct Trace(Vec<(Instant, [u64; 2])>);

impl Trace {
    /// Ten times a second until it is `over`; from the moment of its reading on nobody else runs, so both are read at once.
    pub fn until(of: [&str; 2], over: &AtomicBool) -> Result<Trace> {
        sys::become_fifo(1)?;
        let mut trace = Trace::default();
        while !over.load(Ordering::SeqCst) {
            trace.0.push((Instant::now(), [used(of[0])?, used(of[1])?]));
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(trace)
    }

    /// What they had from `before` until `after` that moment.
    pub fn around(&self, moment: Instant, before: Duration, after: Duration) -> Result<Had> {
        let from = self.0.iter().rfind(|(at, _)| *at + before <= moment);
        let to = self.0.iter().find(|(at, _)| *at >= moment + after);
        let first = from.or(self.0.first()).context("nothing was seen")?.1;
        let last = to.or(self.0.last()).context("nothing was seen")?.1;
        let got = [last[0] - first[0], last[1] - first[1]];
        let all = (got[0] + got[1]) as f64;
        ensure!(all > 0.0, "neither had anything");
        Ok(Had {
            parts: got.map(|n| n as f64 / all).to_vec(),
            all_ms: all / 1e3,
            unseen_ms: 0.0,
        })
    }
}

/// CPU time of some cgroups so far, microseconds, and how long it took to look: so much may lie
/// between the first one's and the last one's.
struct Look {
    used: Vec<u64>,
    took: Duration,
}

fn look(of: &[String]) -> Result<Look> {
    let start = Instant::now();
    let used: Result<Vec<u64>> = of.iter().map(|path| used(path)).collect();
    Ok(Look {
        used: used?,
        took: start.elapsed(),
    })
}

/// What each of several cgroups got of what all of them got, while this counts.
pub struct Meter {
    of: Vec<String>,
    from: Look,
    since: Instant,
}

impl Meter {
    pub fn start<'a>(of: impl IntoIterator<Item = &'a str>) -> Result<Meter> {
        let of: Vec<String> = of.into_iter().map(str::to_owned).collect();
        let from = look(&of)?;
        let since = Instant::now();
        Ok(Meter { of, from, since })
    }

    fn got_until(&self, now: &Look) -> Vec<u64> {
        let both = now.used.iter().zip(&self.from.used);
        both.map(|(now, from)| now - from).collect()
    }

    /// CPU time of each so far, microseconds.
    pub fn got(&self) -> Result<Vec<u64>> {
        Ok(self.got_until(&look(&self.of)?))
    }

    pub fn had(&self) -> Result<Had> {
        let now = look(&self.of)?;
        let got = self.got_until(&now);
        let all = got.iter().sum::<u64>().max(1) as f64;
        Ok(Had {
            parts: got.iter().map(|n| *n as f64 / all).collect(),
            all_ms: all / 1e3,
            unseen_ms: (self.from.took + now.took).as_secs_f64() * 1e3,
        })
    }

    /// Counts until all together have had `time` of CPU, and no longer than `patience`.
    pub fn over(&self, time: Duration, patience: Duration) -> Result<Had> {
        let enough = time.as_micros() as u64;
        until("all together had that much", patience, || {
            Ok(self.got()?.iter().sum::<u64>() >= enough)
        })?;
        self.had()
    }

    pub fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
}

/// What each had of what all had together.
#[derive(Clone, Debug)]
pub struct Had {
    pub parts: Vec<f64>,
    all_ms: f64,
    /// While it was looked at one of them, another one may have run for so long.
    unseen_ms: f64,
}

impl Had {
    /// The one of that number had the part that is due to it; on one CPU, and by tickets (`bound`).
    pub fn due(&self, what: &str, number: usize, due: f64) -> Result<()> {
        self.within(what, number, due, bound::stray_ms(due, bound::OTHERS))
    }

    /// No less than that but for this part of it, beside others that contend for locks: what they
    /// lose by it is left to whoever is measured.
    pub fn at_least(&self, what: &str, number: usize, due: f64, lost: f64) -> Result<()> {
        let least_ms = -due * lost * self.all_ms;
        self.between(what, number, due, (least_ms, f64::INFINITY))
    }

    /// The same, around an exchange of schedulers: for so long the kernel's own may have given all
    /// the same.
    pub fn due_but_for(&self, what: &str, number: usize, due: f64, gap_ms: f64) -> Result<()> {
        let alike = 1.0 / self.parts.len() as f64;
        let lost_ms = (due - alike).abs() * gap_ms;
        self.within(
            what,
            number,
            due,
            bound::stray_ms(due, bound::OTHERS) + lost_ms,
        )
    }

    /// The same, where there is no scheduler of tix's and `cpu.weight` does it.
    pub fn due_by_weight(&self, what: &str, number: usize, due: f64) -> Result<()> {
        self.within(what, number, due, bound::stray_by_weight_ms(due))
    }

    fn within(&self, what: &str, number: usize, due: f64, most_ms: f64) -> Result<()> {
        self.between(what, number, due, (-most_ms, most_ms))
    }

    fn between(
        &self,
        what: &str,
        number: usize,
        due: f64,
        (least, most): (f64, f64),
    ) -> Result<()> {
        let part = self.parts[number];
        let off_ms = (part - due) * self.all_ms;
        let (least, most) = (least - self.unseen_ms, most + self.unseen_ms);
        let said = format!(
            "{what}: {:.3} %, due {:.3} %; of {:.0} ms {off_ms:+.2} ms off, {least:+.2} … {most:+.2} may be",
            part * 100.0,
            due * 100.0,
            self.all_ms
        );
        eprintln!("       {said}");
        ensure!((least..=most).contains(&off_ms), "{said}");
        Ok(())
    }
}

/// `part` is what it should be, or `most` more or less.
pub fn near(what: &str, part: f64, ideal: f64, most: f64) -> Result<()> {
    let [part, ideal, most] = [part, ideal, most].map(|n| n * 100.0);
    let said = format!("{what}: {part:.2} %, due {ideal:.2} %, {most:.2} more or less at most");
    eprintln!("       {said}");
    ensure!((part - ideal).abs() <= most, "{said}");
    Ok(())
}
