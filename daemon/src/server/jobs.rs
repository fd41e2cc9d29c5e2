// SPDX-License-Identifier: GPL-2.0-only
//! What `tixctl run` and `tixctl nice` ask: a currency for one command, made, funded and bound at
//! once.

use super::amount::Amount;
use super::errors::bad;
use super::names;
use super::session::Session;
use tix_api::{Error, NiceReply, RunReply};
use tix_ledger::{Event, Ledger, Op, Part, Resource};

/// How much of its rights a currency gives up for a job.
pub fn part(tickets: Option<Amount>, milli: Option<Amount>) -> Result<Part, Error> {
    match (tickets, milli) {
        (Some(n), None) => Ok(Part::Tickets(n.0)),
        (None, Some(n)) => Ok(Part::Milli(n.0)),
        (None, None) => Ok(Part::Milli(100)),
        _ => {
            let what = "tickets and thousandths at once".to_owned();
            Err(bad(what, "give at most one of tickets and milli"))
        }
    }
}

/// A name for a job of `uid`'s: what else is called so in that user's space is stepped over, and
/// nobody else's is in the way.
fn free_name(ledger: &Ledger, kind: &str, uid: u32) -> String {
    let mut number = ledger.next_cid();
    loop {
        let name = format!("{kind}-{number}");
        let own = ledger.label(uid).map(|label| format!("{label}/{name}"));
        let plain = (uid == 0).then(|| name.clone());
        if own
            .or(plain)
            .is_none_or(|full| ledger.find(&full).is_none())
        {
            return name;
        }
        number += 1;
    }
}

impl Session {
    pub(super) async fn run_job(
        &self,
        name: Option<String>,
        issuer: Option<String>,
        amount: Option<Amount>,
        cgroup: &str,
    ) -> Result<RunReply, Error> {
        let issuer = self.own_or(issuer).await?;
        let path = names::cgroup(&self.handle, cgroup, self.caller.uid).await?;
        let amount = amount.map_or(100, |a| a.0);
        let (from, at) = (issuer.clone(), path.clone());
        let uid = self.caller.uid;
        let ops = move |l: &Ledger| {
            let op = Op::Run {
                cid: l.next_cid(),
                name: name.unwrap_or_else(|| free_name(l, "run", uid)),
                issuer: from,
                amount,
                path: at,
            };
            let reply = move |l: &Ledger, _: &[Event]| names::bound_to(l, &path);
            Ok((vec![op], reply))
        };
        let name = self.make(ops).await?;
        Ok(RunReply {
            name,
            issuer,
            amount: amount.unsigned_abs(),
            not_held: self.not_held(tix_api::Resource::Cpu).await,
        })
    }

    pub(super) async fn nice_job(
        &self,
        name: Option<String>,
        giver: Option<String>,
        amount: Part,
        cgroup: &str,
    ) -> Result<NiceReply, Error> {
        let giver = self.own_or(giver).await?;
        let path = names::cgroup(&self.handle, cgroup, self.caller.uid).await?;
        let (from, at) = (giver.clone(), path.clone());
        let uid = self.caller.uid;
        let ops = move |l: &Ledger| {
            let op = Op::Nice {
                cid: l.next_cid(),
                name: name.unwrap_or_else(|| free_name(l, "nice", uid)),
                giver: from,
                amount,
                path: at,
            };
            let reply = move |l: &Ledger, _: &[Event]| {
                let name = names::bound_to(l, &path);
                let job = l.find(&name).and_then(|c| l.get(c));
                let milli = job.map_or(0, |c| c.delta(Resource::Cpu));
                (name, milli.unsigned_abs())
            };
            Ok((vec![op], reply))
        };
        let (name, milli) = self.make(ops).await?;
        Ok(NiceReply {
            name,
            giver,
            milli,
            not_held: self.not_held(tix_api::Resource::Cpu).await,
        })
    }
}
