// SPDX-License-Identifier: GPL-2.0-only
//! A tixd without a scheduler on a tree of plain files. Unlike the kernel's these keep what is
//! beyond what is written: all numbers in one file have the same number of digits here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tix_cgroupfs::{Follower, Root};
use tix_ledger::{Caller, Op, Resource};
use tix_store::{Query, Record, Store};
use tix_systemd::PropertySync;
use tixd::reconcile::cpu::Cpu;
use tixd::writer::{Core, Handle};
use tokio::sync::mpsc;

pub struct Machine {
    dir: TempDir,
    pub systemd: Option<PropertySync>,
}

impl Machine {
    pub fn new() -> Machine {
        // In memory if there is one: nothing here is about a real disk's speed.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let machine = Machine { dir, systemd: None };
        machine.cgroup("/", 100);
        // As where the kernel has iocost.
        machine.write("/", "io.cost.qos", "");
        machine
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("tree").join(&path[1..])
    }

    /// Whole when it appears.
    pub fn cgroup(&self, path: &str, weight: u64) {
        let made = self.dir.path().join("made");
        fs::create_dir_all(&made).unwrap();
        let files = [
            ("cpu.weight", format!("{weight}\n")),
            ("io.weight", "default 100\n".to_owned()),
            ("memory.min", format!("{BEFORE}\n")),
            ("memory.low", format!("{BEFORE}\n")),
            ("cgroup.type", "domain\n".to_owned()),
            ("cgroup.subtree_control", "cpu io memory\n".to_owned()),
        ];
        for (file, text) in files {
            fs::write(made.join(file), text).unwrap();
        }
        fs::rename(made, self.at(path)).unwrap();
        // Moved directories are not told of, and those that change are.
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.at(path), mode).unwrap();
    }

    pub fn remove(&self, path: &str) {
        // As rmdir(2) does it: at once.
        let gone = self.dir.path().join("gone");
        fs::rename(self.at(path), &gone).unwrap();
        fs::remove_dir_all(gone).unwrap();
    }

    /// In one piece: nobody reads an empty file.
    pub fn write(&self, path: &str, file: &str, text: &str) {
        let mut options = fs::OpenOptions::new();
        let open = options.write(true).create(true).truncate(false);
        let mut file = open.open(self.at(path).join(file)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub fn number(&self, path: &str, file: &str) -> u64 {
        let text = fs::read_to_string(self.at(path).join(file)).unwrap();
        text.trim().trim_start_matches("default ").parse().unwrap()
    }

    /// A tixd, as long as `scenario` takes. Then it is gone, as when it is killed.
    pub fn tixd<T>(&self, scenario: impl AsyncFnOnce(Handle) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let tree = self.at("/");
            let kept = Store::open(&self.state()).unwrap();
            let (tx, mut changes) = mpsc::channel(tixd::writer::TREE_QUEUE);
            let follower = Follower::new(open(&tree), move |c| tx.blocking_send(c).is_ok());
            let follower = follower.unwrap();
            std::thread::spawn(move || follower.run());
            let cpu = Cpu::without_scheduler("a test");
            let systemd = self.systemd.clone();
            let core = Core::start(open(&tree), kept, cpu, systemd, &mut changes);
            let core = core.await.unwrap();
            let (handle, asks) = core.handle();
            let never = std::future::pending();
            tokio::select! {
                _ = core.run(asks, changes, never) => panic!("tixd ended"),
                done = scenario(handle) => done,
            }
        })
    }
}

/// What memory.min and memory.low say of a new cgroup, bytes.
pub const BEFORE: u64 = 10_000_000;

fn open(tree: &Path) -> Root {
    Root::open_any(tree).unwrap()
}

/// What is to come, comes: how long it takes is no matter.
pub async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Root does what `ops` says, with the number that the next currency has.
pub async fn does(handle: &Handle, ops: impl FnOnce(u64) -> Vec<Op> + Send + 'static) {
    let done = handle.act(move |core| {
        let ops = ops(core.ledger.next_cid());
        core.submit(&ops, &Caller::ROOT)
    });
    done.await.unwrap().unwrap();
}

/// How many tickets for the CPU the weight of the cgroup `path` stands for.
pub async fn funding(handle: &Handle, path: &str) -> Option<u64> {
    let path = path.to_owned();
    let found = handle.call(move |core| {
        let c = core.ledger.get(core.ledger.find(&path)?)?;
        c.mirror.as_ref().map(|m| m.weight)
    });
    found.await.unwrap()
}

/// The log's records of that kind.
pub async fn logged(handle: &Handle, kind: &'static str) -> Vec<Record> {
    let all = handle.read(|store| store.log(&Query::default()).unwrap());
    let all = all.await.unwrap().records.into_iter();
    all.map(|(_, r)| r).filter(|r| r.kind == kind).collect()
}

/// A currency that base funds so, and that is bound to these cgroups.
pub fn funded(name: &str, cid: u64, tickets: i64, paths: &[&str]) -> Vec<Op> {
    let create = Op::Create {
        cid,
        name: name.to_owned(),
        owner: 0,
        group: 0,
        mode: 0o700,
    };
    let fund = Op::Fund {
        holder: name.to_owned(),
        issuer: "base".to_owned(),
        resource: Resource::Cpu,
        amount: tickets,
    };
    let bind = |path: &&str| Op::Bind {
        name: name.to_owned(),
        path: (*path).to_owned(),
    };
    [create, fund]
        .into_iter()
        .chain(paths.iter().map(bind))
        .collect()
}
