// SPDX-License-Identifier: GPL-2.0-only
//! A tixd in this process: the real ledger, its store on a disk, the one writer and the API, over
//! sockets. What is not the kernel's: the cgroup tree is one of plain files, and who connects is
//! who the test says, so that nobody need be root to be alice and bob.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tix_cgroupfs::{Change, Root};
use tix_ledger::{Caller, Key, Resource, Row};
use tix_store::{Query, Record, Store};
use tixd::directory::Directory;
use tixd::govern;
use tixd::reconcile::cpu::Cpu;
use tixd::server::{Hall, Process};
use tixd::writer::{Core, Handle};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, yield_now};

pub const ALICE: u32 = 1000;
pub const BOB: u32 = 1001;
/// The cgroups of alice and bob.
pub const ALICES: &str = "/user.slice/user-1000.slice";
pub const BOBS: &str = "/user.slice/user-1001.slice";
/// A service of the system's.
pub const SERVICE: &str = "/system.slice/web.service";

/// Changes of the tree that may wait: a test makes no more between two looks.
const CHANGES: usize = 1 << 16;

/// The names of the two users; no database knows any other.
fn user(uid: u32) -> Option<String> {
    match uid {
        ALICE => Some("alice".to_owned()),
        BOB => Some("bob".to_owned()),
        _ => None,
    }
}

pub struct World {
    handle: Handle,
    directory: Directory,
    hall: Hall,
    changes: mpsc::Sender<Change>,
    /// Every cgroup, and the inode of its directory.
    there: BTreeMap<String, u64>,
    stop: Option<oneshot::Sender<()>>,
    core: Option<JoinHandle<Core>>,
    dir: TempDir,
}

/// Runs `f` with a new world.
pub fn with<T>(runtime: &tokio::runtime::Runtime, f: impl AsyncFnOnce(&mut World) -> T) -> T {
    with_rows(runtime, &[], user, f)
}

/// The same, in `dir`: the ledger is in `state` there.
pub fn with_in<T>(
    runtime: &tokio::runtime::Runtime,
    dir: TempDir,
    f: impl AsyncFnOnce(&mut World) -> T,
) -> T {
    with_world(
        runtime,
        async move || World::start(dir, &[], Directory::of_users(user)).await,
        f,
    )
}

/// The same, with what a ledger has kept before, and where `users` says who is who.
pub fn with_rows<T>(
    runtime: &tokio::runtime::Runtime,
    rows: &[(Key, Row)],
    users: impl Fn(u32) -> Option<String> + Send + Sync + 'static,
    f: impl AsyncFnOnce(&mut World) -> T,
) -> T {
    // The ledger is synchronised after every change: in memory, if it can be, that takes no time.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.expect("a directory");
    with_world(
        runtime,
        async move || World::start(dir, rows, Directory::of_users(users)).await,
        f,
    )
}

