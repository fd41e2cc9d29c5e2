// SPDX-License-Identifier: GPL-2.0-only
//! Work that may block for as long as a disk or a file system takes, beside the writer.
//!
//! Each lane has one job at a time, in the order in which they came, on a thread of its own. What it
//! found is handed to the writer when that has its turn; the writer never waits for it.

use super::Core;
use std::collections::VecDeque;
use tokio::task::JoinHandle;

/// What a job has the writer do afterwards.
pub(super) type Then = Box<dyn FnOnce(&mut Core) + Send>;
type Job = Box<dyn FnOnce() -> Then + Send>;

#[derive(Default)]
pub(super) struct Lane {
    waiting: VecDeque<Job>,
    running: Option<JoinHandle<Then>>,
}

impl Lane {
    pub(super) fn push(&mut self, job: impl FnOnce() -> Then + Send + 'static) {
        self.waiting.push_back(Box::new(job));
        self.start();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    fn start(&mut self) {
        if self.running.is_none()
            && let Some(job) = self.waiting.pop_front()
        {
            self.running = Some(tokio::task::spawn_blocking(job));
        }
    }

    /// What the job that has ended says. May be cancelled. A panic of the job is the writer's.
    pub(super) async fn done(&mut self) -> Then {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let done = running.await;
        self.running = None;
        self.start();
        match done {
            Ok(then) => then,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            // The runtime is ending, and the writer with it.
            Err(_) => std::future::pending().await,
        }
    }
}
