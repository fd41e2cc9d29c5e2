// SPDX-License-Identifier: GPL-2.0-only
//! Tests of tixd and tixctl in a guest. The test program boots a guest that runs the same test of the same program again; there it
//! sees that it is inside and does the work, as root, with the real daemon under the real systemd (or without one).

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::guest::{kernel_under_test, tree, turn};
use crate::here::{INSIDE, RESTORED, program};
pub use crate::here::{is_guest, is_restored};
use crate::results::{SKIPPED, record_skipped, skipped};

/// Programs that tests start in a guest.
const PROGRAMS: [&str; 4] = ["tix-load", "tix-hog", "tix-hold", "tix-attack"];

/// What kind of guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Debian 13 with systemd, and its users alice and bob.
    Systemd,
    /// This machine's files and no first process but the test.
    Plain,
}

/// Runs `inside` in a guest of this `kind`. `test` is the name of the calling test, as `cargo test --exact` takes it.
pub fn in_guest(test: &str, kind: Kind, inside: impl FnOnce(&mut Checks)) {
    // A clock that counts instructions: a share is what it is, however busy this machine is.
    in_guest_with(test, kind, &["--icount", "3"], inside);
}

/// The same, in a guest that is restored with tixd up. A kernel under test is booted.
pub fn in_restored_guest(test: &str, kind: Kind, inside: impl FnOnce(&mut Checks)) {
    if is_guest() || kernel_under_test() {
        return in_guest(test, kind, inside);
    }
    let booted = || -> Result<()> {
        let mut options = vec!["--icount=3".into(), "--restored=tixd".into()];
        options.push(format!("--with={}", std::env::current_exe()?.display()));
        for name in PROGRAMS {
            options.push(format!("--with={}", program(name)?.display()));
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        boot(test, kind, &options)
    };
    booted().unwrap_or_else(|e| panic!("{e:#}"));
}

/// The same, with these options of `tests/vm/run` instead of a clock that counts instructions.
pub fn in_guest_with(test: &str, kind: Kind, options: &[&str], inside: impl FnOnce(&mut Checks)) {
    if is_guest() {
        let mut checks = Checks::default();
        inside(&mut checks);
        return checks.end();
    }
    boot(test, kind, options).unwrap_or_else(|e| panic!("{e:#}"));
}

/// Are the long tests wanted (`make soak`)?
pub fn soak() -> bool {
    std::env::var_os("TIX_SOAK").is_some()
}

fn boot(test: &str, kind: Kind, options: &[&str]) -> Result<()> {
    // In the guest a name that is none runs nothing, and that is well for the test program.
    let mut listed = Command::new(std::env::current_exe()?);
    listed.args(["--exact", test, "--ignored", "--list", "--format=terse"]);
    let listed = run(&mut listed)?.ok()?;
    ensure!(listed.out.trim() == format!("{test}: test"), "{listed:?}");
    build()?;
    let _turn = turn()?;
    let mut command = Command::new(tree().join("tests/vm/run"));
    command
        // This machine's time, of which others may take most: it ends who hangs, and judges nobody.
        .args(["--timeout", if soak() { "7200" } else { "3600" }])
        .args(options)
        .args((kind == Kind::Systemd).then_some("--systemd"))
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(INSIDE, "1");
    if options.iter().any(|o| o.starts_with("--restored")) {
        command.env(RESTORED, "1");
    }
    // What it says is seen as it says it: a guest that hangs has said where.
    let mut child = command.stderr(Stdio::piped()).spawn();
    let child = child.as_mut().map_err(|e| anyhow::anyhow!("{e}"));
    let child = child.context("run tests/vm/run")?;
    for line in BufReader::new(child.stderr.take().context("no pipe")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        if let Some(left_out) = line.strip_prefix(SKIPPED) {
            record_skipped(left_out);
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{test} in the guest ended with {status}");
    Ok(())
}

/// Which build of tixd and tixctl is tested: the one that is installed, unless `TIX_PROFILE=dev` says that time matters more.
fn profile() -> String {
    std::env::var("TIX_PROFILE").unwrap_or_else(|_| "release".into())
}

/// Once by each test program.
fn build() -> Result<()> {
    static BUILT: Mutex<bool> = Mutex::new(false);
    let mut built = BUILT.lock().expect("no builder panics");
    if *built {
        return Ok(());
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "-q", "--locked", "--profile", &profile()])
        .args(["-p", "tixd", "-p", "tixctl", "-p", "tix-negotiate"])
        .current_dir(tree())
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "tixd and tixctl do not build");
    *built = true;
    Ok(())
}

/// Where they are built.
fn built() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree().join("target"), PathBuf::from);
    target.join(if profile() == "dev" {
        "debug"
    } else {
        "release"
    })
}

