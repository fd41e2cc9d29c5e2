// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan and Seltzer's Figures 1, 2 and 4, and two users who pool, typed as people would. What each task gets is what its
//! tickets say, within 2 % of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::bound;
use tix_tests::daemon::{currency, enabled_so_often, in_force, read, sh, tickets, tixctl, until};
use tix_tests::daemon_load::{Had, Meter, near};
use tix_tests::shell::{Job, Shell};

use super::service::{PATIENCE, another, pid};
use super::users::{ALICE, BOB};

const HOG: &str = "sh -c 'while :; do :; done'";
/// CPU time of all together in which shares are measured: of a twelfth, 2 % are many turns.
const TIME: Duration = Duration::from_secs(5);
/// What base has given to each, of what it has given to both.
const ALICES: f64 = 0.75;
const BOBS: f64 = 0.25;
const LONG: Duration = Duration::from_secs(120);

/// alice and bob at their terminals, and what they have started.
pub struct Story {
    pub alice: Shell,
    pub bob: Shell,
    tasks: Vec<Job>,
}

impl Story {
    fn task(&self, name: &str) -> Result<Job> {
        let found = self.tasks.iter().find(|j| j.name == name);
        found
            .cloned()
            .with_context(|| format!("there is no {name}"))
    }

    /// What tasks get of what they all get, by name, and what is due to each.
    fn measure(&self, of: &[(&str, f64)]) -> Result<()> {
        measure(
            &of.iter()
                .map(|(name, part)| Ok((*name, self.task(name)?.cgroup, *part)))
                .collect::<Result<Vec<_>>>()?,
            TIME,
        )
    }

    /// The same, but hog has this part of the machine, whoever else runs: of what is measured that is more, by as much as others
    /// have, such as tixd and who is measuring.
    fn measure_beside_hog(&self, part: f64, others: &[(&str, f64)]) -> Result<()> {
        let hog = self.task("hog")?.cgroup;
        let mut paths = vec![hog];
        for (name, _) in others {
            paths.push(self.task(name)?.cgroup);
        }
        let meter = Meter::start(paths.iter().map(String::as_str))?;
        let machine = Meter::start([""])?;
        let had = meter.over(TIME, LONG)?;
        of_machine("hog, of the machine", &meter, &machine, part)?;
        for (n, (name, ideal)) in others.iter().enumerate() {
            had.due(name, n + 1, *ideal)?;
        }
        Ok(())
    }

    fn alice_runs(&mut self, name: &str, tickets: u32) -> Result<()> {
        let line = format!("tixctl run --name {name} --cpu {tickets} --from alice -- {HOG}");
        self.tasks.push(self.alice.starts(name, &line)?);
        Ok(())
    }

    fn bob_runs(&mut self, name: &str, tickets: u32) -> Result<()> {
        let line = format!("tixctl run --name {name} --cpu {tickets} --from bob -- {HOG}");
        self.tasks.push(self.bob.starts(name, &line)?);
        Ok(())
    }

    fn bob_ends(&mut self, name: &str) -> Result<()> {
        let job = self.task(name)?;
        self.tasks.retain(|j| j.name != name);
        self.bob.ends(job)
    }
}

/// The entitlement of a currency, as a part of the machine.
fn entitled(name: &str) -> Result<f64> {
    let c = currency(name)?.with_context(|| format!("there is no {name}"))?;
    c["cpu"]["entitlement"].as_f64().context("no entitlement")
}

/// All soft tickets for cpu that base has issued.
fn issued() -> Result<f64> {
    let status = tixctl("status --json")?.ok()?.json()?;
    status["tixd"]["base_tickets"]
        .as_f64()
        .context("no base_tickets")
}

/// What these get of what they all get is in the ratio of these parts.
fn measure(of: &[(&str, String, f64)], time: Duration) -> Result<()> {
    let meter = Meter::start(of.iter().map(|(_, path, _)| path.as_str()))?;
    compare(of, &meter.over(time, LONG)?)
}

/// The first of those has its part of all CPU time. The kernel counts that of the whole machine by
/// ticks: at either end it may be one off.
fn of_machine(what: &str, meter: &Meter, machine: &Meter, part: f64) -> Result<()> {
    let (got, all) = (meter.got()?[0] as f64, machine.got()?[0] as f64);
    let most_ms = bound::stray_ms(part, bound::OTHERS) + 2.0 * bound::TICK_MS;
    near(what, got / all, part, most_ms * 1e3 / all)
}

