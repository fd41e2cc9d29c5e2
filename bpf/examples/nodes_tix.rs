// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler has of cgroups that were there before it, that lie deep, and that are gone, and what it says where it finds no
//! memory. Run as root in a guest; the guest test `nodes` does. Prints what it found; exit status 101: one of them is wrong.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tix_bpf::{BASE, Edge, Error, Force, Funding, Lack, NodeId, Options, Scheduler, go_back};

const DIR: &str = "/sys/fs/bpf/nodes_tix";
const ROOT: &str = "/sys/fs/cgroup/nodes";
/// How many cgroups lie in each other.
const LEVELS: usize = 1000;
/// How far a share may be off.
const NEAR: f64 = 0.01;

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn write(at: impl AsRef<Path>, text: &str) {
    let at = at.as_ref();
    fs::write(at, text).unwrap_or_else(|err| panic!("{text:?} to {}: {err}", at.display()));
}

fn number(at: &Path) -> u32 {
    let text = fs::read_to_string(at).expect("a file of a cgroup's");
    text.trim().parse().expect("a number")
}

fn make(name: &str) {
    fs::create_dir(path(name)).unwrap_or_else(|err| panic!("{name}: {err}"));
}

fn set(name: &str, file: &str, text: &str) {
    write(path(name).join(file), text);
}

fn node(by: &Scheduler, name: &str) -> Option<NodeId> {
    let cgid = fs::metadata(path(name)).expect(name).ino();
    by.node_of_cgroup(cgid).expect("a look at the cgroups")
}

fn signal(hog: &Child, signal: &str) {
    let id = hog.id().to_string();
    let done = Command::new("kill").args([signal, &id]).status();
    assert!(done.expect("kill").success());
}

