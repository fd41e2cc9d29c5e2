// SPDX-License-Identifier: GPL-2.0-only
//! Is the scheduler in force, and how does it come to be: adopted, loaded, ejected, loaded again
//! after growing pauses, given up.
//!
//! While another sched_ext scheduler is in force nothing is tried, and so nothing used up: tixd
//! looks every second whether it has left.
//!
//! Loading takes seconds, on a busy machine half a minute: a thread of its own does it, and the
//! writer goes on serving. What another version of tixd has left in force is adopted, and stays so
//! until this version's is loaded and takes its place. If that fails within a minute, the other one
//! comes back. One of another layout cannot be spoken with: it is in force as its own tixd left it,
//! and nothing of tixd's meddles with that, until this version's takes its place; it does not come
//! back.

use crate::resident;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tix_bpf::{Error, Exchange, Force, Options, Scheduler};
use tokio::sync::oneshot;

/// Pauses before the scheduler is loaded again after it was ejected; then it is given up.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// In force for this long, it has recovered.
const RECOVERED: Duration = Duration::from_secs(60);

type Loading = oneshot::Receiver<Result<Loaded, Error>>;

struct Loaded {
    scheduler: Scheduler,
    /// Why it is not this version's.
    fault: Option<String>,
}

/// What is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    InForce,
    /// It is being loaded.
    Loading,
    /// It will be loaded again after that long.
    Retry(Duration),
    /// Another sched_ext scheduler is in force: it will be loaded when that has left.
    Waiting,
    /// The kernel has no sched_ext, or lets nobody use it.
    Unsupported,
    /// Not before tixd is restarted.
    GivenUp,
    /// `--observe`
    Observing,
    /// There is no cgroup v2, so nothing that anything could be enforced on.
    NoCgroups,
}

impl Outlook {
    /// Something is enforced, by whichever scheduler.
    pub fn enforces(self) -> bool {
        !matches!(self, Outlook::Observing | Outlook::NoCgroups)
    }
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
    options: Options,
    scheduler: Option<Scheduler>,
    loading: Option<Loading>,
    retry_at: Option<Instant>,
    failures: usize,
    since: Option<Instant>,
    unsupported: bool,
    /// Another is in force, and this one waits for it to leave.
    waiting: bool,
    /// Nothing is to be changed in the kernel, and which of the reasons it is.
    observe: Option<Outlook>,
    /// One that was in force before is kept, to go back to.
    keeps_old: bool,
    /// The layout of another version's that is in force and cannot be spoken with.
    pub stranger: Option<String>,
    /// Why it last left, or could not be loaded.
    pub reason: Option<String>,
    /// Why what is in force is not this version's.
    pub fault: Option<String>,
    /// How often it was loaded again after it had left.
    pub reloads: u64,
    left: bool,
}

impl Presence {
    pub fn new(pin_dir: PathBuf, options: Options) -> Presence {
        Presence {
            pin_dir,
            options,
            ..Presence::default()
        }
    }

    /// One that changes nothing in the kernel.
    pub fn observer(outlook: Outlook, why: &str) -> Presence {
        Presence {
            observe: Some(outlook),
            reason: Some(format!("{why}: nothing is enforced")),
            ..Presence::default()
        }
    }

    pub fn is_partial(&self) -> bool {
        self.options.partial
    }

    /// One that loads nothing, as on a kernel without sched_ext: shares are held by weights.
    pub fn unsupported(why: &str) -> Presence {
        Presence {
            unsupported: true,
            reason: Some(why.to_owned()),
            ..Presence::default()
        }
    }

    pub fn scheduler(&self) -> Option<&Scheduler> {
        self.scheduler.as_ref()
    }

    pub fn outlook(&self) -> Outlook {
        if let Some(outlook) = self.observe {
            return outlook;
        }
        match (&self.scheduler, &self.loading, self.retry_at) {
            (Some(_), ..) => Outlook::InForce,
            (None, Some(_), _) => Outlook::Loading,
            (None, None, Some(at)) => Outlook::Retry(at.saturating_duration_since(Instant::now())),
            _ if self.waiting => Outlook::Waiting,
            _ if self.unsupported => Outlook::Unsupported,
            _ => Outlook::GivenUp,
        }
    }

