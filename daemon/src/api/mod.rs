// SPDX-License-Identifier: GPL-2.0-only
//! The Varlink service: the only way in.
//!
//! Every connection has a server of its own, so a client that does not read holds up nobody else. Who asks is what the kernel said when it connected.

mod amount;
mod check;
mod cost;
mod decides;
mod devices;
mod doors;
mod feed;
mod guard;
mod inuse;
mod jobs;
mod limits;
mod market;
mod names;
mod pace;
mod peer;
mod people;
mod processes;
mod service;
mod session;
mod transfer;
mod view;
mod whole;

pub use doors::Doors;

use crate::core::{Handle, Stopwatch};
use crate::labels::Labels;
use crate::ledger::Caller;
use guard::Guarded;
use pace::{EVERYBODY, Pace};
pub use peer::Process;
use people::People;
use session::Session;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};

/// Open connections of one user; root has more.
pub const PER_UID: usize = 16;
pub const FOR_ROOT: usize = 64;
/// Of all users but root.
pub const TOTAL: usize = 512;

type Counts = Rc<RefCell<HashMap<u32, usize>>>;

/// Accepts connections for ever. Must run in a `LocalSet`. Members of the group `readers` may read what else only root may.
pub async fn serve(doors: Doors, handle: Handle, readers: Option<u32>, labels: Labels) {
    let hall = Hall::new(handle, readers, Path::new(people::SUBORDINATE), labels);
    tokio::join!(
        accept(&doors.root.listener, &hall, None),
        accept(&doors.everybody.listener, &hall, Some(EVERYBODY)),
    );
}

/// At the pace of `uid`, if there is one.
async fn accept(listener: &UnixListener, hall: &Hall, uid: Option<u32>) {
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
            Err(e) => {
                // Out of descriptors, mostly: wait for connections to end.
                tracing::warn!("accepting a connection: {e}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
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
    people: RefCell<People>,
    labels: Labels,
}

impl Hall {
    /// `subordinate` is the file that says whose the subordinate uids are; `labels` knows users'
    /// names.
    pub fn new(handle: Handle, readers: Option<u32>, subordinate: &Path, labels: Labels) -> Hall {
        Hall {
            handle,
            readers,
            counts: Rc::default(),
            pace: Rc::default(),
            reading: Rc::default(),
            people: RefCell::new(People::new(subordinate)),
            labels,
        }
    }

    /// Serves `caller`, who is at the other end, or hangs up if that is one connection too many. Must run in a `LocalSet`.
    pub fn admit(&self, stream: UnixStream, caller: Caller, process: Process) {
        let uid = self.people.borrow_mut().whose(caller.uid);
        {
            let mut open = self.counts.borrow_mut();
            let others: usize = open.iter().filter(|(u, _)| **u != 0).map(|(_, n)| n).sum();
            let mine = open.entry(uid).or_insert(0);
            if *mine >= if uid == 0 { FOR_ROOT } else { PER_UID } || (uid != 0 && others >= TOTAL) {
                tracing::debug!("uid {uid} has {mine} connections open: refused another");
                if *mine == 0 {
                    open.remove(&uid);
                }
                return;
            }
            *mine += 1;
        }
        let spent = (uid != 0).then(|| self.pace.spent(uid));
        let session = Session {
            handle: match &spent {
                None => self.handle.first(),
                Some(spent) => self.handle.counted(Arc::clone(spent)),
            },
            reads_all: caller.is_root() || self.readers.is_some_and(|gid| caller.in_group(gid)),
            caller,
            user: uid,
            process: Arc::new(process),
            pace: Rc::clone(&self.pace),
            reading: Rc::clone(&self.reading),
            labels: self.labels.clone(),
            has_space: Default::default(),
            import: Default::default(),
        };
        let (counts, pace) = (Rc::clone(&self.counts), Rc::clone(&self.pace));
        tokio::task::spawn_local(async move {
            let listener = zlink::ReadyListener::new(Guarded::new(stream, uid, pace));
            let mut server = pin!(zlink::Server::new(listener, session).run());
            // Reading and writing takes time as well.
            let timed = poll_fn(|cx| {
                let _watch = Stopwatch::start(&spent);
                server.as_mut().poll(cx)
            });
            if let Err(e) = timed.await {
                tracing::debug!("connection of uid {uid}: {e}");
            }
            let mut open = counts.borrow_mut();
            if let Some(n) = open.get_mut(&uid) {
                *n -= 1;
                if *n == 0 {
                    open.remove(&uid);
                }
            }
        });
    }
}