fn compare(of: &[(&str, String, f64)], had: &Had) -> Result<()> {
    let all: f64 = of.iter().map(|(_, _, part)| part).sum();
    let each = of.iter().enumerate();
    let wrong: Vec<String> = each
        .filter_map(|(n, (name, _, part))| had.due(name, n, part / all).err())
        .map(|e| e.to_string())
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// Root gives each user a currency of base's.
pub fn fund() -> Result<()> {
    for (name, slice, amount) in [("alice", ALICE, 300), ("bob", BOB, 100)] {
        tixctl(&format!("create {name} --owner {name}"))?.ok()?;
        tixctl(&format!("fund {name} --from base cpu {amount}"))?.ok()?;
        tixctl(&format!("bind {name} {slice}"))?.ok()?;
    }
    // For what this test does itself, so that it need not wait for its turn when others take all they can get.
    let own = read("/proc/self/cgroup")?;
    let own = own.strip_prefix("0::").context("no cgroup v2")?;
    tixctl(&format!("fund {own} --from base cpu 100"))?.ok()?;
    Ok(())
}

/// bob has a quarter, task3 two thirds of that.
pub fn figure1(story: &mut Option<Story>) -> Result<()> {
    let story = story.insert(Story {
        alice: Shell::login("alice")?,
        bob: Shell::login("bob")?,
        tasks: vec![],
    });
    story.alice_runs("task1", 100)?;
    story.bob_runs("task2", 100)?;
    story.bob_runs("task3", 200)?;
    story.measure(&[
        ("task1", ALICES),
        ("task2", BOBS / 3.0),
        ("task3", BOBS * 2.0 / 3.0),
    ])
}

/// A fifth of bob's is task D's, however many soft tickets bob gives to others.
pub fn figure2(story: &mut Story) -> Result<()> {
    story.bob_runs("taskd", 1)?;
    let bob = &mut story.bob;
    bob.types("tixctl reserve taskd --from bob cpu 200")?.ok()?;
    bob.types("tixctl unfund taskd --from bob cpu")?.ok()?;
    bob.types("tixctl tree")?.ok()?.has("20 %")?;
    story.measure(&[
        ("task1", ALICES),
        ("taskd", BOBS * 0.2),
        ("task2", BOBS * 0.8 / 3.0),
        ("task3", BOBS * 0.8 * 2.0 / 3.0),
    ])?;
    let before = entitled("bob/taskd")?;
    let more = "tixctl fund task3 --from bob cpu 700";
    story.bob.types(more)?.ok()?;
    let after = entitled("bob/taskd")?;
    ensure!(after == before, "D had {before}, and has {after}");
    story.measure(&[
        ("task1", ALICES),
        ("taskd", BOBS * 0.2),
        ("task3", BOBS * 0.8 * 0.9),
    ])
}

/// What D leaves idle bob's others get; when it wakes it has its part at once.
pub fn lent(story: &mut Story) -> Result<()> {
    let task = story.task("taskd")?;
    story.bob.signals("STOP", &task)?;
    story.measure(&[("task1", ALICES), ("task3", BOBS * 0.9)])?;
    let used = tix_tests::daemon_load::used(&task.cgroup)?;
    story.bob.signals("CONT", &task)?;
    let awake = ["task1", "taskd", "task3"].map(|n| story.task(n).map(|j| j.cgroup));
    let awake = awake.into_iter().collect::<Result<Vec<_>>>()?;
    let meter = Meter::start(awake.iter().map(String::as_str))?;
    let first = tix_tests::daemon_load::used(&task.cgroup)? - used;
    eprintln!("       D had {first} µs by the time that its shell said so");
    let had = meter.over(Duration::from_secs(3), LONG)?;
    let due = [ALICES, BOBS * 0.2, BOBS * 0.8 * 0.9];
    let of: Vec<_> = (["task1", "taskd", "task3"].into_iter().zip(due))
        .map(|(name, part)| (name, String::new(), part))
        .collect();
    compare(&of, &had)
}

/// A job with base tickets that bob gives up stays small when bob's others are idle, and takes from nobody but bob.
pub fn figure4(story: &mut Story) -> Result<()> {
    for name in ["task2", "task3", "taskd"] {
        story.bob_ends(name)?;
    }
    let (alices, bobs) = (entitled("alice")?, entitled("bob")?);
    let bob = &mut story.bob;
    let much = bob.types("tixctl nice --cpu 101 --from bob -- true")?;
    much.refused(&["bob"])?;
    let others = story.alice.types("tixctl nice --from bob -- true")?;
    others.refused(&["uid 1000"])?;
    let line = format!("tixctl nice --name hog --cpu 40 --from bob -- {HOG}");
    let hog = story.bob.starts("hog", &line)?;
    story.tasks.push(hog.clone());
    let given = currency("bob/hog")?.context("gone")?;
    ensure!(given["exchanges"][0]["amount_milli"] == 40_000, "{given}");
    let issued = issued()?;
    let part = 40.0 / issued;
    ensure!((entitled("alice")? - alices).abs() < 1e-9, "alice's moved");
    let together = entitled("bob")? + entitled("bob/hog")?;
    ensure!((together - bobs).abs() < 1e-9, "{together}, not {bobs}");
    story.measure_beside_hog(part, &[("task1", 1.0 - part)])?;

    // With another of bob's: both together have what bob has.
    story.bob_runs("task2", 100)?;
    story.measure_beside_hog(part, &[("task1", ALICES), ("task2", BOBS - part)])?;

    // tixd is killed: nothing moves. It needs the CPU to come back, and the job's part is one of the machine, whoever else runs; what
    // is left for alice's and bob's others is less.
    let paths = ["hog", "task1", "task2"].map(|name| story.task(name).map(|j| j.cgroup));
    let paths = paths.into_iter().collect::<Result<Vec<_>>>()?;
    let meter = Meter::start(paths.iter().map(String::as_str))?;
    let machine = Meter::start([""])?;
    let (seq, old) = (enabled_so_often()?, pid()?);
    sh(&format!("kill -KILL {old}"))?.ok()?;
    ensure!(in_force(), "not in force while tixd is dead");
    another(old)?;
    let had = meter.over(TIME, LONG)?;
    of_machine("hog, of the machine, around it", &meter, &machine, part)?;
    had.due("alice's, around the kill of tixd", 1, ALICES)?;
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    let given = currency("bob/hog")?.context("gone with tixd")?;
    ensure!(given["exchanges"][0]["amount_milli"] == 40_000, "{given}");

    // The job is killed: bob has it back.
    story.bob_ends("hog")?;
    let back = entitled("bob")?;
    ensure!((back - bobs).abs() < 1e-9, "{back} is back, not {bobs}");
    story.measure(&[("task1", ALICES), ("task2", BOBS)])
}

/// alice and bob pay for one program.
pub fn pool(story: &mut Story) -> Result<()> {
    story.alice_runs("pool", 100)?;
    let fund = "tixctl fund alice/pool --from bob cpu 300";
    story.bob.types(fund)?.refused(&["uid 1001"])?;
    story.alice.types("tixctl chmod o+f pool")?.ok()?;
    story.bob.types(fund)?.ok()?;
    ensure!(tickets("alice/pool", "bob")? == 300 && tickets("alice/pool", "alice")? == 100);
    story.measure(&[
        ("task1", ALICES / 2.0),
        ("pool", ALICES / 2.0 + BOBS * 0.75),
        ("task2", BOBS * 0.25),
    ])?;
    // bob has had enough of it.
    let back = "tixctl unfund alice/pool --from bob cpu";
    story.bob.types(back)?.ok()?;
    story.alice.types("tixctl chmod o-f pool")?.ok()?;
    story.bob.types(fund)?.refused(&["uid 1001"])?;
    let pool = story.task("pool")?;
    story.tasks.retain(|j| j.name != "pool");
    story.alice.ends(pool)
}

/// All that has been started ends, and the currencies go.
pub fn end(story: &mut Story) -> Result<()> {
    for job in std::mem::take(&mut story.tasks) {
        match job.name.as_str() {
            "task1" => story.alice.ends(job)?,
            _ => story.bob.ends(job)?,
        }
    }
    for name in ["alice", "bob"] {
        tixctl(&format!("destroy {name}"))?.ok()?;
    }
    until("no job is left", PATIENCE, || {
        let tree = tixctl("tree --json")?.ok()?.json()?;
        let list = tree["currencies"].as_array().context("no list")?;
        Ok(list.iter().all(|c| c["transient"] == json!(false)))
    })
}
