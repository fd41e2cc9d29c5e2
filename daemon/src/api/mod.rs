// SPDX-License-Identifier: GPL-2.0-only
//! The Varlink service: the only way in.
//!
//! Every connection has a server of its own, so a client that does not read holds up nobody else. Who asks is what the kernel said when it connected.

mod amount;
mod check;
mod devices;
mod doors;
mod feed;
mod guard;
mod inuse;
mod market;
mod names;
mod peer;
mod processes;
mod service;
mod session;
mod transfer;
mod view;
mod whole;

pub use doors::Doors;

use crate::core::{Handle, Stopwatch};
use guard::Guarded;
use peer::{EVERYBODY, Pace};
use session::Session;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
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
pub async fn serve(doors: Doors, handle: Handle, readers: Option<u32>) {
    let hall = Hall {
        handle,
        readers,
        counts: Rc::default(),
        pace: Rc::default(),
        reading: Rc::default(),
    };
    tokio::join!(
        accept(&doors.root.listener, &hall, None),
        accept(&doors.everybody.listener, &hall, Some(EVERYBODY)),
    );
}

/// What all connections share.
struct Hall {
    handle: Handle,
    readers: Option<u32>,
    counts: Counts,
    pace: Rc<Pace>,
    /// Of what is read beside the writer.
    reading: Rc<Pace>,
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
                admit(stream, hall);
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

fn admit(stream: UnixStream, hall: &Hall) {
    let Hall {
        handle,
        readers,
        counts,
        pace,
        reading,
    } = hall;
    let (caller, pid) = match peer::of(&stream) {
        Ok(peer) => peer,
        Err(e) => return tracing::warn!("who connects? {e}"),
    };
    let uid = caller.uid;
    {
        let mut open = counts.borrow_mut();
        let others: usize = open.iter().filter(|(u, _)| **u != 0).map(|(_, n)| n).sum();
        let mine = open.entry(uid).or_insert(0);
        if *mine >= if uid == 0 { FOR_ROOT } else { PER_UID } || (uid != 0 && others >= TOTAL) {
            tracing::debug!("uid {uid} has {mine} connections open: refused another");
            return;
        }
        *mine += 1;
    }
    let spent = (uid != 0).then(|| pace.spent(uid));
    let session = Session {
        handle: match &spent {
            None => handle.first(),
            Some(spent) => handle.counted(Arc::clone(spent)),
        },
        reads_all: caller.is_root() || readers.is_some_and(|gid| caller.in_group(gid)),
        caller,
        pid,
        pace: Rc::clone(pace),
        reading: Rc::clone(reading),
        import: Default::default(),
    };
    let (counts, pace) = (Rc::clone(counts), Rc::clone(pace));
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
