// SPDX-License-Identifier: GPL-2.0-only
//! Work that may block for as long as a disk or a file system takes, beside the writer.
//!
//! A lane does one job at a time, on a thread that it has from tixd's start: later the kernel may
//! refuse one (`pids.max`). What a job found is handed to the writer when that has its turn; the writer never
//! waits for it.
//!
//! A job of a lower [`Rank`] is begun only when none of a higher one waits, and is a slice of what
//! was asked: what is written waits for one such slice at most. Between lanes there is no order,
//! and needs none: a job waits for no lane and for no turn of the writer, and holds no lock after
//! it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Builder, JoinHandle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// Whose job goes first; within a rank, the one that came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The writer's own, such as commits.
    Writer,
    /// What root reads.
    Root,
    /// What everybody else reads.
    Others,
}

impl Rank {
    const ALL: [Rank; 3] = [Rank::Writer, Rank::Root, Rank::Others];
}

/// Jobs that each find a `T`.
pub struct Lane<T> {
    waiting: [VecDeque<Job<T>>; 3],
    /// The rank of the job that runs, until its result was taken by [`Lane::done`].
    running: Option<Rank>,
    jobs: Option<Sender<Job<T>>>,
    done: UnboundedReceiver<thread::Result<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Lane<T> {
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(name: &str) -> io::Result<Lane<T>> {
        let (jobs, given) = channel();
        let (found, done) = unbounded_channel();
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&given, &found))?;
        Ok(Lane {
            waiting: Default::default(),
            running: None,
            jobs: Some(jobs),
            done,
            thread: Some(thread),
        })
    }

    pub fn push(&mut self, rank: Rank, job: impl FnOnce() -> T + Send + 'static) {
        self.waiting[rank as usize].push_back(Box::new(job));
        self.begin();
    }

    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// It has, or is to have, a job of the writer's own.
    pub fn is_writing(&self) -> bool {
        self.running == Some(Rank::Writer) || !self.waiting[Rank::Writer as usize].is_empty()
    }

    fn begin(&mut self) {
        if self.running.is_some() {
            return;
        }
        for (rank, waiting) in Rank::ALL.into_iter().zip(&mut self.waiting) {
            if let (Some(jobs), Some(job)) = (&self.jobs, waiting.pop_front()) {
                // The thread ends with the lane alone.
                self.running = jobs.send(job).is_ok().then_some(rank);
                return;
            }
        }
    }

    /// What the job that has ended found. May be cancelled. If the job panicked, this does.
    pub async fn done(&mut self) -> T {
        let Some(done) = self.done.recv().await else {
            return std::future::pending().await;
        };
        self.running = None;
        self.begin();
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn work<T>(given: &Receiver<Job<T>>, found: &UnboundedSender<thread::Result<T>>) {
    while let Ok(job) = given.recv() {
        let done = catch_unwind(AssertUnwindSafe(job));
        if found.send(done).is_err() {
            return;
        }
    }
}

impl<T> Drop for Lane<T> {
    /// What is being written is written to its end, and the ledger's file is free then.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // Panics of jobs are caught.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_is_written_goes_before_what_is_read_and_root_before_others() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let order = Arc::new(Mutex::new(String::new()));
        let (go, wait) = channel::<()>();
        let mut lane = Lane::start("test").unwrap();
        // One that has begun is not taken back.
        lane.push(Rank::Others, move || {
            wait.recv().unwrap();
        });
        assert!(
            !lane.is_writing(),
            "who reads holds up no chore of the writer's"
        );
        for (rank, name) in [
            (Rank::Others, 'o'),
            (Rank::Root, 'r'),
            (Rank::Writer, 'w'),
            (Rank::Others, 'O'),
            (Rank::Writer, 'W'),
        ] {
            let order = Arc::clone(&order);
            lane.push(rank, move || {
                order.lock().unwrap().push(name);
            });
        }
        assert!(lane.is_writing());
        go.send(()).unwrap();
        runtime.block_on(async {
            while !lane.is_idle() {
                lane.done().await;
            }
        });
        assert_eq!(*order.lock().unwrap(), "wWroO");
    }
}