fn with_world<T>(
    runtime: &tokio::runtime::Runtime,
    start: impl AsyncFnOnce() -> World,
    f: impl AsyncFnOnce(&mut World) -> T,
) -> T {
    LocalSet::new().block_on(runtime, async {
        let mut world = start().await;
        let done = f(&mut world).await;
        world.end().await;
        done
    })
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

impl World {
    async fn start(dir: TempDir, rows: &[(Key, Row)], directory: Directory) -> World {
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).expect("a tree");
        let (changes, mut told) = mpsc::channel(CHANGES);
        let mut there = BTreeMap::new();
        for (path, uid) in [
            ("/", 0),
            ("/system.slice", 0),
            (SERVICE, 0),
            ("/user.slice", 0),
            (ALICES, ALICE),
            (BOBS, BOB),
        ] {
            let id = place(&tree, &changes, path, uid).expect("a cgroup");
            there.insert(path.to_owned(), id);
        }
        changes.try_send(Change::Complete).expect("it listens");
        let state = dir.path().join("state");
        let (mut store, _) = Store::open(&state).expect("a new ledger");
        let rows: Vec<_> = rows
            .iter()
            .cloned()
            .map(|(k, row)| (k, Some(row)))
            .collect();
        store.commit(&[], &rows).expect("it is kept");
        drop(store);
        let kept = Store::open(&state).expect("the ledger");
        let root = Root::open_any(&tree).expect("the tree");
        let mut core = Core::start(root, kept, Cpu::observer(), None, &mut told)
            .await
            .expect("it starts");
        core.move_into_spaces(&directory).await;
        let (handle, asks) = core.handle();
        let (stop, stopped) = oneshot::channel();
        // It ends by itself, too, when it is dropped.
        let until = async { stopped.await.unwrap_or_default() };
        let core = tokio::task::spawn_local(core.run(asks, told, until));
        World {
            hall: Hall::new(
                handle.clone(),
                None,
                &dir.path().join("subuid"),
                directory.clone(),
            ),
            directory,
            handle,
            changes,
            there,
            stop: Some(stop),
            core: Some(core),
            dir,
        }
    }

    /// Ends it, and looks at what it leaves: the ledger is sound, and what is kept is what there
    /// was.
    async fn end(&mut self) {
        drop(self.stop.take());
        let core = self.core.take().expect("it ends once").await;
        let core = core.expect("the writer has panicked");
        let wrong = core.ledger.verify();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Whose the subordinate uids are: the text of /etc/subuid.
    pub fn subordinate(&self, text: &str) {
        std::fs::write(self.dir.path().join("subuid"), text).expect("a file");
    }

    /// A policy of this one file is in force from now on.
    pub async fn policy(&self, text: &str) {
        let dir = self.dir.path().join("policies.d");
        std::fs::create_dir(&dir).expect("a directory");
        std::fs::write(dir.join("a.toml"), text).expect("a file");
        let again = Arc::new(Notify::new());
        tokio::task::spawn_local(govern::keep(
            self.handle.clone(),
            self.directory.clone(),
            dir,
            again,
        ));
        // What is declared follows at once, and what is decided after it.
        let in_force = async || {
            self.look(|core| assert_eq!(core.policy.problems, [""; 0]))
                .await;
            self.log().await.iter().any(|r| r.kind == "policy")
        };
        while !in_force().await {
            yield_now().await;
        }
    }

    /// The ledger's log.
    pub async fn log(&self) -> Vec<Record> {
        let page = self.handle.read(|store| store.log(&Query::default()));
        let page = page.await.expect("it runs").expect("a log");
        page.records.into_iter().map(|(_, r)| r).collect()
    }

    /// `uid` connects.
    pub fn connect(&self, uid: u32) -> Client {
        let (near, far) = UnixStream::pair().expect("a socket");
        self.hall.admit(far, Caller::user(uid), Process::default());
        Client(BufReader::new(near))
    }

    /// A cgroup of `uid`'s appears; false if it is there or has no parent.
    pub fn appears(&mut self, path: &str, uid: u32) -> bool {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = if parent.is_empty() { "/" } else { parent };
        if !path.starts_with('/')
            || !self.there.contains_key(parent)
            || self.there.contains_key(path)
        {
            return false;
        }
        let id = place(&self.tree(), &self.changes, path, uid);
        id.is_some_and(|id| self.there.insert(path.to_owned(), id).is_none())
    }

    /// It goes, with all below it.
    pub fn goes(&mut self, path: &str) {
        let below = format!("{path}/");
        let gone = self
            .there
            .keys()
            .filter(|p| *p == path || p.starts_with(&below));
        let gone: Vec<String> = gone.filter(|p| *p != "/").cloned().collect();
        for path in gone.into_iter().rev() {
            std::fs::remove_dir_all(self.tree().join(&path[1..])).expect("it was there");
            self.there.remove(&path);
            self.changes
                .try_send(Change::Gone {
                    path,
                    is_there: false,
                })
                .expect("it listens");
        }
    }

    /// The directory of the cgroup tree.
    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Looks at the ledger when the tree's changes have been taken in.
    pub async fn look<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> T {
        // They come by another way than what is asked.
        while !self.changes.is_closed() && !self.taken_in().await {
            yield_now().await;
        }
        self.handle.call(f).await.expect("it answers")
    }

    /// Changes the ledger without asking by a socket, and returns when that is kept.
    pub async fn act<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> T {
        self.handle.act(f).await.expect("it is kept")
    }

    /// The most steps in the ledger since this was asked last for which others had to wait.
    pub async fn longest_turn(&self) -> u64 {
        // The turn of those who ask comes when what was asked before has been counted.
        for _ in 0..2 {
            self.handle.call(|_| ()).await.expect("it answers");
            yield_now().await;
        }
        let taken = self.handle.call(|core| core.turns.take_longest()).await;
        taken.expect("it answers")
    }

    async fn taken_in(&self) -> bool {
        let there = self.there.clone();
        let known = self.handle.call(move |core| {
            let cgroups = core.ledger.cgroups().into_iter();
            let known: BTreeMap<String, u64> = cgroups
                .filter_map(|c| core.ledger.get(c)?.mirror.as_ref())
                .map(|m| (m.path.clone(), m.id))
                .collect();
            known.len() == there.len()
                && known
                    .iter()
                    .all(|(p, id)| p == "/" || there.get(p) == Some(id))
        });
        known.await.expect("it answers")
    }

    /// The part of the CPU that `name` is entitled to.
    pub async fn entitlement(&self, name: &str) -> u128 {
        let name = name.to_owned();
        self.look(move |core| {
            let cid = core.ledger.find(&name).expect("a currency");
            core.ledger.entitlement(cid, Resource::Cpu)
        })
        .await
    }
}

/// Makes the directory of a cgroup, and tells of it as the follower does.
fn place(tree: &Path, changes: &mpsc::Sender<Change>, path: &str, uid: u32) -> Option<u64> {
    let dir = tree.join(path.trim_start_matches('/'));
    // The directory is not uid's: only the ledger asks whose a cgroup is that it knows.
    let made = std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(dir.join("cpu.weight"), "100\n"))
        .and_then(|()| std::fs::write(dir.join("cgroup.subtree_control"), "cpu\n"))
        .and_then(|()| std::fs::metadata(&dir));
    let id = made.ok()?.ino();
    let change = Change::Here {
        path: path.to_owned(),
        id,
        weight: 100,
        disk: 100,
        owner: uid,
        group: uid,
        inner_threads: path == "/",
    };
    changes.try_send(change).ok().map(|()| id)
}

