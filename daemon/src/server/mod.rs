// SPDX-License-Identifier: GPL-2.0-only
//! The Varlink service: the only way in.
//!
//! Every connection has a server of its own, so a client that does not read holds up nobody else.
//! Who asks is what the kernel said when it connected.

mod amount;
mod check;
mod cost;
mod decides;
mod devices;
mod doors;
mod errors;
mod explain;
mod feed;
mod guard;
mod held;
mod inuse;
mod jobs;
mod journal;
mod limits;
mod market;
mod names;
mod pace;
mod peer;
mod people;
mod processes;
mod readers;
mod rehearse;
mod reserve;
mod service;
mod session;
mod transfer;
mod undo;
mod view;
mod whole;

pub use doors::Doors;

use crate::directory::Directory;
use crate::writer::{Handle, Stopwatch};
use guard::Guarded;
use pace::{EVERYBODY, Pace};
pub use peer::Process;
use people::People;
use rehearse::Tries;
use session::Session;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io::Error;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use tix_ledger::Caller;
use tokio::net::{UnixListener, UnixStream};

/// Open connections of one user; root has more.
pub const PER_UID: usize = 16;
pub const FOR_ROOT: usize = 64;
/// Of all users but root.
pub const TOTAL: usize = 512;

type Counts = Rc<RefCell<HashMap<u32, usize>>>;

/// One of the connections that `uid` may have, given back when it is dropped, also by a panic: that
/// ends the connection alone.
struct Place {
    counts: Counts,
    uid: u32,
}

impl Place {
    /// `None`: there is none left.
    fn take(counts: &Counts, uid: u32) -> Option<Place> {
        let mut open = counts.borrow_mut();
        let others: usize = open.iter().filter(|(u, _)| **u != 0).map(|(_, n)| n).sum();
        let mine = open.get(&uid).copied().unwrap_or(0);
        let most = if uid == 0 { FOR_ROOT } else { PER_UID };
        if mine >= most || (uid != 0 && others >= TOTAL) {
            tracing::debug!("uid {uid} has {mine} connections open: refused another");
            return None;
        }
        open.insert(uid, mine + 1);
        Some(Place {
            counts: Rc::clone(counts),
            uid,
        })
    }

