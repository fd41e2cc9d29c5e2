// SPDX-License-Identifier: GPL-2.0-only
//! Programs that want all they can get, run by users in their own slices, and what they got.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::daemon::{read, run, until, wait};
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

/// What the first of two got of what both got, while this counts.
pub struct Split<'a> {
    of: [&'a str; 2],
    from: [u64; 2],
    since: Instant,
}

impl<'a> Split<'a> {
    pub fn between(a: &'a str, b: &'a str) -> Result<Split<'a>> {
        Ok(Split {
            of: [a, b],
            from: [used(a)?, used(b)?],
            since: Instant::now(),
        })
    }

    /// The first one's part so far, 0 … 1.
    pub fn part(&self) -> Result<f64> {
        let got: Vec<u64> = (self.of.iter().zip(self.from))
            .map(|(path, from)| Ok(used(path)? - from))
            .collect::<Result<_>>()?;
        Ok(got[0] as f64 / (got[0] + got[1]).max(1) as f64)
    }

    /// Counts until both together have had `time` of CPU, and no longer than `patience`.
    pub fn over(&self, time: Duration, patience: Duration) -> Result<f64> {
        let enough = time.as_micros() as u64;
        wait("both together had that much", patience, || {
            let had: u64 = used(self.of[0])? + used(self.of[1])?;
            Ok((had - self.from[0] - self.from[1] >= enough).then_some(()))
        })?;
        self.part()
    }

    pub fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
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

    /// The first one's part from `before` until `after` that moment, 0 … 1.
    pub fn around(&self, moment: Instant, before: Duration, after: Duration) -> Result<f64> {
        let from = self.0.iter().rfind(|(at, _)| *at + before <= moment);
        let to = self.0.iter().find(|(at, _)| *at >= moment + after);
        let first = from.or(self.0.first()).context("nothing was seen")?.1;
        let last = to.or(self.0.last()).context("nothing was seen")?.1;
        let got = [last[0] - first[0], last[1] - first[1]];
        ensure!(got[0] + got[1] > 0, "neither had anything");
        Ok(got[0] as f64 / (got[0] + got[1]) as f64)
    }
}

/// What each of several cgroups got of what all of them got, while this counts.
pub struct Meter {
    of: Vec<String>,
    from: Vec<u64>,
}

impl Meter {
    pub fn start<'a>(of: impl IntoIterator<Item = &'a str>) -> Result<Meter> {
        let of: Vec<String> = of.into_iter().map(str::to_owned).collect();
        let from = of.iter().map(|path| used(path)).collect::<Result<_>>()?;
        Ok(Meter { of, from })
    }

    /// CPU time of each so far, microseconds.
    pub fn got(&self) -> Result<Vec<u64>> {
        let both = self.of.iter().zip(&self.from);
        both.map(|(path, from)| Ok(used(path)? - from)).collect()
    }

    pub fn parts(&self) -> Result<Vec<f64>> {
        let got = self.got()?;
        let all = got.iter().sum::<u64>().max(1) as f64;
        Ok(got.iter().map(|n| *n as f64 / all).collect())
    }

    /// Counts until all together have had `time` of CPU, and no longer than `patience`.
    pub fn over(&self, time: Duration, patience: Duration) -> Result<Vec<f64>> {
        let enough = time.as_micros() as u64;
        until("all together had that much", patience, || {
            Ok(self.got()?.iter().sum::<u64>() >= enough)
        })?;
        self.parts()
    }
}

/// `part` is what is due, within `hundredths` of that.
pub fn due(what: &str, part: f64, due: f64, hundredths: f64) -> Result<()> {
    let off = (part / due - 1.0) * 100.0;
    eprintln!(
        "       {what}: {:.3} %, due {:.3} %, off by {off:+.2} %",
        part * 100.0,
        due * 100.0
    );
    ensure!(
        off.abs() <= hundredths,
        "{what}: {:.3} % instead of {:.3} %, off by {off:+.2} %",
        part * 100.0,
        due * 100.0
    );
    Ok(())
}

/// `part` is what it should be, within `points` hundredths.
pub fn near(what: &str, part: f64, ideal: f64, points: f64) -> Result<()> {
    eprintln!(
        "       {what}: {:.2} %, due {:.2} %",
        part * 100.0,
        ideal * 100.0
    );
    ensure!(
        (part - ideal).abs() * 100.0 <= points,
        "{what}: {:.2} %, not {:.2} % within {points} points",
        part * 100.0,
        ideal * 100.0
    );
    Ok(())
}