    /// Adopts what is in force (true), and begins to load if that is nothing, or another version's.
    pub fn start(&mut self) -> bool {
        if self.observe.is_some() || self.unsupported {
            return false;
        }
        match Scheduler::adopt(&self.pin_dir) {
            Ok(Some(s)) => {
                tracing::info!("adopted the scheduler that is in force");
                let build = s.build();
                self.has(s);
                if tix_bpf::went_back_from(&self.pin_dir).as_ref() == Some(&self.options.build) {
                    self.fault = Some("an earlier tixd of this version went back to it".into());
                } else if build != self.options.build {
                    tracing::info!("it is another version's: this one's is loaded beside it");
                    self.load();
                }
                return true;
            }
            Ok(None) => {
                let exit = tix_bpf::last_exit(&self.pin_dir);
                self.reason = exit.as_ref().map(|exit| exit.reason.clone());
                // It failed while no tixd was there.
                if let Some(exit) = exit.filter(|exit| !exit.on_purpose())
                    && tix_bpf::can_go_back(&self.pin_dir)
                {
                    self.go_back(exit.reason);
                    return false;
                }
            }
            Err(Error::Layout { found, .. }) => {
                tracing::warn!(
                    "what is in force is another version's, of layout {found}, and this tixd \
                     speaks {}: it goes on as it is until this one's is loaded and takes its \
                     place, and there is no way back to it",
                    tix_bpf::LAYOUT
                );
                self.stranger = Some(found);
            }
            // One that a tixd was killed at: it is replaced.
            Err(e) => tracing::warn!("cannot adopt what is pinned, loading anew: {e}"),
        }
        self.load();
        false
    }

    /// This is in force.
    fn has(&mut self, scheduler: Scheduler) {
        self.stranger = None;
        self.scheduler = Some(scheduler);
        self.since = Some(Instant::now());
        self.keeps_old = tix_bpf::can_go_back(&self.pin_dir);
    }

    fn load(&mut self) {
        let options = self.options.clone();
        self.begin(move |dir| match Scheduler::load_with(dir, &options) {
            Err(Error::WentBack { reason }) => back(dir, reason),
            loaded => loaded.map(|scheduler| Loaded {
                scheduler,
                fault: None,
            }),
        });
    }

    /// It failed, for this reason, and there is one that was in force before it.
    fn go_back(&mut self, reason: String) {
        self.begin(move |dir| {
            let Some(scheduler) = tix_bpf::go_back(dir)? else {
                return back(dir, reason);
            };
            Ok(Loaded {
                scheduler,
                fault: Some(reason),
            })
        });
    }

    fn begin(&mut self, load: impl FnOnce(&Path) -> Result<Loaded, Error> + Send + 'static) {
        let (tx, rx) = oneshot::channel();
        let dir = self.pin_dir.clone();
        self.retry_at = None;
        self.waiting = false;
        let thread = std::thread::Builder::new().name("load".into());
        match thread.spawn(move || {
            // Nobody takes it when tixd is ending.
            let _ = tx.send(resident::while_loading(|| load(&dir)));
        }) {
            Ok(_) => self.loading = Some(rx),
            Err(e) => self.failed(format!("cannot start a thread to load the scheduler: {e}")),
        }
    }

    fn failed(&mut self, why: String) {
        tracing::error!("cannot load the scheduler: {why}");
        self.scheduler = None;
        self.reason = Some(why);
        self.plan_retry();
    }

    fn refused(&mut self, e: &Error) {
        match (other(e), e) {
            (Some(ops), _) => self.wait_for(&ops),
            (None, Error::NoSchedExt | Error::LockedDown | Error::NotCapable(_)) => {
                tracing::error!("no scheduler: {e}");
                self.reason = Some(e.to_string());
                self.unsupported = true;
            }
            (None, _) => self.failed(e.to_string()),
        }
    }

    /// While `ops` is in force none of tix's can be.
    fn wait_for(&mut self, ops: &str) {
        tracing::warn!(
            "no scheduler: another one, {ops}, is in force; tix's is loaded when that has left"
        );
        self.scheduler = None;
        self.since = None;
        self.reason = Some(format!("another sched_ext scheduler is in force: {ops}"));
        self.waiting = true;
    }