    /// Keeps it until `connection` ends. Must run in a `LocalSet`.
    fn hold(self, connection: impl Future<Output = ()> + 'static) {
        tokio::task::spawn_local(async move {
            let _place = self;
            connection.await;
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let uid = self.uid;
        if std::thread::panicking() {
            tracing::error!("a connection of uid {uid} has ended: tixd panicked serving it");
        }
        let mut open = self.counts.borrow_mut();
        if let Some(n) = open.get_mut(&uid) {
            *n -= 1;
            if *n == 0 {
                open.remove(&uid);
            }
        }
    }
}

/// Accepts connections until one of the sockets takes no more; returns why. Must run in a
/// `LocalSet`. Members of the group `readers` may read what else only root may.
pub async fn serve(
    doors: Doors,
    handle: Handle,
    readers: Option<u32>,
    directory: Directory,
) -> String {
    let hall = Hall::new(handle, readers, Path::new(people::SUBORDINATE), directory);
    tokio::select! {
        e = accept(&doors.root.listener, &hall, None) => format!("root's socket: {e}"),
        e = accept(&doors.everybody.listener, &hall, Some(EVERYBODY)) => {
            format!("everybody's socket: {e}")
        }
    }
}

/// Passes by itself, as connections end and memory is freed.
fn is_shortage(e: &Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::PERM,
    ];
    passing
        .iter()
        .any(|p| e.raw_os_error() == Some(p.raw_os_error()))
}

/// At the pace of `uid`, if there is one. Returns why it accepts no more.
async fn accept(listener: &UnixListener, hall: &Hall, uid: Option<u32>) -> Error {
    let spent = uid.map(|uid| hall.pace.spent(uid));
    loop {
        if let Some(uid) = uid {
            hall.pace.wait(uid, 1.0).await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let watch = Stopwatch::start(&spent);
                match peer::of(&stream) {
                    Ok((caller, process)) => hall.admit(stream, caller, process),
                    Err(e) => tracing::warn!("who connects? {e}"),
                }
                drop(watch);
                // Whoever only connects does not keep others from being answered.
                tokio::task::yield_now().await;
            }
            Err(e) if is_shortage(&e) => {
                tracing::warn!("accepting a connection: {e}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            Err(e) => return e,
        }
    }
}

/// What all connections share.
pub struct Hall {
    handle: Handle,
    readers: Option<u32>,
    counts: Counts,
    pace: Rc<Pace>,
    /// Of what is read beside the writer.
    reading: Rc<Pace>,
    /// Of what is logged.
    logging: Rc<Pace>,
    /// Whose turn it is to have a change tried.
    trying: Rc<Tries>,
    people: RefCell<People>,
    directory: Directory,
}

impl Hall {
    /// `subordinate` is the file that says whose the subordinate uids are; `directory` knows
    /// users' names.
    pub fn new(
        handle: Handle,
        readers: Option<u32>,
        subordinate: &Path,
        directory: Directory,
    ) -> Hall {
        Hall {
            handle,
            readers,
            counts: Rc::default(),
            pace: Rc::default(),
            reading: Rc::default(),
            logging: Rc::new(Pace::of_log()),
            trying: Rc::default(),
            people: RefCell::new(People::new(subordinate)),
            directory,
        }
    }

    /// Serves `caller`, who is at the other end, or hangs up if that is one connection too many.
    /// Must run in a `LocalSet`.
    pub fn admit(&self, stream: UnixStream, caller: Caller, process: Process) {
        let uid = self.people.borrow_mut().whose(caller.uid);
        let Some(place) = Place::take(&self.counts, uid) else {
            return;
        };
        let spent = (uid != 0).then(|| self.pace.spent(uid));
        let rehearsal = Rc::default();
        let session = Session {
            handle: match &spent {
                None => self.handle.first(),
                Some(spent) => {
                    let logged = self.logging.spent(uid);
                    self.handle.counted(Arc::clone(spent), logged)
                }
            },
            reads_all: caller.is_root() || self.readers.is_some_and(|gid| caller.in_group(gid)),
            caller,
            user: uid,
            process: Arc::new(process),
            pace: Rc::clone(&self.pace),
            reading: Rc::clone(&self.reading),
            directory: self.directory.clone(),
            logging: Rc::clone(&self.logging),
            import: Default::default(),
            rehearsal: Rc::clone(&rehearsal),
            trying: Rc::clone(&self.trying),
        };
        let pace = Rc::clone(&self.pace);
        place.hold(async move {
            let listener = zlink::ReadyListener::new(Guarded::new(stream, uid, pace, rehearsal));
            let mut server = pin!(zlink::Server::new(listener, session).run());
            // Reading and writing takes time as well.
            let timed = poll_fn(|cx| {
                let _watch = Stopwatch::start(&spent);
                server.as_mut().poll(cx)
            });
            if let Err(e) = timed.await {
                tracing::debug!("connection of uid {uid}: {e}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::{LocalSet, yield_now};

    #[test]
    fn a_connection_that_panics_gives_its_place_back() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let counts = Counts::default();
            let open = || counts.borrow().get(&1000).copied().unwrap_or(0);
            let place = || Place::take(&counts, 1000);
            place().unwrap().hold(std::future::pending());
            for _ in 1..PER_UID {
                place().unwrap().hold(async {
                    yield_now().await;
                    panic!("no sense");
                });
            }
            assert!(place().is_none() && open() == PER_UID);
            for _ in 0..10 {
                yield_now().await;
            }
            // The other is served as before.
            assert_eq!(open(), 1);
            assert!(place().is_some());
        });
    }
}
