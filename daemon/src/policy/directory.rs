// SPDX-License-Identifier: GPL-2.0-only
//! Look-ups in the system's databases that nobody waits for longer than a moment.
//!
//! A directory service may take minutes, or hang. Each look-up has a thread of its own, of which there are
//! [`AT_ONCE`] at most; whoever asks waits [`PATIENCE`] and then goes on without an answer.

use super::subject::User;
use super::users;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Look-ups at a time, those that hang included.
const AT_ONCE: usize = 4;
/// How long a look-up may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A place among those that look up, given back when it is dropped.
struct Place(&'static AtomicUsize);

impl Place {
    fn take(of: &'static AtomicUsize) -> Option<Place> {
        let more = |n| (n < AT_ONCE).then_some(n + 1);
        let taken = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Place(of))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn busy() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the user database does not answer (see nsswitch.conf)",
    )
}

/// What `look` finds, if it does so soon.
async fn soon<T: Send + 'static>(
    places: &'static AtomicUsize,
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = Place::take(places).ok_or_else(busy)?;
    let (tx, rx) = oneshot::channel();
    let look = move || {
        let _place = place;
        // Who asked may have gone on.
        let _ = tx.send(look());
    };
    let thread = std::thread::Builder::new().name("names".into());
    thread.spawn(look)?;
    match tokio::time::timeout(PATIENCE, rx).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) => Err(io::Error::other("the look-up has panicked")),
        Err(_) => Err(busy()),
    }
}

static PLACES: AtomicUsize = AtomicUsize::new(0);

/// The user with this number, and every group of theirs.
///
/// # Errors
/// The databases do not answer, or not soon.
pub async fn lookup(uid: u32) -> io::Result<User> {
    soon(&PLACES, move || users::lookup(uid)).await
}

/// The number of the group `name`; `None`: there is no such group.
///
/// # Errors
/// As for [`lookup`].
pub async fn gid(name: &str) -> io::Result<Option<u32>> {
    use users::Names;
    let name = name.to_owned();
    soon(&PLACES, move || users::System.gid(&name)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tokio::time::Instant;

    #[test]
    fn a_directory_service_that_hangs_has_so_many_threads_and_so_much_time() {
        static HERE: AtomicUsize = AtomicUsize::new(0);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut hanging = Vec::new();
            let start = Instant::now();
            // In a time that passes only when everybody waits, in steps of milliseconds.
            let waited = || (start.elapsed().as_secs_f64() / PATIENCE.as_secs_f64()).round();
            for _ in 0..AT_ONCE {
                let (go, wait) = channel::<()>();
                hanging.push(go);
                let found = soon(&HERE, move || {
                    let _ = wait.recv();
                    Ok(())
                });
                assert!(found.await.is_err());
            }
            assert_eq!(waited(), 4.0);
            // No further thread is begun, nor waited for.
            for _ in 0..100 {
                assert!(soon(&HERE, || Ok(())).await.is_err());
            }
            assert_eq!(waited(), 4.0);
            hanging.pop();
            while HERE.load(Ordering::Relaxed) == AT_ONCE {
                std::thread::yield_now();
            }
            tokio::time::resume();
            assert!(soon(&HERE, || Ok(())).await.is_ok());
        });
    }
}
