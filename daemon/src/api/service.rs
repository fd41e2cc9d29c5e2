// SPDX-License-Identifier: GPL-2.0-only
//! The methods of `org.tix.Tix`, for one connection.

use super::{names, view};
use crate::core::Handle;
use crate::ledger::{Op, Refusal};
use futures_util::Stream;
use std::time::Duration;
use tix_api::*;
use tokio::sync::{broadcast, mpsc};
use zlink::Reply;

/// A connection, and who is at its other end.
pub struct Session {
    pub handle: Handle,
    pub uid: u32,
    pub pid: i32,
}

impl Session {
    async fn ask<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut crate::core::Core) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.handle.call(f).await.map_err(names::internal)
    }

    async fn submit(&self, op: Op) -> Result<(), Error> {
        let uid = self.uid;
        self.ask(move |core| core.submit(&[op], uid))
            .await?
            .map_err(names::internal)
    }

    /// What one grant of `issuer` to `holder` amounts to.
    async fn held(&self, holder: String, issuer: String) -> Result<u64, Error> {
        self.ask(move |core| {
            let (h, i) = (core.ledger.find(&holder)?, core.ledger.find(&issuer)?);
            let c = core.ledger.get(h)?;
            c.grants(crate::ledger::Resource::Cpu)
                .iter()
                .find(|g| g.issuer == i)
                .map(|g| g.amount)
        })
        .await
        .map(|a| a.unwrap_or(0))
    }
}

#[zlink::service(
    interface = "org.tix.Tix",
    types = [Resource, Kind, Funding, Share, Currency, CurrencyName, Enforcer, SchedulerStatus, Problem, Step, FundingPath, EventKind, Event, CurrencySample, ProcessSample, Sample],
    vendor = "tix",
    product = "tixd",
    version = env!("CARGO_PKG_VERSION"),
    url = "https://varlink.org"
)]
impl Session {
    async fn status(&self) -> Result<StatusReply, Error> {
        let (uid, pid) = (self.uid, self.pid);
        self.ask(move |core| view::status(core, uid, pid)).await
    }

    async fn tree(&self) -> Result<TreeReply, Error> {
        self.ask(view::tree).await
    }

    async fn list_currencies(&self) -> Result<ListReply, Error> {
        self.ask(|core| view::list(core)).await
    }

    async fn create(&self, name: String) -> Result<CreateReply, Error> {
        let uid = self.uid;
        let done = self.ask(move |core| {
            let cid = core.ledger.next_cid();
            core.submit(
                &[Op::Create {
                    cid,
                    name,
                    owner: uid,
                }],
                uid,
            )
            .map(|()| cid)
        });
        done.await?
            .map(|cid| CreateReply { cid })
            .map_err(names::internal)
    }

    async fn destroy(&self, name: String) -> Result<(), Error> {
        self.submit(Op::Destroy { name }).await
    }

    async fn fund(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Amount,
    ) -> Result<FundReply, Error> {
        let holder = names::currency(&self.handle, &holder).await?;
        let issuer = names::currency(&self.handle, &issuer).await?;
        let resource = view::from_api(resource);
        self.submit(Op::Fund {
            holder: holder.clone(),
            issuer: issuer.clone(),
            resource,
            amount: amount.0,
        })
        .await?;
        self.held(holder, issuer)
            .await
            .map(|amount| FundReply { amount })
    }

    async fn unfund(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Option<Amount>,
    ) -> Result<FundReply, Error> {
        let holder = names::currency(&self.handle, &holder).await?;
        let issuer = names::currency(&self.handle, &issuer).await?;
        let resource = view::from_api(resource);
        self.submit(Op::Unfund {
            holder: holder.clone(),
            issuer: issuer.clone(),
            resource,
            amount: amount.map(|a| a.0),
        })
        .await?;
        self.held(holder, issuer)
            .await
            .map(|amount| FundReply { amount })
    }

    async fn bind(&self, name: String, target: String) -> Result<BindReply, Error> {
        let name = names::currency(&self.handle, &name).await?;
        let path = names::cgroup(&self.handle, &target, self.uid).await?;
        self.submit(Op::Bind {
            name,
            path: path.clone(),
        })
        .await?;
        Ok(BindReply { cgroup: path })
    }

    async fn unbind(&self, name: String, target: Option<String>) -> Result<(), Error> {
        let path = match target {
            // A cgroup that is gone may be bound still: take the path as it is then.
            Some(t) => Some(names::currency(&self.handle, &t).await.unwrap_or(t)),
            None => None,
        };
        self.submit(Op::Unbind { name, path }).await
    }

