// SPDX-License-Identifier: GPL-2.0-only
//! Is the scheduler in force, and how does it come to be: adopted, loaded, ejected, loaded again after growing pauses, given up.
//!
//! Loading takes seconds, on a busy machine half a minute: a thread of its own does it, and the writer goes on serving.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tix_bpf::{Error, Force, Scheduler};
use tokio::sync::oneshot;

/// Pauses before the scheduler is loaded again after it was ejected; then it is given up.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// In force for this long, it has recovered.
const RECOVERED: Duration = Duration::from_secs(60);

type Loading = oneshot::Receiver<Result<Scheduler, Error>>;

/// What is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    InForce,
    /// It is being loaded.
    Loading,
    /// It will be loaded again after that long.
    Retry(Duration),
    /// The kernel has no sched_ext.
    Unsupported,
    /// Not before tixd is restarted.
    GivenUp,
    /// `--observe`
    Observing,
}

/// What a poll found.
#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    Quiet,
    /// It is out; why.
    Lost(String),
}

#[derive(Default)]
pub struct Presence {
    pin_dir: PathBuf,
    scheduler: Option<Scheduler>,
    loading: Option<Loading>,
    retry_at: Option<Instant>,
    failures: usize,
    since: Option<Instant>,
    unsupported: bool,
    observe: bool,
    /// Why it last left, or could not be loaded.
    pub reason: Option<String>,
    /// How often it was loaded again after it had left.
    pub reloads: u64,
    left: bool,
}

impl Presence {
    pub fn new(pin_dir: PathBuf) -> Presence {
        Presence {
            pin_dir,
            ..Presence::default()
        }
    }

    /// One that changes nothing in the kernel.
    pub fn observer() -> Presence {
        Presence {
            observe: true,
            reason: Some("tixd runs with --observe: nothing is enforced".to_owned()),
            ..Presence::default()
        }
    }

    pub fn scheduler(&self) -> Option<&Scheduler> {
        self.scheduler.as_ref()
    }

    pub fn outlook(&self) -> Outlook {
        match (&self.scheduler, &self.loading, self.retry_at) {
            (Some(_), ..) => Outlook::InForce,
            _ if self.observe => Outlook::Observing,
            (None, Some(_), _) => Outlook::Loading,
            (None, None, Some(at)) => Outlook::Retry(at.saturating_duration_since(Instant::now())),
            _ if self.unsupported => Outlook::Unsupported,
            _ => Outlook::GivenUp,
        }
    }

    /// Adopts what is in force (true), or begins to load.
    pub fn start(&mut self) -> bool {
        if self.observe {
            return false;
        }
        match Scheduler::adopt(&self.pin_dir) {
            Ok(Some(s)) => {
                tracing::info!("adopted the scheduler that is in force");
                self.scheduler = Some(s);
                self.since = Some(Instant::now());
                return true;
            }
            Ok(None) => {
                self.reason = tix_bpf::last_exit(&self.pin_dir).map(|exit| exit.reason);
            }
            // Another version's, or one that a tixd was killed at: it is replaced.
            Err(e) => tracing::warn!("cannot adopt what is pinned, loading anew: {e}"),
        }
        self.load();
        false
    }

    fn load(&mut self) {
        let (tx, rx) = oneshot::channel();
        let dir = self.pin_dir.clone();
        let load = move |dir: &Path| {
            tix_bpf::clear(dir)?;
            Scheduler::load(dir)
        };
        self.retry_at = None;
        let thread = std::thread::Builder::new().name("load".into());
        match thread.spawn(move || {
            // Nobody takes it when tixd is ending.
            let _ = tx.send(load(&dir));
        }) {
            Ok(_) => self.loading = Some(rx),
            Err(e) => self.failed(format!("cannot start a thread to load the scheduler: {e}")),
        }
    }

    fn failed(&mut self, why: String) {
        tracing::error!("cannot load the scheduler: {why}");
        self.reason = Some(why);
        self.plan_retry();
    }

    /// Waits until it has been loaded, or could not be; for ever if it is not being loaded. True: it is in force. May be cancelled.
    pub async fn loaded(&mut self) -> bool {
        let Some(loading) = self.loading.as_mut() else {
            return std::future::pending().await;
        };
        let result = loading.await;
        self.loading = None;
        match result {
            Ok(Ok(s)) => {
                tracing::info!("scheduler loaded");
                self.scheduler = Some(s);
                self.since = Some(Instant::now());
                self.reloads += u64::from(self.left);
                return true;
            }
            Ok(Err(e)) if matches!(e, Error::NoSchedExt) => {
                tracing::error!("no scheduler: {e}");
                self.reason = Some(e.to_string());
                self.unsupported = true;
            }
            Ok(Err(e)) => self.failed(e.to_string()),
            Err(_) => self.failed("the thread that loaded it has died".into()),
        }
        false
    }

    fn plan_retry(&mut self) {
        self.since = None;
        self.retry_at = PAUSES
            .get(self.failures)
            .map(|pause| Instant::now() + *pause);
        self.failures += 1;
        if self.retry_at.is_none() {
            tracing::error!(
                "the scheduler did not stay in force after {} attempts: given up; restart tixd to try again",
                PAUSES.len()
            );
        }
    }

    /// Once a second: is it still in force?
    pub fn poll(&mut self) -> Poll {
        if self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.load();
        }
        let Some(s) = &self.scheduler else {
            return Poll::Quiet;
        };
        let out = match tix_bpf::in_force() {
            Force::InForce { .. } => {
                if self.since.is_some_and(|t| t.elapsed() >= RECOVERED) {
                    self.failures = 0;
                }
                return Poll::Quiet;
            }
            // Its last words are written while the kernel takes it out: they are there when that is done.
            Force::Changing { .. } => return Poll::Quiet,
            Force::Other { ops } => format!("another scheduler is in force: {ops}"),
            Force::Disabled => "the kernel's own scheduler is in force".to_owned(),
            Force::Unsupported(why) => why,
        };
        let exit = s.exit().ok().flatten();
        let on_purpose = exit.as_ref().is_some_and(tix_bpf::Exit::on_purpose);
        let (reason, dump) = exit.map_or((out, String::new()), |exit| (exit.reason, exit.dump));
        tracing::error!("the scheduler left: {reason}");
        if !on_purpose && !dump.is_empty() {
            tracing::info!("the state that the kernel found it in:\n{dump}");
        }
        self.reason = Some(reason.clone());
        self.scheduler = None;
        self.left = true;
        if on_purpose {
            // Whoever took it out wants it out.
            self.since = None;
        } else {
            self.plan_retry();
        }
        Poll::Lost(reason)
    }
}
