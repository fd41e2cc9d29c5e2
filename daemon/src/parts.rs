// SPDX-License-Identifier: GPL-2.0-only
//! The parts of tixd that run as long as it does: tasks beside the writer, and threads. A part that
//! ends, however it does, ends tixd, by its name. Without the follower of cgroups, say, tixd would
//! go on answering from a tree that has long changed.
//!
//! systemd starts tixd again (`Restart=` in tixd.service); what is in force stays so meanwhile.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet, spawn_blocking};

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
    ) -> std::io::Result<()> {
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
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

/// What `f` returns, which blocks, from a thread of its own; `None` when tixd is ending. A panic in
/// `f` is one here, not an answer.
pub async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(f).await {
        Ok(done) => Some(done),
        Err(e) if e.is_panic() => resume_unwind(e.into_panic()),
        Err(_) => None,
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
                blocking(|| panic!("on another thread")).await;
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
}
