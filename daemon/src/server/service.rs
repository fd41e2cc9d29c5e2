// SPDX-License-Identifier: GPL-2.0-only
//! The methods of `org.tix.Tix`, for one connection.

use super::amount::{self, Amount};
use super::errors::{self, bad};
use super::feed::{Watch, feed};
use super::processes::Whose;
use super::rehearse::Rehearsal;
use super::session::{Session, beside, written};
use super::transfer::{self, Import};
use super::whole::{
    Whole, WholeExchange, WholeExchanges, WholeExplain, WholeExport, WholeList, WholeLog,
    WholeOffer, WholeOffers, WholeStatus, WholeTree, WholeWatch,
};
use super::{explain, jobs, journal, market, names, view};
use crate::writer::{Core, now_usec};
use futures_util::Stream;
use std::rc::Rc;
use std::sync::Arc;
use tix_api::*;
use tix_ledger::{Event as Happened, Kind as TicketKind, Ledger, Op, Refusal};
use tix_model::units;
use tokio::sync::mpsc;
use zlink::Reply;

#[zlink::service(
    interface = "org.tix.Tix",
    types = [
        Resource, Kind, LimitKind, Limit, Problem, NotHeld, Funding, Rights, Offer, ExchangeState,
        Party, Exchange, ExchangeTicket, Share, Currency, CurrencyName, Enforcer, CostStatus,
        SchedulerStatus, DiskMechanism, DiskStatus, Notice, StoreStatus, PolicyStatus, Step,
        FundingPath, LogRecord, Effect, EventKind, Event, CurrencySample, ProcessSample, Sample,
    ],
    vendor = "tix",
    product = "tixd",
    version = env!("CARGO_PKG_VERSION"),
    url = "https://varlink.org"
)]
impl Session {
    async fn status(&self) -> Result<WholeStatus, Error> {
        let (uid, process) = (self.caller.uid, Arc::clone(&self.process));
        let status = move |core: &mut Core| view::status(core, uid, &process);
        self.ask(status).await.map(Whole)
    }

    async fn disk_enable(
        &self,
        device: String,
        bfq: Option<bool>,
    ) -> Result<DiskEnableReply, Error> {
        self.not_rehearsed()?;
        self.enable_disk(device, bfq.unwrap_or(false)).await
    }

    async fn disk_disable(&self, device: String) -> Result<DiskDisableReply, Error> {
        self.not_rehearsed()?;
        self.disable_disk(device).await
    }

    async fn tree(&self) -> Result<WholeTree, Error> {
        self.tree_in_use().await
    }

    async fn list_currencies(&self) -> Result<WholeList, Error> {
        let each = |core: &mut Core, cid| view::name(core, cid);
        let currencies = self.ask_each(each).await?;
        written(ListReply { currencies }).await
    }

