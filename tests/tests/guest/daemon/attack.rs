// SPDX-License-Identifier: GPL-2.0-only
//! A user who does all the harm that a user can. Nobody else has less by it, and root is still heard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tix_tests::bound;
use tix_tests::daemon::{Said, enabled_so_often, in_force, read, sh, tixctl, until};
use tix_tests::daemon_load::{Had, Meter};

use super::service::{PATIENCE, SOCKET};
use super::story::Story;
use super::users::{ALICE, BOB};

const PROGRAM: &str = "/usr/local/bin/tix-attack";
const COUNTS: &str = "/tmp/attack.counts";
const TIXD: &str = "/system.slice/tixd.service";
/// How soon root is to be answered. Time is the guest's, whose clock counts instructions.
const SOON: Duration = Duration::from_secs(1);
/// No attack takes more of what somebody is due in 10 s and more.
const LOST: f64 = 0.01;
/// A login is nine tenths of a second of CPU time on that clock, with nobody else there: what the attack adds is less than twice
/// what it takes while users are busy.
const LONGER: u32 = 3;

fn timed(line: &str) -> Result<Duration> {
    let start = Instant::now();
    sh(line)?.ok()?;
    Ok(start.elapsed())
}

/// How long root waits each time.
struct Answers {
    status: Vec<Duration>,
    login: Vec<Duration>,
    /// For a file of the cgroup tree, whose locks the attacker's processes hold again and again, the longest.
    file: Duration,
}

impl Answers {
    /// The longest wait for tixd.
    fn status(&self) -> Duration {
        longest(&self.status)
    }

    /// The longest wait for a login.
    fn login(&self) -> Duration {
        longest(&self.login)
    }
}

fn longest(waits: &[Duration]) -> Duration {
    waits.iter().copied().max().unwrap_or_default()
}

fn answers(times: usize) -> Result<Answers> {
    let mut all = Answers {
        status: vec![],
        login: vec![],
        file: Duration::ZERO,
    };
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let file = scope.spawn(|| files(&enough));
        let done: Result<()> = (0..times).try_for_each(|_| {
            for _ in 0..3 {
                all.status.push(timed("tixctl status")?);
            }
            all.login.push(timed("su - root -c true")?);
            Ok(())
        });
        enough.store(true, Ordering::Relaxed);
        all.file = file.join().map_err(|_| anyhow!("a panic"))??;
        done
    })?;
    Ok(all)
}

/// Opens a file of the cgroup tree again and again: the longest that it took.
fn files(enough: &AtomicBool) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    while !enough.load(Ordering::Relaxed) {
        let start = Instant::now();
        read(&format!("/sys/fs/cgroup{TIXD}/cpu.weight"))?;
        longest = longest.max(start.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(longest)
}

pub fn all(story: &mut Story) -> Result<()> {
    std::fs::copy(env!("CARGO_BIN_EXE_tix-attack"), PROGRAM).context("copy the attacker")?;
    let seq = enabled_so_often()?;
    // Root is logged in already: what starts with the first login (a systemd of root's own) is no part of another.
    sh("loginctl enable-linger root")?.ok()?;
    answers(1)?;
    let quiet = answers(2)?;
    eprintln!(
        "       status, login, a cgroup's file in peace: {:.0?}, {:.1?}, {:.0?}",
        quiet.status, quiet.login, quiet.file
    );
    let line = format!(
        "systemd-run --user -q --unit attack -p Delegate=yes {PROGRAM} --socket {SOCKET} --counts {COUNTS} --from bob"
    );
    story.bob.types(&line)?.ok()?;
    let measured = measure();
    // Not by bob, who has to wait for his turn among his own.
    let unit = format!("/sys/fs/cgroup{BOB}/user@1001.service/app.slice/attack.service");
    let ended = std::fs::write(format!("{unit}/cgroup.kill"), "1").context("end the attack");
    if let Err(why) = &ended {
        eprintln!("       {why:#}");
    }
    let (had, answers) = measured?;
    ended?;
    had.at_least("alice's", 0, 0.75, LOST)?;
    ensure!(in_force() && enabled_so_often()? == seq, "tix was ejected");
    ensure!(
        answers.status() < SOON,
        "tixctl status took {:?}",
        answers.status
    );
    // The attacker's processes have the lock one after another, and nothing says how many: proven is
    // only that none of them waits for a CPU for longer than this.
    ensure!(
        answers.file.as_secs_f64() * 1e3 < bound::STARVED_MS,
        "a cgroup's file took {:?}",
        answers.file
    );
    ensure!(
        answers.login() < LONGER * quiet.login(),
        "a login took {:?}, and {:?} in peace",
        answers.login(),
        quiet.login()
    );
    Ok(())
}

/// alice's part of what alice and bob had, and how long root waited.
fn measure() -> Result<(Had, Answers)> {
    until("the attack is under way, all of it", PATIENCE, || {
        let counts = std::fs::read_to_string(COUNTS).unwrap_or_default();
        Ok(!counts.is_empty() && counts.lines().all(|l| !l.ends_with(" 0")))
    })?;
    let meter = Meter::start([ALICE, BOB])?;
    let tixd = Meter::start([TIXD])?;
    let lent = || -> Result<f64> {
        let status = tixctl("status --json")?.ok()?.json()?;
        let usec = &status["tixd"]["scheduler"]["lent_usec"];
        Ok(usec.as_f64().context("no lent_usec")? / 1e6)
    };
    let before = lent()?;
    let start = Instant::now();
    let answers = answers(3)?;
    // So long that it counts for little what the attacker's many small principals are ahead or behind at either end.
    let had = meter.over(Duration::from_secs(30), Duration::from_secs(180))?;
    let took = start.elapsed().as_secs_f64();
    let alices = meter.got()?[0] as f64 / 1e6 / took;
    let tixds = tixd.got()?[0] as f64 / 1e6 / took;
    let lent = (lent()? - before) / took;
    let counts = read(COUNTS)?;
    eprintln!(
        "       in {took:.1} s: {}; alice had {:.2} % of the machine, tixd {:.2} %; {:.2} % was charged to who waited for a lock",
        counts.replace('\n', ", "),
        alices * 100.0,
        tixds * 100.0,
        lent * 100.0
    );
    eprintln!(
        "       status, login, a cgroup's file under attack: {:.0?}, {:.1?}, {:.0?}",
        answers.status, answers.login, answers.file
    );
    ensure!(!counts.is_empty(), "nothing was counted");
    for line in counts.lines() {
        ensure!(!line.ends_with(" 0"), "no {line}");
    }
    Ok((had, answers))
}

/// What is left of it goes, and tixd is well.
pub fn over(story: &mut Story) -> Result<()> {
    let _: Said = story.bob.types("systemctl --user reset-failed attack")?;
    for n in 0..17 {
        // Most are gone: it is chance which were alive when it was killed.
        let _: Said = story.bob.types(&format!("tixctl destroy attack-{n}"))?;
    }
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(
        status["tixd"]["problems"] == serde_json::json!([]),
        "{status}"
    );
    Ok(())
}