/// A connection, spoken to in plain messages.
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Sends these bytes; false if tixd has hung up.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// The next message, without its end; `None` if tixd has hung up.
    pub async fn message(&mut self) -> Option<Value> {
        let mut text = Vec::new();
        self.0.read_until(0, &mut text).await.ok()?;
        let (end, text) = text.split_last()?;
        if *end != 0 {
            return None;
        }
        Some(serde_json::from_slice(text).expect("an answer is JSON"))
    }

    /// Calls a method and returns the answer.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Value {
        let call = json!({"method": format!("org.tix.Tix.{method}"), "parameters": parameters});
        assert!(
            self.send(format!("{call}\0").as_bytes()).await,
            "{call}: it has hung up"
        );
        let answer = self.message().await;
        answer.unwrap_or_else(|| panic!("{call}: it has hung up"))
    }

    /// Calls a method that is done.
    pub async fn done(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.call(method, parameters).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["parameters"].clone()
    }

    /// Calls a method that is refused: the error's name, and what it says.
    pub async fn refused(&mut self, method: &str, parameters: Value) -> (String, String) {
        let answer = self.call(method, parameters).await;
        let error = answer["error"].as_str();
        let error = error.unwrap_or_else(|| panic!("{method} is not refused: {answer}"));
        let name = error.rsplit('.').next().unwrap_or_default();
        (name.to_owned(), answer["parameters"].to_string())
    }
}
