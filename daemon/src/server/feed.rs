// SPDX-License-Identifier: GPL-2.0-only
//! What a watcher is sent: samples as time goes, and events as they happen.

use super::held;
use super::pace::Pace;
use super::processes::{self, Whose};
use super::readers;
use super::session::{self, CHEAP, written};
use super::view;
use super::whole::Written;
use crate::writer::event::WatchEvent;
use crate::writer::{Failure, Handle, now_usec};
use std::rc::Rc;
use std::time::Duration;
use tix_api::{Error, Event, EventKind, ProcessSample, Sample, WatchReply};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use zlink::Reply;

pub type Item = std::result::Result<Reply<Written<WatchReply>>, Error>;

/// Who watches what.
pub struct Watch {
    pub handle: Handle,
    /// Whose limits count.
    pub user: u32,
    pub pace: Rc<Pace>,
    /// Of reading processes: it waits for itself alone.
    pub reading: Rc<Pace>,
    /// Whose processes are told of, if any are.
    pub processes: Option<Whose>,
    /// Is more than one sample or event wanted?
    pub more: bool,
}

/// Samples, one in `interval` milliseconds, and events into `tx`, until nobody takes them. A sample
/// is work as any other request is, and waits for its turn.
pub async fn feed(tx: mpsc::Sender<Item>, watch: Watch, interval: i64) {
    let Watch {
        handle,
        user,
        pace,
        reading,
        processes,
        more,
    } = watch;
    let mut cost = 0.0;
    if !(200..=60_000).contains(&interval) {
        let error = Error::BadParameter {
            message: format!("an interval of {interval} ms"),
            hint: "200 to 60000".into(),
        };
        // The watcher may be gone.
        let _ = tx.send(Err(error)).await;
        return;
    }
    let mut events = handle.events();
    let interval = Duration::from_millis(interval.unsigned_abs());
    let mut clock = tokio::time::interval(interval);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let reply = tokio::select! {
            biased;
            () = tx.closed() => return,
            _ = clock.tick() => {
                pace.wait(user, cost).await;
                let processes = async {
                    let read = |whose| readers::read(&reading, user, move || processes::all(whose));
                    // Where they cannot be read the sample tells of none.
                    read(processes?).await.ok()
                };
                let Ok(sample) = sample(&handle, processes).await else {
                    return;
                };
                cost = 1.0 + sample.currencies.len() as f64 / CHEAP;
                WatchReply { event: None, sample: Some(sample) }
            }
            told = events.recv() => match told {
                Ok(e) => WatchReply { event: Some(event(e)), sample: None },
                Err(RecvError::Lagged(n)) => WatchReply { event: Some(missed(n)), sample: None },
                Err(RecvError::Closed) => return,
            },
        };
        let reply = match reply.sample {
            // A thread for one event would cost more than its words.
            None => session::words(&reply),
            Some(_) => written(reply).await,
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(e) => {
                // The watcher may be gone.
                let _ = tx.send(Err(e)).await;
                return;
            }
        };
        if tx
            .send(Ok(Reply::new(Some(reply)).set_continues(Some(more))))
            .await
            .is_err()
            || !more
        {
            return;
        }
    }
}

/// How everything is now.
async fn sample(
    handle: &Handle,
    processes: impl Future<Output = Option<Vec<ProcessSample>>>,
) -> Result<Sample, Failure> {
    let monotonic_usec = handle.read_clocks_now().await?;
    let currencies = handle.slices(view::currency_sample).await?;
    let not_held = handle.call(|core| held::not_held(core, tix_ledger::Resource::Cpu));
    let not_held = not_held.await?;
    let processes = processes.await;
    Ok(Sample {
        time_usec: now_usec(),
        monotonic_usec,
        cpus: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
        currencies,
        processes,
        not_held,
    })
}

fn missed(n: u64) -> Event {
    Event {
        time_usec: now_usec(),
        kind: EventKind::Missed,
        currency: None,
        issuer: None,
        resource: None,
        kind_of_ticket: None,
        amount: None,
        cgroup: None,
        uid: None,
        concerns: vec![],
        message: format!("{n} events came faster than they were read and are not shown"),
    }
}

fn event(e: WatchEvent) -> Event {
    Event {
        time_usec: e.time_usec,
        kind: e.kind.into(),
        currency: e.currency,
        issuer: e.issuer,
        resource: e.resource.map(Into::into),
        kind_of_ticket: e.kind_of_ticket.map(Into::into),
        amount: e.amount,
        cgroup: e.cgroup,
        uid: e.uid,
        concerns: e.concerns,
        message: e.message,
    }
}