    async fn explain(&self, name: String) -> Result<ExplainReply, Error> {
        let name = names::currency(&self.handle, &name).await?;
        let wanted = name.clone();
        let found = self
            .ask(move |core| {
                core.ledger
                    .find(&wanted)
                    .and_then(|c| view::explain(core, c))
            })
            .await?;
        found.ok_or_else(|| view::refusal(&Refusal::NoSuchCurrency(name)))
    }

    async fn run_begin(
        &self,
        name: Option<String>,
        issuer: Option<String>,
        amount: Option<Amount>,
        cgroup: String,
    ) -> Result<RunReply, Error> {
        let (uid, pid) = (self.uid, self.pid);
        let issuer = match issuer {
            Some(i) => names::currency(&self.handle, &i).await?,
            None => self
                .ask(move |core| names::user_currency(core, uid, pid))
                .await?
                .ok_or_else(|| Error::NoSuchCurrency {
                    message: format!("uid {uid} has no user currency"),
                    hint: "name one that you own with --from; `tixctl tree` lists what there is"
                        .into(),
                })?,
        };
        let path = names::cgroup(&self.handle, &cgroup, uid).await?;
        let amount = amount.map_or(100, |a| a.0);
        let done = self.ask(move |core| {
            let cid = core.ledger.next_cid();
            let name = name.unwrap_or_else(|| format!("run-{cid}"));
            let op = Op::Run {
                cid,
                name: name.clone(),
                owner: uid,
                issuer: issuer.clone(),
                amount,
                path,
            };
            core.submit(&[op], uid).map(|()| (name, issuer))
        });
        let (name, issuer) = done.await?.map_err(names::internal)?;
        Ok(RunReply {
            name,
            issuer,
            amount: amount.unsigned_abs(),
        })
    }

    #[zlink(more)]
    async fn watch(
        &self,
        more: bool,
        processes: Option<bool>,
        interval_ms: Option<i64>,
    ) -> impl Stream<Item = Result<Reply<WatchReply>, Error>> + Unpin {
        let interval = interval_ms.unwrap_or(1000);
        let (tx, rx) = mpsc::channel(4);
        let (handle, uid, processes) = (self.handle.clone(), self.uid, processes.unwrap_or(false));
        tokio::task::spawn_local(async move {
            if (200..=60_000).contains(&interval) {
                feed(
                    tx,
                    handle,
                    uid,
                    processes,
                    Duration::from_millis(interval.unsigned_abs()),
                    more,
                )
                .await;
            } else {
                let error = Error::BadParameter {
                    message: format!("an interval of {interval} ms"),
                    hint: "200 to 60000".into(),
                };
                // The watcher may be gone.
                let _ = tx.send(Err(error)).await;
            }
        });
        Box::pin(futures_util::stream::unfold(rx, |mut rx| async move {
            rx.recv().await.map(|item| (item, rx))
        }))
    }
}

/// An amount as a caller may write it: a number beyond all bounds is refused like any other bad amount, not as a malformed message.
#[derive(Debug, Clone, Copy)]
struct Amount(i64);

impl zlink::introspect::Type for Amount {
    const TYPE: &'static zlink::idl::Type<'static> = &zlink::idl::Type::Int;
}

impl<'de> serde::Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Amount, D::Error> {
        let n = serde_json::Number::deserialize(d)?;
        let fraction = n.as_f64().unwrap_or(f64::MAX);
        // What is no integer is no amount: 0 is refused.
        Ok(Amount(n.as_i64().unwrap_or(if fraction.abs() >= 9e18 {
            i64::MAX
        } else {
            0
        })))
    }
}

impl serde::Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_i64(self.0)
    }
}

type Item = std::result::Result<Reply<WatchReply>, Error>;

/// Samples and events into `tx`, until nobody takes them.
async fn feed(
    tx: mpsc::Sender<Item>,
    handle: Handle,
    uid: u32,
    processes: bool,
    interval: Duration,
    more: bool,
) {
    let mut events = handle.events();
    let mut clock = tokio::time::interval(interval);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let reply = tokio::select! {
            biased;
            () = tx.closed() => return,
            _ = clock.tick() => match handle.call(move |core| view::sample(core, processes, uid)).await {
                Ok(sample) => WatchReply { event: None, sample: Some(sample) },
                Err(_) => return,
            },
            event = events.recv() => match event {
                Ok(event) => WatchReply { event: Some(event), sample: None },
                Err(broadcast::error::RecvError::Lagged(n)) => WatchReply { event: Some(missed(n)), sample: None },
                Err(broadcast::error::RecvError::Closed) => return,
            },
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

fn missed(n: u64) -> Event {
    Event {
        time_usec: crate::core::now_usec(),
        kind: EventKind::Missed,
        currency: None,
        issuer: None,
        resource: None,
        amount: None,
        cgroup: None,
        uid: None,
        message: format!("{n} events came faster than they were read and are not shown"),
    }
}
