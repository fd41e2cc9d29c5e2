// SPDX-License-Identifier: GPL-2.0-only
//! What is read of /proc and of the files of cgroups for a request. It takes long where there are
//! many, so it is done beside the writer, few at a time, after everything else of tixd's, and
//! counts as the user's for whom it is done.

use super::pace::Pace;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

/// How many read at a time: they are beside the writer, but on the same CPUs.
const AT_ONCE: usize = 2;
static READERS: Semaphore = Semaphore::const_new(AT_ONCE);
/// The nice value of those who read: a part of tixd's CPU share that counts for little. Two that
/// read for a user had root wait seconds for what takes a tenth of one.
const LAST: i32 = 19;

/// What `f` reads, when it is the turn of `user`. Begun, it goes on to its end for a peer that has
/// gone, too: the next one waits for it, and it counts.
///
/// # Errors
/// When the kernel gives no thread.
pub(super) async fn read<T: Send + 'static>(
    pace: &Pace,
    user: u32,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    pace.wait(user, 1.0).await;
    let turn = READERS.acquire().await.map_err(io::Error::other)?;
    let spent = pace.spent(user);
    let read = move || {
        let _turn = turn;
        behind(&spent, f)
    };
    crate::parts::blocking(read).await
}

/// Does `f`, in a thread that ends with it, after all else of tixd's; its time is counted in
/// `spent`.
pub(super) fn behind<T>(spent: &AtomicU64, f: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    // Nobody but root may be nicer again.
    if let Err(e) = rustix::process::nice(LAST) {
        tracing::debug!("nice: {e}");
    }
    let done = f();
    let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    spent.fetch_add(took, Ordering::Relaxed);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, mpsc};
    use tokio::task::{LocalSet, yield_now};

    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn few_read_at_a_time_after_all_else_and_it_counts() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let pace = std::rc::Rc::new(Pace::default());
            let began = Arc::new(AtomicUsize::new(0));
            let mut goes = Vec::new();
            let mut all = Vec::new();
            for _ in 0..4 * AT_ONCE {
                let (go, wait) = mpsc::channel::<()>();
                let (pace, began) = (pace.clone(), Arc::clone(&began));
                goes.push(go);
                all.push(tokio::task::spawn_local(async move {
                    let reads = move || {
                        began.fetch_add(1, Ordering::SeqCst);
                        wait.recv().unwrap();
                        niceness()
                    };
                    read(&pace, 1000, reads).await.unwrap()
                }));
            }
            for (n, (go, reads)) in goes.into_iter().zip(all).enumerate() {
                while began.load(Ordering::SeqCst) <= n {
                    yield_now().await;
                }
                assert!(began.load(Ordering::SeqCst) <= AT_ONCE + n);
                go.send(()).unwrap();
                assert_eq!(reads.await.unwrap(), LAST);
            }
            assert!(pace.spent(1000).load(Ordering::Relaxed) > 0);
        });
    }
}