    /// Waits until it has been loaded, or could not be; for ever if it is not being loaded. True:
    /// it is in force. May be cancelled.
    pub async fn loaded(&mut self) -> bool {
        let Some(loading) = self.loading.as_mut() else {
            return std::future::pending().await;
        };
        let result = loading.await;
        self.loading = None;
        match result {
            Ok(Ok(Loaded { scheduler, fault })) => {
                let leads = scheduler.exchange.as_ref().map(leads).unwrap_or_default();
                let gap = scheduler.exchange.as_ref().and_then(|e| e.gap);
                match (&fault, gap) {
                    (Some(why), _) => {
                        tracing::error!("went back to the previous scheduler{leads}: {why}");
                        self.reason = Some(format!("went back to the previous scheduler: {why}"));
                    }
                    (None, Some(gap)) => {
                        let ms = gap.as_secs_f64() * 1000.0;
                        tracing::info!(
                            "scheduler loaded in another's place: {ms:.1} ms without{leads}"
                        );
                    }
                    (None, None) => tracing::info!("scheduler loaded"),
                }
                self.fault = fault;
                self.has(scheduler);
                self.reloads += u64::from(self.left);
                return true;
            }
            Ok(Err(e)) if self.scheduler.is_some() && is_in_force() => {
                tracing::error!("cannot load this version's scheduler, another's stays: {e}");
                self.fault = Some(e.to_string());
            }
            Ok(Err(e)) => self.refused(&e),
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
                "the scheduler did not stay in force after {} attempts: given up; restart tixd to \
                 try again",
                PAUSES.len()
            );
        }
    }

    /// Once a second: is it still in force?
    pub fn poll(&mut self) -> Poll {
        // Its place may just be being taken.
        if self.loading.is_none()
            && self.stranger.is_some()
            && tix_bpf::in_force() == Force::Disabled
            && let Some(layout) = self.stranger.take()
        {
            let reason = format!("the scheduler of another version, of layout {layout}, has left");
            tracing::error!("{reason}");
            return Poll::Lost(reason);
        }
        let it_left = self.waiting && tix_bpf::in_force() == Force::Disabled;
        if it_left {
            self.reason = None;
        }
        if it_left || self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.load();
        }
        // Another may be taking its place.
        let Some(s) = self.scheduler.as_ref().filter(|_| self.loading.is_none()) else {
            return Poll::Quiet;
        };
        let out = match tix_bpf::in_force() {
            Force::InForce { .. } => {
                if self.since.is_some_and(|t| t.elapsed() >= RECOVERED) {
                    self.failures = 0;
                    self.fine();
                }
                return Poll::Quiet;
            }
            // Its last words are written while the kernel takes it out: they are there when that is
            // done.
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
        } else if self.keeps_old {
            self.go_back(reason.clone());
        } else {
            self.plan_retry();
        }
        Poll::Lost(reason)
    }

    /// It has been in force for so long that nobody needs to go back to another.
    fn fine(&mut self) {
        if std::mem::take(&mut self.keeps_old)
            && let Err(e) = tix_bpf::forget_old(&self.pin_dir)
        {
            tracing::warn!("cannot drop the previous scheduler: {e}");
        }
    }
}

fn is_in_force() -> bool {
    matches!(tix_bpf::in_force(), Force::InForce { .. })
}

/// The other scheduler that was in the way, which may have come while this one was being verified.
fn other(err: &Error) -> Option<String> {
    match (err, tix_bpf::in_force()) {
        (Error::OtherScheduler(ops), _) => Some(ops.clone()),
        (_, Force::Other { ops }) => Some(ops),
        _ => None,
    }
}

/// What became of who was ahead of its due, or behind, in a few words.
fn leads(exchange: &Exchange) -> String {
    match &exchange.leads {
        Ok(leads) => format!(
            "; ahead or behind as before: {} of those in cgroups",
            leads.len()
        ),
        Err(why) => format!("; who was ahead or behind begins anew: {why}"),
    }
}

/// What was in force before is again.
fn back(dir: &Path, reason: String) -> Result<Loaded, Error> {
    let scheduler = Scheduler::adopt(dir)?.ok_or(Error::WentBack {
        reason: format!("{reason}; and then it left"),
    })?;
    Ok(Loaded {
        scheduler,
        fault: Some(reason),
    })
}
