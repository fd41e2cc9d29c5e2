// SPDX-License-Identifier: GPL-2.0-only
//! Follows the tree: a thread that watches every cgroup that has the cpu controller, and tells the
//! daemon what changed.
//!
//! A directory is watched first, and read and listed afterwards, so nothing that is written or
//! appears in between is missed. When the kernel drops notifications, or watches run out, everything is listed again and
//! compared. The root and every cgroup with `cpu.weight` are watched.

#[cfg(test)]
mod tests;

mod again;

use super::files::{Cgroup, Error, Gives, Root};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use tix_model::DEFAULT_CGROUP_WEIGHT;

/// What happened in the tree. Parents come before children, except that removals come children
/// first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is there (possibly known already), with these values.
    Here {
        path: String,
        id: u64,
        weight: u64,
        /// `io.weight`, or the kernel's default of it where there is no such file.
        disk: u64,
        owner: u32,
        group: u32,
        inner_threads: bool,
    },
    /// It is known no longer: it was removed, or (`is_there`) has no cpu controller any more. Also
    /// told when one without is removed.
    Gone { path: String, is_there: bool },
    /// Somebody, perhaps tixd, has written to a file that is nobody's funding.
    Touched { path: String },
    /// Everything that was there at the start has been told.
    Complete,
    /// The cgroup `path` could not be read; following goes on.
    Trouble { path: String, what: String },
    /// That is over.
    Mended { path: String },
}

struct Known {
    wd: Option<i32>,
    id: u64,
    told: (u64, u64, (u32, u32), bool),
    /// What it gave its children when they were listed. `None`: that has to be done again.
    gives: Option<Gives>,
    /// They are not listed again for what it gives before then.
    not_before: Option<Instant>,
    /// When it was said again though nothing looked new.
    said: Option<Instant>,
}

pub struct Follower<F: FnMut(Change) -> bool> {
    root: Root,
    inotify: OwnedFd,
    known: BTreeMap<String, Known>,
    /// Cgroups that were known and are without the cpu controller now, with their numbers.
    off: BTreeMap<String, u64>,
    watches: HashMap<i32, String>,
    /// What these give has changed again, and they are looked at a little later.
    later: BTreeSet<String>,
    /// Weights of these were written again, and are said a little later.
    again: BTreeSet<String>,
    /// Cgroups whose children were listed so far.
    listings: u64,
    /// No more watches: list everything every second instead.
    blind: bool,
    /// When everything was listed last.
    listed: Instant,
    /// Notifications were lost before: it is said once.
    lost: bool,
    tell: F,
}

/// What notifications say.
#[derive(Default)]
struct Changed {
    /// Directories to look at again.
    dirs: BTreeSet<String>,
    /// Where somebody has said what is given to children, as it was or otherwise.
    switches: BTreeSet<String>,
    /// Where a file was written that is no funding.
    touched: BTreeSet<String>,
    /// Some were lost.
    lost: bool,
    /// The root is watched no more.
    no_root: bool,
}

/// Why it ends when `tell` says no.
const NOBODY: &str = "nobody is told of cgroups any more";

/// What trouble with the notifications themselves is told under.
pub const INOTIFY: &str = "inotify";

/// How often everything is listed again when watches have run out.
const BLIND_PAUSE: Duration = Duration::from_secs(1);

/// What one cgroup gives has all below it listed: whoever switches that on and off has it done one
/// part in so many of the time.
const PART: u32 = 10;

/// The deepest cgroup that is followed, and the longest path, bytes. Whoever has a cgroup makes
/// others in it as deep as memory lasts, but the kernel opens no path of more than 4,096 bytes.
const DEEPEST: usize = 64;
const LONGEST: usize = 3500;

impl<F: FnMut(Change) -> bool> Follower<F> {
    /// `tell` is called with every change; it returns false to end the thread.
    pub fn new(root: Root, tell: F) -> Result<Self, Error> {
        // What is read last may be of no watch, as a lost notification is: what comes next must not
        // be waited for.
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(|e| Error::Io {
            path: "inotify".into(),
            source: e.into(),
        })?;
        Ok(Follower {
            root,
            inotify,
            known: BTreeMap::new(),
            off: BTreeMap::new(),
            watches: HashMap::new(),
            later: BTreeSet::new(),
            again: BTreeSet::new(),
            listings: 0,
            blind: false,
            listed: Instant::now(),
            lost: false,
            tell,
        })
    }

