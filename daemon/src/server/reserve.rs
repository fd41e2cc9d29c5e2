// SPDX-License-Identifier: GPL-2.0-only
//! `Reserve` and `SetFunding`: a ticket of a size, whatever it was before.

use super::names;
use super::session::Session;
use tix_api::{Error, FundReply, ReserveReply, Resource};
use tix_ledger::{BASE, Hard, Kind, Ledger, Op, Resource as Of};

impl Session {
    pub(super) async fn set_tickets(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: i64,
    ) -> Result<FundReply, Error> {
        let (uid, root) = (self.caller.uid, self.caller.is_root());
        self.change_with(move |l| {
            let holder = names::named(l, &holder, uid)?;
            let issuer = names::named(l, &issuer, uid)?;
            let (now, _) = names::held(l, &holder, &issuer, resource, Kind::Soft);
            // What has lapsed is withdrawn first.
            let lapsed = match root && l.find(&issuer) == Some(BASE) {
                true => l.lapsed(&holder, resource.into()),
                false => 0,
            };
            let ends = (holder.clone(), issuer.clone(), resource.into());
            let op = set(ends, now.cast_signed(), lapsed.cast_signed(), amount);
            let reply = move |l: &Ledger| FundReply {
                amount: names::held(l, &holder, &issuer, resource, Kind::Soft).0,
                holder: Some(holder),
                issuer: Some(issuer),
            };
            Ok((op.into_iter().collect(), reply))
        })
        .await
    }

    pub(super) async fn reserve_part(
        &self,
        holder: String,
        issuer: String,
        resource: Resource,
        amount: Hard,
    ) -> Result<ReserveReply, Error> {
        let uid = self.caller.uid;
        let ops = move |l: &Ledger| {
            let holder = names::named(l, &holder, uid)?;
            let issuer = names::named(l, &issuer, uid)?;
            let op = Op::Reserve {
                holder: holder.clone(),
                issuer: issuer.clone(),
                resource: tix_model::Resource::from(resource),
                amount,
            };
            let reply = move |l: &Ledger| {
                let (amount, bytes) = names::held(l, &holder, &issuer, resource, Kind::Hard);
                ReserveReply {
                    amount,
                    bytes,
                    holder: Some(holder),
                    issuer: Some(issuer),
                    not_held: None,
                }
            };
            Ok((vec![op], reply))
        };
        let reply = self.change_with(ops).await?;
        Ok(ReserveReply {
            not_held: self.not_held(resource).await,
            ..reply
        })
    }
}

/// What makes `amount` soft tickets of `now`, beside `lapsed` ones that go first, if it is not so.
fn set(
    (holder, issuer, resource): (String, String, Of),
    now: i64,
    lapsed: i64,
    amount: i64,
) -> Option<Op> {
    match amount {
        // Refused, as by `Fund`.
        ..=0 => Some(Op::Fund {
            holder,
            issuer,
            resource,
            amount,
        }),
        _ if amount == now => None,
        _ if amount > now => Some(Op::Fund {
            holder,
            issuer,
            resource,
            amount: amount - now,
        }),
        _ => Some(Op::Unfund {
            holder,
            issuer,
            resource,
            amount: Some(now - amount + lapsed),
        }),
    }
}
