// SPDX-License-Identifier: GPL-2.0-only
//! Hard shares and exchange tickets on a real kernel, without the daemon: one CPU's worth of busy
//! loops in cgroups of the root, and what each gets. Run as root in a guest:
//! `tests/vm/run --icount 3 -- target/debug/examples/parts`. Exit status 1: a share is off.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;
use tix_bpf::{BASE, Edge, Funding, NodeId, Scheduler};

const CGROUPS: &str = "/sys/fs/cgroup";
const SECONDS: u64 = 3;
/// How far a share may be off.
const NEAR: f64 = 0.01;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A cgroup with a busy loop in it; both go with it.
struct Hog {
    dir: PathBuf,
    node: NodeId,
    child: Child,
}

impl Hog {
    fn new(s: &Scheduler, name: &str) -> Result<Hog> {
        let dir = Path::new(CGROUPS).join(name);
        fs::create_dir(&dir)?;
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()?;
        fs::write(dir.join("cgroup.procs"), child.id().to_string())?;
        let node = s.node_of_cgroup(fs::metadata(&dir)?.ino())?;
        let node = node.ok_or("the cgroup has no node")?;
        Ok(Hog { dir, node, child })
    }

    fn signal(&self, signal: &str) -> Result<()> {
        Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()?;
        Ok(())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.dir);
    }
}

/// What each gets of the CPU from now on, beside what it is due.
fn shares(s: &Scheduler, what: &str, hogs: &[Hog], due: &[f64]) -> Result<bool> {
    let used = || -> Result<Vec<f64>> {
        let nodes = s.nodes()?;
        let of = |hog: &Hog| nodes.iter().find(|n| n.node == hog.node);
        Ok(hogs
            .iter()
            .map(|hog| of(hog).map_or(0.0, |n| n.used_ns as f64))
            .collect())
    };
    let before = used()?;
    sleep(Duration::from_secs(SECONDS));
    let spent: Vec<f64> = used()?.iter().zip(before).map(|(a, b)| a - b).collect();
    let all: f64 = spent.iter().sum();
    let got: Vec<f64> = spent.iter().map(|ns| ns / all).collect();
    let near = got
        .iter()
        .zip(due)
        .all(|(got, due)| (got - due).abs() < NEAR);
    let verdict = if near { "as due" } else { "OFF" };
    println!("{what}: {got:.4?}, due {due:.4?}: {verdict}");
    Ok(near)
}

fn run(s: &Scheduler) -> Result<bool> {
    fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu")?;
    let names = ["tixhard", "tixsoft1", "tixsoft2", "tixsoft3"];
    let hogs: Vec<Hog> = names
        .iter()
        .map(|n| Hog::new(s, n))
        .collect::<Result<_>>()?;
    let backing = |delta, edge| Funding {
        by_parent: false,
        edges: vec![edge],
        delta,
    };
    let soft = |delta| {
        backing(
            delta,
            Edge {
                part: 1,
                ..Edge::soft(BASE, 100)
            },
        )
    };
    let hard = backing(
        0,
        Edge {
            hard: true,
            ..Edge::soft(BASE, 400)
        },
    );
    s.set_funding(hogs[0].node, &hard)?;
    let mut good = shares(s, "a hard 40 %", &hogs, &[0.4, 0.2, 0.2, 0.2])?;
    hogs[0].signal("-STOP")?;
    let third = 1.0 / 3.0;
    good &= shares(s, "idle, lent out", &hogs, &[0.0, third, third, third])?;
    hogs[0].signal("-CONT")?;
    good &= shares(s, "awake, back", &hogs, &[0.4, 0.2, 0.2, 0.2])?;
    hogs[3].signal("-STOP")?;
    good &= shares(s, "a soft one idle", &hogs, &[0.4, 0.3, 0.3, 0.0])?;
    hogs[3].signal("-CONT")?;

    // Of T = 400 one gives another 40: a tenth of the machine.
    s.set_total(400)?;
    s.set_funding(hogs[1].node, &soft(-40_000))?;
    s.set_funding(hogs[2].node, &soft(40_000))?;
    good &= shares(s, "a tenth given", &hogs, &[0.4, 0.1, 0.3, 0.2])?;
    // What the taker holds rests with base's soft tickets: they divide 240 + 40 of 400 now.
    hogs[2].signal("-STOP")?;
    good &= shares(s, "the taker idle", &hogs, &[0.4, 0.25, 0.0, 0.35])?;
    hogs[2].signal("-CONT")?;
    good &= shares(s, "the taker back", &hogs, &[0.4, 0.1, 0.3, 0.2])?;

    // A currency by a name, funded by an exchange alone.
    let job = s.create_node(4711)?;
    s.set_funding(
        job,
        &Funding {
            delta: 80_000,
            ..Funding::default()
        },
    )?;
    // In this order: worth nothing even for a moment, the giver would be a round late.
    s.set_funding(hogs[2].node, &backing(0, Edge::soft(job, 1)))?;
    s.set_funding(hogs[1].node, &soft(-80_000))?;
    good &= shares(s, "an exchange alone", &hogs, &[0.4, 0.1, 0.2, 0.3])?;
    let told = s.nodes()?.into_iter().find(|n| n.node == job);
    let told = told.ok_or("the currency is not told")?;
    println!("{told:?}");
    good &= told.cid == 4711 && told.funding.delta == 80_000 && told.named;
    let told = s.nodes()?.into_iter().find(|n| n.node == hogs[0].node);
    good &= told.is_some_and(|n| n.funding == hard);
    Ok(good)
}

fn main() -> ExitCode {
    let dir = Path::new("/sys/fs/bpf/tix_parts");
    let result = Scheduler::load(dir).map_err(Into::into).and_then(|s| {
        let good = run(&s);
        if let Some(exit) = s.exit()? {
            return Err(format!("ejected: {}\n{}", exit.reason, exit.dump).into());
        }
        s.stop()?;
        good
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("parts: {err}");
            ExitCode::from(125)
        }
    }
}