    /// Tells the whole tree, then every change; returns why it does not any more.
    pub fn run(mut self) -> String {
        if self.list("/").is_err() || !(self.tell)(Change::Complete) {
            return NOBODY.to_owned();
        }
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        loop {
            let mut poll = [rustix::event::PollFd::new(
                &self.inotify,
                rustix::event::PollFlags::IN,
            )];
            let wait = self.pause().map(|left| rustix::event::Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            });
            match rustix::event::poll(&mut poll, wait.as_ref()) {
                Ok(ready) => {
                    // Also while what is watched changes all the time.
                    let again = self.blind && self.listed.elapsed() >= BLIND_PAUSE;
                    if again && (self.rescan().is_err() || self.watch_the_rest().is_err()) {
                        return NOBODY.to_owned();
                    }
                    if self.look_at_switches(BTreeSet::new()).is_err() || self.say_again().is_err()
                    {
                        return NOBODY.to_owned();
                    }
                    if ready == 0 {
                        continue;
                    }
                }
                Err(Errno::INTR) => continue,
                Err(e) => return format!("poll(2) on inotify: {e}"),
            }
            let Changed {
                dirs,
                switches,
                touched,
                lost,
                no_root,
            } = match self.drain(&mut buffer) {
                Ok(changed) => changed,
                Err(e) => return format!("reading inotify: {e}"),
            };
            if no_root {
                let root = self.root.path().display();
                return format!("the kernel watches {root} no more");
            }
            let done = if lost {
                self.say_lost();
                self.rescan()
            } else {
                let done = dirs.iter().try_for_each(|d| self.look_at_written(d));
                done.and_then(|()| self.look_at_switches(switches))
            };
            let mut touched = touched.into_iter();
            if done.is_err() || !touched.all(|path| (self.tell)(Change::Touched { path })) {
                return NOBODY.to_owned();
            }
        }
    }

    /// Reads the notifications that are there.
    fn drain(&mut self, buffer: &mut [MaybeUninit<u8>]) -> Result<Changed, Errno> {
        let mut changed = Changed::default();
        let Changed {
            dirs,
            switches,
            touched,
            lost,
            no_root,
        } = &mut changed;
        let mut reader = inotify::Reader::new(&self.inotify, buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    *lost |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    let Some(dir) = self.watches.get(&event.wd()) else {
                        continue;
                    };
                    let name = event.file_name().and_then(|n| n.to_str().ok());
                    let child = |n: &str| {
                        if dir == "/" {
                            format!("/{n}")
                        } else {
                            format!("{dir}/{n}")
                        }
                    };
                    match name {
                        Some(n) if event.events().contains(ReadFlags::ISDIR) => {
                            dirs.insert(child(n));
                        }
                        Some("cgroup.subtree_control") => {
                            switches.insert(dir.clone());
                        }
                        Some(
                            "cpu.weight" | "cpu.weight.nice" | "cpu.idle" | "io.weight"
                            | "io.bfq.weight" | "cgroup.type",
                        )
                        | None => {
                            dirs.insert(dir.clone());
                            if name == Some("io.bfq.weight") {
                                touched.insert(dir.clone());
                            }
                        }
                        Some("memory.min" | "memory.low") => {
                            touched.insert(dir.clone());
                        }
                        Some(_) => {}
                    }
                    if event.events().contains(ReadFlags::IGNORED) {
                        let wd = event.wd();
                        *no_root |= dir == "/";
                        self.watches.remove(&wd);
                    }
                }
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e),
            }
            if reader.is_buffer_empty() {
                return Ok(changed);
            }
        }
    }

    fn say(&mut self, change: Change) -> Result<(), ()> {
        if (self.tell)(change) { Ok(()) } else { Err(()) }
    }

    fn rescan(&mut self) -> Result<(), ()> {
        let paths: Vec<String> = self.known.keys().rev().cloned().collect();
        for path in paths {
            if self.root.cgroup(&path).is_err() {
                self.forget(&path)?;
            }
        }
        let done = self.list("/");
        self.listed = Instant::now();
        done
    }

    fn say_lost(&mut self) {
        if !std::mem::replace(&mut self.lost, true) {
            tracing::info!(
                "cgroups changed faster than the kernel kept notifications of it: the tree is \
                 listed anew whenever that happens (fs.inotify.max_queued_events)"
            );
        }
    }

    /// Cgroups go, and limits are raised: once all that are there can be watched, nothing is listed
    /// in vain any longer.
    fn watch_the_rest(&mut self) -> Result<(), ()> {
        let rest = self.known.iter().filter(|(_, known)| known.wd.is_none());
        let rest: Vec<String> = rest.map(|(path, _)| path.clone()).collect();
        for path in rest {
            let Ok(cgroup) = self.root.cgroup(&path) else {
                continue;
            };
            let Some(wd) = self.watch(&path, &cgroup)? else {
                return Ok(());
            };
            if let Some(known) = self.known.get_mut(&path) {
                known.wd = Some(wd);
            }
            // What changed before it was watched.
            self.look(&path, true)?;
        }
        self.blind = false;
        self.say(Change::Mended {
            path: INOTIFY.into(),
        })
    }

    /// How long to wait for notifications, if not for ever.
    fn pause(&self) -> Option<Duration> {
        let blind = self.blind.then(|| self.listed + BLIND_PAUSE);
        let later = self.later.iter().filter_map(|p| self.not_before(p));
        let again = self.again.iter().filter_map(|p| self.said_again_at(p));
        let next = later.chain(again).chain(blind).min();
        next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn not_before(&self, path: &str) -> Option<Instant> {
        self.known.get(path)?.not_before
    }

    /// Looks at what these give their children now, and those for which it is time, too: anybody
    /// who has a cgroup may say it again and again. What is below is listed if it is another than
    /// before.
    fn look_at_switches(&mut self, switches: BTreeSet<String>) -> Result<(), ()> {
        let (mut all, now) = (std::mem::take(&mut self.later), Instant::now());
        all.extend(switches);
        let early = |p: &String| self.not_before(p).is_some_and(|at| now < at);
        let (later, due) = all.into_iter().partition(early);
        self.later = later;
        for path in due {
            let Some(known) = self.known.get(&path) else {
                continue;
            };
            let now = self.root.cgroup(&path).and_then(|c| c.gives());
            let same = known.gives.is_some() && now.ok() == known.gives;
            let start = Instant::now();
            self.look(&path, !same)?;
            if let Some(known) = self.known.get_mut(&path).filter(|_| !same) {
                known.not_before = Some(Instant::now() + start.elapsed() * PART);
            }
        }
        Ok(())
    }

    fn look_again(&mut self, path: &str) -> Result<(), ()> {
        let parent_known = path == "/"
            || path
                .rfind('/')
                .is_some_and(|i| i == 0 || self.known.contains_key(&path[..i]));
        if parent_known {
            self.look(path, false)
        } else {
            Ok(())
        }
    }

    /// Looks at `path` and all below it.
    fn list(&mut self, path: &str) -> Result<(), ()> {
        self.look(path, true)
    }

    /// Looks at `path`, and at what is below if that is asked for or it is new.
    fn look(&mut self, path: &str, deep: bool) -> Result<(), ()> {
        if path.len() > LONGEST || path.matches('/').count() > DEEPEST {
            return self.too_deep(path);
        }
        let cgroup = match self.root.cgroup(path) {
            Ok(cgroup) => cgroup,
            Err(e) => {
                if !e.is_gone() {
                    self.trouble(path, &e)?;
                }
                return self.forget(path);
            }
        };
        if self.known.get(path).is_some_and(|k| k.id != cgroup.id) {
            self.forget(path)?;
        }
        // Watched before it is read: whoever makes a cgroup writes to it at once.
        let is_new = !self.known.contains_key(path);
        let wd = match is_new {
            true => self.watch(path, &cgroup)?,
            false => None,
        };
        let weight = match cgroup.weight() {
            Ok(w) => w,
            Err(e) => {
                if !e.is_gone() {
                    self.trouble(path, &e)?;
                }
                None
            }
        };
        if path != "/" && weight.is_none() {
            // Where it is to have one the parent has been switched off and on meanwhile.
            let parent = path.rsplit_once('/').map_or("/", |(p, _)| p);
            let parent = if parent.is_empty() { "/" } else { parent };
            if let Some(parent) = self.known.get_mut(parent)
                && parent.gives.is_some_and(|g| g.cpu)
            {
                parent.gives = None;
            }
            self.unwatch(wd);
            return self.forget(path);
        }
        let told = (
            weight.unwrap_or(100),
            self.disk(path, &cgroup)?,
            (cgroup.owner, cgroup.group),
            cgroup.inner_threads(),
        );
        let news = self.known.get(path).is_none_or(|k| k.told != told);
        let deep = deep || is_new;
        if is_new {
            if self.off.remove(path).is_some_and(|id| id != cgroup.id) {
                // The one that it was is gone.
                self.say(Change::Gone {
                    path: path.to_owned(),
                    is_there: false,
                })?;
            }
            self.known.insert(
                path.to_owned(),
                Known {
                    wd,
                    id: cgroup.id,
                    told,
                    gives: None,
                    not_before: None,
                    said: None,
                },
            );
        }
        let Some(known) = self.known.get_mut(path) else {
            return Ok(());
        };
        known.told = told;
        if news {
            let change = known.here(path.to_owned());
            self.say(change)?;
        }
        if !deep {
            return Ok(());
        }
        self.listings += 1;
        let gives = cgroup.gives();
        if let Some(known) = self.known.get_mut(path) {
            known.gives = gives.as_ref().ok().copied();
        }
        let below = match gives.and_then(|gives| match gives.cpu {
            true => cgroup.children(),
            false => Ok(BTreeSet::new()),
        }) {
            Ok(below) => below,
            Err(e) => {
                if !e.is_gone() {
                    self.trouble(path, &e)?;
                }
                BTreeSet::new()
            }
        };
        let prefix = if path == "/" {
            "/".to_owned()
        } else {
            format!("{path}/")
        };
        let below: BTreeSet<String> = below.iter().map(|n| format!("{prefix}{n}")).collect();
        let stale: Vec<String> = self
            .known
            .range(prefix.clone()..)
            .map(|(p, _)| p)
            .take_while(|p| p.starts_with(&prefix))
            .filter(|p| *p != "/" && !p[prefix.len()..].contains('/') && !below.contains(*p))
            .cloned()
            .collect();
        for p in stale {
            self.forget(&p)?;
        }
        for p in below {
            self.list(&p)?;
        }
        Ok(())
    }

    /// How many tickets for the disk its file says.
    fn disk(&mut self, path: &str, cgroup: &Cgroup) -> Result<u64, ()> {
        match cgroup.disk_weight() {
            Ok(w) => Ok(w.unwrap_or(DEFAULT_CGROUP_WEIGHT)),
            Err(e) => {
                if !e.is_gone() {
                    self.trouble(path, &e)?;
                }
                Ok(DEFAULT_CGROUP_WEIGHT)
            }
        }
    }

    fn trouble(&mut self, path: &str, why: &Error) -> Result<(), ()> {
        self.say(Change::Trouble {
            path: path.to_owned(),
            what: why.to_string(),
        })
    }

    /// The kernel goes on with what it has below there: it shares what `path`'s parent has by
    /// `cpu.weight`. Told of the parent, which is one cgroup, however many it has.
    fn too_deep(&mut self, path: &str) -> Result<(), ()> {
        let parent = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
        let what = format!(
            "{parent:?}: the cgroups below it are too deep in the tree for tickets ({DEEPEST} \
             levels, {LONGEST} bytes)"
        );
        self.say(Change::Trouble {
            path: parent.to_owned(),
            what,
        })
    }

    /// By its descriptor: what is watched is what was looked at, however long its path.
    fn watch(&mut self, path: &str, cgroup: &Cgroup) -> Result<Option<i32>, ()> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let open = format!("/proc/self/fd/{}", cgroup.fd().as_fd().as_raw_fd());
        match inotify::add_watch(&self.inotify, open, flags) {
            Ok(wd) => {
                self.watches.insert(wd, path.to_owned());
                Ok(Some(wd))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(e) => {
                if !self.blind {
                    self.blind = true;
                    let what = format!(
                        "{}: {e}; listing the tree every second instead (raise \
                         fs.inotify.max_user_watches)",
                        cgroup.path().display()
                    );
                    self.say(Change::Trouble {
                        path: INOTIFY.into(),
                        what,
                    })?;
                }
                Ok(None)
            }
        }
    }

    fn unwatch(&mut self, wd: Option<i32>) {
        if let Some(wd) = wd {
            self.watches.remove(&wd);
            // Fails when the directory is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.inotify, wd);
        }
    }

    /// `path` and all below it are gone, or have no cpu controller.
    fn forget(&mut self, path: &str) -> Result<(), ()> {
        self.forget_off(path)?;
        for p in at_and_below(&self.known, path).into_iter().rev() {
            if let Some(k) = self.known.remove(&p) {
                self.unwatch(k.wd);
                let is_there = self.root.cgroup(&p).is_ok_and(|c| c.id == k.id);
                if is_there {
                    self.off.insert(p.clone(), k.id);
                }
                self.say(Change::Gone { path: p, is_there })?;
            }
        }
        Ok(())
    }

    /// Of those without the controller, at and below `path`, the ones that are gone.
    fn forget_off(&mut self, path: &str) -> Result<(), ()> {
        for p in at_and_below(&self.off, path).into_iter().rev() {
            let id = self.off.get(&p).copied();
            if self.root.cgroup(&p).is_ok_and(|c| Some(c.id) == id) {
                continue;
            }
            self.off.remove(&p);
            self.say(Change::Gone {
                path: p,
                is_there: false,
            })?;
        }
        Ok(())
    }
}

/// The paths in `map` that are `path` or below it, parents first.
fn at_and_below<T>(map: &BTreeMap<String, T>, path: &str) -> Vec<String> {
    let prefix = format!("{path}/");
    let below = map.range(prefix.clone()..).map(|(p, _)| p);
    let below = below.take_while(|p| p.starts_with(&prefix));
    let at = map.get_key_value(path).map(|(p, _)| p);
    at.into_iter().chain(below).cloned().collect()
}