/// Busy processes, in the order in which they were started.
#[derive(Default)]
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(&mut self, cgroup: &Path) {
        let mut hog = Command::new("/bin/sh");
        let hog = hog.args(["-c", "while :; do :; done"]).spawn();
        let hog = hog.expect("a hog");
        write(cgroup.join("cgroup.procs"), &hog.id().to_string());
        // Nobody else is to run while a scheduler is verified.
        signal(&hog, "-STOP");
        self.0.push(hog);
    }

    /// Each one's part of what these had in some seconds; the others do not run.
    fn parts(&self, which: &[usize]) -> Vec<f64> {
        for (i, hog) in self.0.iter().enumerate() {
            let on = which.contains(&i);
            signal(hog, if on { "-CONT" } else { "-STOP" });
        }
        sleep(Duration::from_secs(1));
        let used = || -> Vec<f64> {
            let of = |i: &usize| {
                let file = format!("/proc/{}/schedstat", self.0[*i].id());
                let text = fs::read_to_string(file).expect("schedstat");
                let first = text.split(' ').next();
                first.and_then(|ns| ns.parse().ok()).expect("CPU time")
            };
            which.iter().map(of).collect()
        };
        let before = used();
        sleep(Duration::from_secs(4));
        let had: Vec<f64> = used().iter().zip(before).map(|(a, b)| a - b).collect();
        self.0.iter().for_each(|hog| signal(hog, "-STOP"));
        let all: f64 = had.iter().sum();
        had.iter().map(|ns| ns / all).collect()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // It may have gone.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

fn near(what: &str, got: &[f64], due: &[f64]) {
    println!("{what}: {got:.4?}, due {due:.4?}");
    for (got, due) in got.iter().zip(due) {
        assert!((got - due).abs() < NEAR, "{what}: {got}, due {due}");
    }
}

const WEIGHED: [&str; 4] = ["idle", "was", "plain", "nice"];

/// The weights in force are those that the kernel's files say.
fn weights(when: &str, by: &Scheduler) {
    let told = tix_bpf::lacks().expect("lacks").contains(&Lack::CpuIdle);
    let nodes = by.nodes().expect("nodes");
    for name in WEIGHED {
        let id = node(by, name).expect("a node of its own");
        let found = nodes.iter().find(|n| n.node == id).expect("its state");
        let file = |name: &str, of: &str| number(&path(name).join(of));
        let due = match file(name, "cpu.idle") {
            1 if told => continue, // this kernel does not say what it is
            1 => 1,
            _ => file(name, "cpu.weight"),
        };
        println!("{when}: {name} has weight {}, due {due}", found.weight);
        assert_eq!(found.weight, due, "{when}: {name}");
        let edge = &found.funding.edges[0];
        assert_eq!(edge.amount, due, "{when}: the ticket of {name}");
    }
}

/// Cgroups in each other, and in the last of them a hog.
fn dig(hogs: &mut Hogs) {
    let home = std::env::current_dir().expect("a directory");
    std::env::set_current_dir(path("deep")).expect("deep");
    for _ in 1..LEVELS {
        write("cgroup.subtree_control", "+cpu");
        fs::create_dir("d").expect("one more");
        std::env::set_current_dir("d").expect("one more");
    }
    hogs.start(Path::new("."));
    std::env::set_current_dir(home).expect("back");
}

/// How many of those have a node of their own.
fn own(by: &Scheduler) -> usize {
    let home = std::env::current_dir().expect("a directory");
    std::env::set_current_dir(path("deep")).expect("deep");
    let mut own = 0;
    for _ in 0..LEVELS {
        let cgid = fs::metadata(".").expect("it is there").ino();
        own += usize::from(by.node_of_cgroup(cgid).expect("a look").is_some());
        if std::env::set_current_dir("d").is_err() {
            break;
        }
    }
    std::env::set_current_dir(home).expect("back");
    own
}

fn refused<T: std::fmt::Debug>(what: &str, done: Result<T, Error>) {
    match done {
        Err(Error::Refused { errno, .. }) => assert_eq!(errno, libc::ENOENT, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// A number that is another's by now does nothing.
fn reuse(by: &Scheduler) {
    make("gone");
    let gone = node(by, "gone").expect("a node of its own");
    fs::remove_dir(path("gone")).expect("rmdir");
    let mut found = None;
    for i in 0..200 {
        let name = format!("new{i}");
        make(&name);
        let new = node(by, &name).expect("a node of its own");
        if new.place() == gone.place() {
            found = Some(new);
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let new = found.expect("another has its place");
    let soft = |issuer| Funding {
        by_parent: false,
        edges: vec![Edge::soft(issuer, 1000)],
        delta: 0,
    };
    let state = |of: NodeId| {
        by.nodes()
            .expect("nodes")
            .into_iter()
            .find(|n| n.node == of)
    };
    let before = state(new).expect("the new one");
    refused("funding what is gone", by.set_funding(gone, &soft(BASE)));
    let limit = by.create_limit(1).expect("a limit");
    refused("capping what is gone", by.set_cap(gone, Some(limit)));
    let after = state(new).expect("the new one");
    assert_eq!((&before.funding, before.cap), (&after.funding, after.cap));

    let first = by.create_node(7).expect("a currency");
    by.destroy_node(first).expect("drop it");
    // Its place is free once a decision has seen to it.
    let mut others = Vec::new();
    let second = loop {
        let another = by.create_node(8).expect("another");
        if another.place() == first.place() {
            break another;
        }
        others.push(another);
        assert!(others.len() < 200, "nobody has its place");
        sleep(Duration::from_millis(10));
    };
    for other in others {
        by.destroy_node(other).expect("drop it");
    }
    refused("funding by what is gone", by.set_funding(new, &soft(first)));
    refused("dropping what is gone", by.destroy_node(first));
    by.set_funding(new, &soft(second))
        .expect("funding by what is there");
    let edge = state(new).expect("the new one").funding.edges[0];
    assert_eq!(edge.issuer, second, "who funds it is told in full");
    by.destroy_node(limit).expect("drop the limit");
    println!("reuse: what is gone is refused");
}

fn main() {
    write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
    fs::create_dir(ROOT).expect(ROOT);
    set("", "cgroup.subtree_control", "+cpu");
    for name in WEIGHED {
        make(name);
        set(name, "cpu.weight", "500");
    }
    set("idle", "cpu.idle", "1");
    set("was", "cpu.idle", "1");
    set("was", "cpu.idle", "0");
    set("nice", "cpu.weight.nice", "-5");
    make("deep");
    let mut hogs = Hogs::default();
    hogs.start(&path("idle"));
    hogs.start(&path("was"));
    dig(&mut hogs);

    let first = Options {
        build: "one".into(),
        ..Options::default()
    };
    let by = Scheduler::load_with(Path::new(DIR), &first).unwrap_or_else(|err| panic!("{err}"));
    weights("loaded", &by);
    let part = 1.0 / 101.0;
    near("cpu.idle before", &hogs.parts(&[0, 1]), &[part, 1.0 - part]);
    // What is due by tickets comes on top of that.
    let idle = node(&by, "idle").expect("a node of its own");
    let on_top = Funding {
        by_parent: true,
        edges: vec![Edge::soft(BASE, 1), Edge::soft(BASE, 100)],
        delta: 0,
    };
    by.set_funding(idle, &on_top).expect("tickets on top");
    let all = 0.5 + 0.5 * part;
    near("with tickets", &hogs.parts(&[0, 1]), &[all, 1.0 - all]);
    let own = own(&by);
    println!("of {LEVELS} cgroups in each other {own} have nodes of their own");
    near("deep", &hogs.parts(&[1, 2]), &[0.5, 0.5]);
    assert!(own < LEVELS);
    reuse(&by);
    set("plain", "cpu.idle", "1");
    set("idle", "cpu.idle", "0");
    let plain = Funding {
        by_parent: true,
        edges: vec![Edge::soft(BASE, 1)],
        delta: 0,
    };
    by.set_funding(idle, &plain).expect("no tickets on top");
    weights("changed", &by);

    let second = Options {
        build: "two".into(),
        ..Options::default()
    };
    let by = Scheduler::load_with(Path::new(DIR), &second).unwrap_or_else(|err| panic!("{err}"));
    weights("exchanged", &by);
    by.fail().expect("fail");
    let start = Instant::now();
    while tix_bpf::in_force() != Force::Disabled {
        assert!(start.elapsed() < Duration::from_secs(60), "still in force");
        sleep(Duration::from_millis(1));
    }
    set("nice", "cpu.idle", "1");
    set("plain", "cpu.idle", "0");
    let back = go_back(Path::new(DIR)).unwrap_or_else(|err| panic!("{err}"));
    let by = back.expect("nothing to go back to");
    weights("failed and back", &by);
    by.stop().unwrap_or_else(|err| panic!("{err}"));

    let small = Options {
        pages: Some(1024),
        ..Options::default()
    };
    let err = Scheduler::load_with(Path::new(DIR), &small).err();
    let err = err.expect("it needs more memory than that");
    println!("no memory: {err}");
    assert!(err.to_string().contains("memory"), "{err}");
    assert_eq!(tix_bpf::in_force(), Force::Disabled);
}