/// tixd and tixctl, built first, for a guest that this machine's files are not in.
pub fn programs() -> Result<[PathBuf; 2]> {
    build()?;
    Ok(["tixd", "tixctl"].map(|name| built().join(name)))
}

/// Puts tixd, tixctl and the units where the package has them.
pub fn install() -> Result<()> {
    let built = built();
    let units = ["tixd.service", "tixd.socket", "tixd-root.socket"];
    let units = units.map(|name| (tree().join("debian").join(name), "/usr/lib/systemd/system"));
    let programs = [
        (built.join("tixd"), "/usr/sbin"),
        (built.join("tixctl"), "/usr/bin"),
        (built.join("tix-negotiate"), "/usr/bin"),
    ];
    for (from, to) in programs.into_iter().chain(units) {
        std::fs::create_dir_all(to)?;
        let to = Path::new(to).join(from.file_name().context("a file without a name")?);
        std::fs::copy(&from, &to)
            .with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Checks of one boot, in it or of what it said: each is done, whatever came of those before, and all that failed are named at the end.
#[derive(Debug, Default)]
pub struct Checks {
    failed: Vec<String>,
    skipped: usize,
    /// Those that prepare for others.
    setups: usize,
    done: usize,
}

impl Checks {
    pub fn check(&mut self, what: &str, f: impl FnOnce() -> Result<()>) {
        // TIX_ONLY=WORD does those alone whose name has the word, and those marked as always needed.
        let only = std::env::var("TIX_ONLY").unwrap_or_default();
        self.check_only(&only, what, f);
    }

    fn check_only(&mut self, only: &str, what: &str, f: impl FnOnce() -> Result<()>) {
        match (what.starts_with("setup"), what.contains(only)) {
            (true, _) => self.setups += 1,
            (false, true) => self.done += 1,
            (false, false) => return,
        }
        let start = Instant::now();
        let why = match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(format!("{e:#}")),
            Err(panic) => Some(
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                    .unwrap_or_else(|| "panicked".into()),
            ),
        };
        let word = if why.is_none() { "ok" } else { "FAILED" };
        eprintln!(
            "{word:6} {what} ({:.1} s){}{}",
            start.elapsed().as_secs_f64(),
            if why.is_none() { "" } else { ": " },
            why.as_deref().unwrap_or_default()
        );
        if let Some(why) = why {
            self.failed.push(format!("{what}: {why}"));
        }
    }

    /// Something that is not looked at here, and why. It is said, and counted at the end.
    pub fn skip(&mut self, what: &str, why: &str) {
        skipped(what, why);
        self.skipped += 1;
    }

    /// Fails if one of them did, and says which; or if there was none, be it that none has the word
    /// that is asked for.
    pub fn end(self) {
        let done = self.done + self.setups;
        assert!(
            self.failed.is_empty(),
            "{} of {done} checks failed:\n{}",
            self.failed.len(),
            self.failed.join("\n")
        );
        assert!(
            self.done > 0,
            "no check was done but {} setups: is there one with the word that TIX_ONLY says?",
            self.setups
        );
        eprintln!("{done} checks passed, {} skipped", self.skipped);
    }
}

/// A command, and what it said.
#[derive(Debug, Clone)]
pub struct Said {
    pub command: String,
    /// Exit status; -1 if a signal ended it.
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn ok(self) -> Result<Said> {
        self.exits(0)
    }

    pub fn exits(self, status: i32) -> Result<Said> {
        ensure!(
            self.status == status,
            "{} exits with {}, not {status}: {}{}",
            self.command,
            self.status,
            self.out,
            self.err
        );
        Ok(self)
    }

    /// Refused: exit status 1, a reason with these words in it on standard error, and what to do.
    pub fn refused(self, words: &[&str]) -> Result<Said> {
        let said = self.exits(1)?;
        for word in words.iter().chain(&["error:", "hint:"]) {
            ensure!(
                said.err.contains(word),
                "{}: there is no {word:?} in {:?}",
                said.command,
                said.err
            );
        }
        Ok(said)
    }

    pub fn has(self, word: &str) -> Result<Said> {
        ensure!(
            self.out.contains(word),
            "{}: there is no {word:?} in {:?}",
            self.command,
            self.out
        );
        Ok(self)
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out)
            .with_context(|| format!("{} prints {:?}", self.command, self.out))
    }
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Result<Said> {
    let shown = format!("{command:?}").replace('"', "");
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {shown}"))?;
    Ok(Said {
        command: shown,
        status: status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// A command line of words without blanks in them.
pub fn sh(line: &str) -> Result<Said> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().context("an empty command")?);
    run(command.args(words))
}

pub fn tixctl(arguments: &str) -> Result<Said> {
    sh(&format!("tixctl {arguments}"))
}

/// Waits until `probe` has an answer.
pub fn wait<T>(
    what: &str,
    patience: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let until = Instant::now() + patience;
    loop {
        let start = Instant::now();
        if let Some(found) = probe()? {
            return Ok(found);
        }
        if Instant::now() >= until {
            bail!("after {} s still not: {what}", patience.as_secs());
        }
        // Looking must not keep what is looked for from happening.
        std::thread::sleep(start.elapsed().max(Duration::from_millis(50)) * 2);
    }
}

/// [`wait`] for a condition.
pub fn until(
    what: &str,
    patience: Duration,
    mut probe: impl FnMut() -> Result<bool>,
) -> Result<()> {
    wait(what, patience, || Ok(probe()?.then_some(())))
}

/// A file's text without the last line end.
pub fn read(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    Ok(text.trim_end().to_owned())
}

/// The currency called `name` in `tixctl tree --json`.
pub fn currency(name: &str) -> Result<Option<Value>> {
    let tree = tixctl("tree --json")?.ok()?.json()?;
    let list = tree["currencies"].as_array().context("no list")?;
    Ok(list.iter().find(|c| c["name"] == name).cloned())
}

/// How many cpu tickets of `issuer` it has, by that tree.
pub fn tickets(holder: &str, issuer: &str) -> Result<u64> {
    let holder = currency(holder)?.with_context(|| format!("there is no {holder}"))?;
    let funding = holder["funding"].as_array().context("no funding")?;
    let of = funding
        .iter()
        .filter(|f| f["from"] == issuer && f["resource"] == "cpu");
    Ok(of.filter_map(|f| f["amount"].as_u64()).sum())
}

/// How often a scheduler was enabled since boot: it stays while the same one is in force.
pub fn enabled_so_often() -> Result<u64> {
    Ok(read("/sys/kernel/sched_ext/enable_seq")?.parse()?)
}

/// The kernel's word on whether tix is in force.
pub fn in_force() -> bool {
    let file = |name: &str| read(&format!("/sys/kernel/sched_ext/{name}")).unwrap_or_default();
    file("state") == "enabled" && file("root/ops") == "tix"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(checks: Checks) -> bool {
        catch_unwind(AssertUnwindSafe(|| checks.end())).is_ok()
    }

    #[test]
    fn checks_that_did_nothing_fail() {
        assert!(!passes(Checks::default()));
        let done = |only: &str| {
            let mut checks = Checks::default();
            checks.check_only(only, "setup: a machine", || Ok(()));
            checks.check_only(only, "a promise", || Ok(()));
            checks
        };
        assert!(passes(done("")) && passes(done("promise")));
        assert!(!passes(done("premise")), "no check has that word");
        // A setup is no check, though it may have the word.
        assert!(!passes(done("machine")));
        // What is left out is no check either.
        let skipped = Checks {
            skipped: 1,
            ..Checks::default()
        };
        assert!(!passes(skipped));
    }

    #[test]
    fn checks_that_fail_are_named() {
        let mut checks = Checks::default();
        checks.check_only("", "kept", || Ok(()));
        checks.check_only("", "broken", || bail!("not kept"));
        checks.check_only("", "panicked", || panic!("at once"));
        let failed = catch_unwind(AssertUnwindSafe(|| checks.end())).unwrap_err();
        let said = failed.downcast_ref::<String>().unwrap();
        assert!(said.starts_with("2 of 3 checks failed"), "{said}");
        assert!(said.contains("broken: not kept") && said.contains("panicked: at once"));
    }
}