    async fn create(
        &self,
        name: String,
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<u32>,
    ) -> Result<CreateReply, Error> {
        let owner = owner.unwrap_or(self.caller.uid);
        let group = group.unwrap_or(self.caller.gid);
        let mode = mode.map_or(tix_model::DEFAULT_MODE, |m| {
            u16::try_from(m).unwrap_or(u16::MAX)
        });
        self.make(move |l| {
            let cid = l.next_cid();
            let op = Op::Create {
                cid,
                name,
                owner,
                group,
                mode,
            };
            let reply = move |_: &Ledger, told: &[Happened]| CreateReply {
                cid,
                name: told.iter().find_map(|e| match e {
                    Happened::Created { name, .. } => Some(name.clone()),
                    _ => None,
                }),
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn destroy(&self, name: String) -> Result<DestroyReply, Error> {
        let caller = self.caller.clone();
        self.change_told(move |l| {
            let name = names::doomed(l, &name, &caller)?;
            let (cid, op) = (l.find(&name), Op::Destroy { name: name.clone() });
            let reply = move |_: &Ledger, told: &[Happened]| view::destroyed(name, cid, told);
            Ok((vec![op], reply))
        })
        .await
    }

    async fn fund(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Amount,
    ) -> Result<FundReply, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let holder = names::named(l, &holder, uid)?;
            let issuer = names::named(l, &issuer, uid)?;
            let op = Op::Fund {
                holder: holder.clone(),
                issuer: issuer.clone(),
                resource: tix_model::Resource::from(resource),
                amount: amount.0,
            };
            let reply = move |l: &Ledger| FundReply {
                amount: names::held(l, &holder, &issuer, resource, TicketKind::Soft).0,
                holder: Some(holder),
                issuer: Some(issuer),
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn set_funding(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Amount,
    ) -> Result<FundReply, Error> {
        self.set_tickets(holder, issuer, resource, amount.0).await
    }

    async fn unfund(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Option<Amount>,
    ) -> Result<FundReply, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let holder = names::lapsed_or_named(l, &holder, uid)?;
            let issuer = names::named(l, &issuer, uid)?;
            let op = Op::Unfund {
                holder: holder.clone(),
                issuer: issuer.clone(),
                resource: tix_model::Resource::from(resource),
                amount: amount.map(|a| a.0),
            };
            let reply = move |l: &Ledger| FundReply {
                amount: names::held(l, &holder, &issuer, resource, TicketKind::Soft).0,
                holder: Some(holder),
                issuer: Some(issuer),
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn reserve(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        milli: Option<Amount>,
        bytes: Option<Amount>,
    ) -> Result<ReserveReply, Error> {
        let amount = amount::hard(milli, bytes)?;
        self.reserve_part(holder, issuer, resource, amount).await
    }

    async fn unreserve(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
    ) -> Result<UnreserveReply, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let holder = names::lapsed_or_named(l, &holder, uid)?;
            let issuer = names::named(l, &issuer, uid)?;
            let op = Op::Unreserve {
                holder: holder.clone(),
                issuer: issuer.clone(),
                resource: tix_model::Resource::from(resource),
            };
            Ok((vec![op], move |_: &Ledger| UnreserveReply {
                holder,
                issuer,
            }))
        })
        .await
    }

    async fn limit(
        &self,
        name: String,
        resource: Resource,
        milli: Amount,
    ) -> Result<LimitReply, Error> {
        self.set_limit(name, resource, milli).await
    }

    async fn unlimit(&self, name: String, resource: Resource) -> Result<UnlimitReply, Error> {
        self.lift_limit(name, resource).await
    }

    async fn chmod(&self, name: String, mode: String) -> Result<ChmodReply, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let name = names::named(l, &name, uid)?;
            let now = l.find(&name).and_then(|c| l.get(c)).map_or(0, |c| c.mode);
            let mode =
                units::mode::apply(now, &mode).map_err(|e| Refusal::BadMode(e.to_string()))?;
            let op = Op::Chmod {
                name: name.clone(),
                mode,
            };
            let reply = move |_: &Ledger| ChmodReply {
                name: Some(name),
                mode: mode.into(),
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn chown(
        &self,
        name: String,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Result<ChownReply, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let name = names::named(l, &name, uid)?;
            let op = Op::Chown {
                name: name.clone(),
                owner,
                group,
            };
            let reply = move |l: &Ledger| {
                let now = l.find(&name).and_then(|c| l.get(c));
                let (owner, group) = now.map_or((0, 0), |c| (c.owner, c.group));
                ChownReply { name, owner, group }
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn bind(&self, name: String, target: String) -> Result<BindReply, Error> {
        let name = names::currency(&self.handle, &name, self.caller.uid).await?;
        // A rehearsal enables no controller.
        let path = match self.rehearses() {
            true => names::currency(&self.handle, &target, self.caller.uid).await,
            false => names::cgroup(&self.handle, &target, self.caller.uid).await,
        }?;
        let op = Op::Bind {
            name: name.clone(),
            path: path.clone(),
        };
        let reply = |_: &Ledger| BindReply {
            name: Some(name),
            cgroup: path,
        };
        self.change(op, reply).await
    }

    async fn unbind(&self, name: String, target: Option<String>) -> Result<UnbindReply, Error> {
        let path = match target {
            // A cgroup that is gone may be bound still: take the path as it is then.
            Some(t) => Some(
                names::currency(&self.handle, &t, self.caller.uid)
                    .await
                    .unwrap_or(t),
            ),
            None => None,
        };
        let uid = self.caller.uid;
        self.change_told(move |l| {
            let name = names::named(l, &name, uid)?;
            let op = Op::Unbind {
                name: name.clone(),
                path,
            };
            let reply = move |_: &Ledger, told: &[Happened]| UnbindReply {
                name,
                cgroups: view::unbound(told),
            };
            Ok((vec![op], reply))
        })
        .await
    }

    async fn explain(
        &self,
        name: String,
        resource: Option<Resource>,
    ) -> Result<WholeExplain, Error> {
        let name = names::currency(&self.handle, &name, self.caller.uid).await?;
        let wanted = name.clone();
        let r = tix_model::Resource::from(resource.unwrap_or(Resource::Cpu));
        self.read_clocks().await?;
        let found = self
            .ask(move |core| {
                core.ledger
                    .find(&wanted)
                    .and_then(|c| explain::explain(core, c, r))
            })
            .await?;
        let found = found.ok_or_else(|| errors::refusal(&Refusal::NoSuchCurrency(name)));
        found.map(Whole)
    }

    async fn run_begin(
        &self,
        name: Option<String>,
        issuer: Option<String>,
        amount: Option<Amount>,
        cgroup: String,
    ) -> Result<RunReply, Error> {
        self.not_rehearsed()?;
        self.run_job(name, issuer, amount, &cgroup).await
    }

    async fn nice_begin(
        &self,
        name: Option<String>,
        giver: Option<String>,
        tickets: Option<Amount>,
        milli: Option<Amount>,
        cgroup: String,
    ) -> Result<NiceReply, Error> {
        self.not_rehearsed()?;
        let amount = jobs::part(tickets, milli)?;
        self.nice_job(name, giver, amount, &cgroup).await
    }

    async fn offer(
        &self,
        principal: String,
        give: String,
        want: String,
        minimum: Option<String>,
        all_or_none: Option<bool>,
        expires_sec: Option<Amount>,
    ) -> Result<WholeOffer, Error> {
        let asked = market::Asked {
            give: Some(give),
            want: Some(want),
            minimum,
            all_or_none,
            expires_sec: expires_sec.map(|n| n.0),
        };
        let uid = self.caller.uid;
        self.change_told(move |l| {
            let (id, now) = (l.next_number(), now_usec());
            let op = Op::Offer {
                id,
                party: names::named(l, &principal, uid)?,
                terms: asked.terms(l, None, now)?,
                now,
            };
            let reply = move |l: &Ledger, told: &[Happened]| market::placed(l, id, told);
            Ok((vec![op], reply))
        })
        .await
        .map(Whole)
    }

    async fn amend(
        &self,
        id: u64,
        give: Option<String>,
        want: Option<String>,
        minimum: Option<String>,
        all_or_none: Option<bool>,
        expires_sec: Option<Amount>,
    ) -> Result<WholeOffer, Error> {
        let asked = market::Asked {
            give,
            want,
            minimum,
            all_or_none,
            expires_sec: expires_sec.map(|n| n.0),
        };
        self.change_told(move |l| {
            let now = now_usec();
            let known = l.book().get(id).ok_or(Refusal::NoSuchOffer(id))?;
            let op = Op::Amend {
                offer: id,
                terms: asked.terms(l, Some(known), now)?,
                now,
            };
            let reply = move |l: &Ledger, told: &[Happened]| market::placed(l, id, told);
            Ok((vec![op], reply))
        })
        .await
        .map(Whole)
    }

    async fn accept(&self, id: u64, principal: String) -> Result<WholeExchange, Error> {
        let uid = self.caller.uid;
        let accepted = self.change_told(move |l| {
            let op = Op::Accept {
                offer: id,
                party: names::named(l, &principal, uid)?,
                now: now_usec(),
            };
            let reply = move |l: &Ledger, told: &[Happened]| market::accepted(l, id, told);
            Ok((vec![op], reply))
        });
        accepted.await?.map(Whole)
    }

    async fn cancel(&self, id: u64) -> Result<CancelReply, Error> {
        self.change_told(move |_| {
            let reply = |_: &Ledger, told: &[Happened]| CancelReply {
                exchange: told.iter().any(|e| matches!(e, Happened::Exchanged { .. })),
            };
            Ok((vec![Op::Cancel { id }], reply))
        })
        .await
    }

    async fn offers(
        &self,
        principal: Option<String>,
        after: Option<u64>,
        limit: Option<i64>,
    ) -> Result<WholeOffers, Error> {
        self.page(principal, after, limit, market::offers).await
    }

    async fn exchanges(
        &self,
        principal: Option<String>,
        after: Option<u64>,
        limit: Option<i64>,
    ) -> Result<WholeExchanges, Error> {
        self.page(principal, after, limit, market::exchanges).await
    }

    async fn show_exchange(&self, id: u64) -> Result<WholeExchange, Error> {
        let found = self.ask(move |core| market::exchange(&core.ledger, id));
        let exchange = found.await?;
        let exchange = exchange.ok_or_else(|| errors::refusal(&Refusal::NoSuchOffer(id)))?;
        Ok(Whole(ExchangeReply { exchange }))
    }

    async fn log(
        &self,
        after: Option<i64>,
        limit: Option<i64>,
        subject: Option<String>,
        since_usec: Option<i64>,
        mine: Option<bool>,
    ) -> Result<WholeLog, Error> {
        let asked = journal::Asked {
            after,
            limit: limit.unwrap_or(100),
            subject,
            since_usec,
            mine: mine.unwrap_or(false),
        };
        self.log_page(asked).await
    }

    async fn undo(&self, seq: Option<i64>) -> Result<UndoReply, Error> {
        self.take_back(seq).await
    }

    async fn rehearse(&self) -> Result<(), Error> {
        self.rehearsal.replace(Rehearsal::Next);
        Ok(())
    }

    async fn rehearsed(&self) -> Result<RehearsedReply, Error> {
        self.rehearsal.take().reply()
    }

    #[zlink(more)]
    async fn export(
        &self,
        more: bool,
    ) -> impl Stream<Item = Result<Reply<WholeExport>, Error>> + Unpin {
        let allowed = self.readers_only("export the ledger");
        let parts = match allowed {
            Ok(()) => self.export_parts().await,
            Err(e) => Err(e),
        };
        let parts: Vec<Result<String, Error>> = match parts {
            Ok(parts) => parts.into_iter().map(Ok).collect(),
            Err(e) => vec![Err(e)],
        };
        let last = parts.len().saturating_sub(1);
        let replies = parts.into_iter().enumerate().map(move |(i, part)| {
            part.map(|chunk| {
                Reply::new(Some(Whole(ExportReply { chunk }))).set_continues(Some(more && i < last))
            })
        });
        Box::pin(futures_util::stream::iter(replies.collect::<Vec<_>>()))
    }

    async fn import_begin(&self) -> Result<ImportBeginReply, Error> {
        self.not_rehearsed()?;
        self.root_only("import a ledger", "tixctl import FILE")?;
        *self.import.borrow_mut() = Some(Import::default());
        Ok(ImportBeginReply { id: 1 })
    }

    async fn import_chunk(&self, id: u64, chunk: String) -> Result<(), Error> {
        self.not_rehearsed()?;
        match self.import.borrow_mut().as_mut().filter(|_| id == 1) {
            Some(import) => import.add(&chunk),
            None => Err(bad(format!("no import {id}"), "begin with ImportBegin")),
        }
    }

    async fn import_end(&self, id: u64, dry_run: bool) -> Result<ImportReply, Error> {
        self.not_rehearsed()?;
        let Some(import) = self.import.borrow_mut().take().filter(|_| id == 1) else {
            return Err(bad(format!("no import {id}"), "begin with ImportBegin"));
        };
        let document = beside(move || import.parse()).await??;
        // Makers of what has a plain name in it, as names were before there were spaces.
        let users = self.directory.names(document.makers()).await;
        let caller = self.caller.clone();
        let done = self
            .handle
            .act(move |core| transfer::import(core, document, &users, dry_run, &caller));
        done.await.map_err(errors::internal)?
    }

    #[zlink(more)]
    async fn watch(
        &self,
        more: bool,
        processes: Option<bool>,
        interval_ms: Option<i64>,
    ) -> impl Stream<Item = Result<Reply<WholeWatch>, Error>> + Unpin {
        let (tx, rx) = mpsc::channel(4);
        let whose = match self.reads_all {
            true => Whose::All,
            false => Whose::Of(self.caller.uid),
        };
        let watch = Watch {
            handle: self.handle.clone(),
            user: self.user,
            pace: Rc::clone(&self.pace),
            reading: Rc::clone(&self.reading),
            processes: processes.unwrap_or(false).then_some(whose),
            more,
        };
        tokio::task::spawn_local(feed(tx, watch, interval_ms.unwrap_or(1000)));
        Box::pin(futures_util::stream::unfold(rx, |mut rx| async move {
            rx.recv().await.map(|item| (item, rx))
        }))
    }
}
