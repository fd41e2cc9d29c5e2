// SPDX-License-Identifier: GPL-2.0-only
//! The parts of tixd that run as long as it does: tasks beside the writer, and threads. A part that
//! ends, however it does, ends tixd, by its name. Without the follower of cgroups, say, tixd would
//! go on answering from a tree that has long changed.
//!
//! systemd starts tixd again (`Restart=` in tixd.service); what is in force stays so meanwhile.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

/// Threads of [`blocking`] at a time.
const THREADS: usize = 32;
static FREE: Semaphore = Semaphore::const_new(THREADS);

/// A part has ended, and why.
#[derive(Debug, thiserror::Error)]
#[error("{part} has ended, and tixd ends with it: {why}; what is in force stays so")]
pub struct Ended {
    pub part: &'static str,
    pub why: String,
}

/// Dropped, it ends its tasks; a thread goes on until it notices.
#[derive(Default)]
pub struct Parts {
    tasks: JoinSet<String>,
    names: HashMap<Id, &'static str>,
}

impl Parts {
    /// A task that is not meant to end; it returns why it did. Must be called in a `LocalSet`.
    pub fn task(&mut self, part: &'static str, run: impl Future<Output = String> + 'static) {
        let task = self.tasks.spawn_local(run);
        self.names.insert(task.id(), part);
    }

    /// A thread of the same kind. Must be called in a `LocalSet`.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn thread(
        &mut self,
        part: &'static str,
        name: &str,
        run: impl FnOnce() -> String + Send + 'static,
    ) -> io::Result<()> {
        let (ended, end) = oneshot::channel();
        Builder::new().name(name.to_owned()).spawn(move || {
            let why = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|e| panicked(&*e));
            // Nobody listens when tixd is ending.
            let _ = ended.send(why);
        })?;
        self.task(part, async {
            let gone = |_| "its thread is gone".to_owned();
            end.await.unwrap_or_else(gone)
        });
        Ok(())
    }

    /// Waits for the first part that ends; for ever if there are none. May be cancelled.
    pub async fn ended(&mut self) -> Ended {
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (id, why) = match ended {
            Ok(returned) => returned,
            Err(e) => (e.id(), cause(e)),
        };
        let part = self.names.remove(&id).unwrap_or("a part of tixd");
        Ended { part, why }
    }
}

fn cause(e: JoinError) -> String {
    match e.try_into_panic() {
        Ok(payload) => panicked(&*payload),
        Err(e) => e.to_string(),
    }
}

fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

/// What `f` returns, which blocks, from a thread of its own: the priority that `f` sets ends with
/// it. A panic in `f` is one here. Once begun `f` goes on to its end, also when nobody waits any
/// more.
///
/// # Errors
/// When the kernel gives no thread (`pids.max`, RLIMIT_NPROC, no memory).
pub async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let place = FREE.acquire().await.map_err(io::Error::other)?;
    let (answer, answered) = oneshot::channel();
    let run = move || {
        let done = catch_unwind(AssertUnwindSafe(f));
        drop(place);
        // Who asked may have gone.
        let _ = answer.send(done);
    };
    let no_thread = |e| io::Error::other(format!("the kernel gives no thread: {e}"));
    Builder::new()
        .name("beside".into())
        .spawn(run)
        .map_err(no_thread)?;
    match answered.await.map_err(io::Error::other)? {
        Ok(done) => Ok(done),
        Err(panic) => resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::LocalSet;

    async fn forever() -> String {
        std::future::pending().await
    }

    /// What is told when that part ends beside others that do not.
    fn told(add: impl FnOnce(&mut Parts)) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut parts = Parts::default();
        let ended = LocalSet::new().block_on(&runtime, async {
            parts.task("one", forever());
            add(&mut parts);
            parts.task("three", forever());
            parts.ended().await
        });
        assert_eq!(ended.part, "two");
        ended.to_string()
    }

    #[test]
    fn a_part_that_ends_is_named_however_it_ends() {
        let returned = told(|parts| parts.task("two", async { "nothing to do".to_owned() }));
        assert!(
            returned.contains("two has ended") && returned.contains("nothing to do"),
            "{returned}"
        );
        let panicked = told(|parts| parts.task("two", async { panic!("no {}", "sense") }));
        assert!(panicked.contains("no sense"), "{panicked}");
        let returned = told(|parts| {
            let run = || "nothing left to follow".to_owned();
            parts.thread("two", "two", run).unwrap();
        });
        assert!(returned.contains("nothing left to follow"), "{returned}");
        let panicked = told(|parts| {
            parts.thread("two", "two", || panic!("lost")).unwrap();
        });
        assert!(panicked.contains("lost"), "{panicked}");
        let beside = told(|parts| {
            parts.task("two", async {
                let _: io::Result<()> = blocking(|| panic!("on another thread")).await;
                forever().await
            });
        });
        assert!(beside.contains("on another thread"), "{beside}");
    }

    #[test]
    fn parts_that_run_are_not_reported() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut parts = Parts::default();
        LocalSet::new().block_on(&runtime, async {
            for part in ["one", "two"] {
                let turns = async {
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    ended = parts.ended() => panic!("{ended}"),
                    () = turns => {}
                }
                parts.task(part, forever());
            }
        });
    }

    const CHILD: &str = "TIX_TEST_NO_THREADS";

    /// The process that has no memory for another thread's stack: not a test of its own.
    #[test]
    #[ignore = "another test starts it"]
    fn asks_for_a_thread_and_has_none() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        use rustix::process::{Resource, Rlimit, setrlimit};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
        let limit = Rlimit {
            current: Some(pages * rustix::param::page_size() as u64 + (1 << 20)),
            maximum: None,
        };
        setrlimit(Resource::As, limit).unwrap();
        let done = runtime.block_on(blocking(|| ()));
        let why = done.unwrap_err().to_string();
        assert!(why.contains("the kernel gives no thread"), "{why}");
    }

    #[test]
    fn no_thread_is_an_answer_and_no_panic() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["parts::tests::asks_for_a_thread_and_has_none", "--exact"])
            .args(["--ignored", "--nocapture"])
            .env(CHILD, "1");
        let out = command.output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && text.contains("1 passed"), "{out:?}");
    }
}
