// SPDX-License-Identifier: GPL-2.0-only
//! `Reserve`.

use super::names;
use super::session::Session;
use tix_api::{Error, ReserveReply, Resource};
use tix_ledger::{Hard, Kind, Ledger, Op};

impl Session {
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
