// SPDX-License-Identifier: GPL-2.0-only
//! What the ledger did, as those who watch are told.

use super::{Core, now_usec};
use crate::ledger::{Cid, Event};
use tix_api as api;

impl Core {
    pub(super) fn name(&self, cid: Cid) -> Option<String> {
        self.ledger.get(cid).map(|c| c.name.clone())
    }

    pub(super) fn tell(&self, e: &Event, uid: Option<u32>) -> Option<api::Event> {
        use api::EventKind as K;
        let mut out = blank(K::Created, String::new());
        out.uid = uid;
        match e {
            Event::Created { name, .. } => {
                (out.currency, out.message) = (Some(name.clone()), format!("{name} created"))
            }
            Event::Destroyed { name, .. } => {
                (out.kind, out.currency, out.message) = (
                    K::Destroyed,
                    Some(name.clone()),
                    format!("{name} destroyed"),
                );
            }
            Event::Funded {
                holder,
                issuer,
                amount,
                ..
            } => {
                let (h, i) = (self.name(*holder), self.name(*issuer));
                out.message = format!(
                    "{} holds {amount} cpu tickets of {}",
                    h.clone().unwrap_or_default(),
                    i.clone().unwrap_or_default()
                );
                (out.kind, out.currency, out.issuer, out.amount) = (K::Funded, h, i, Some(*amount));
                out.resource = Some(api::Resource::Cpu);
            }
            Event::Bound { name, path, .. } | Event::Unbound { name, path, .. } => {
                let bound = matches!(e, Event::Bound { .. });
                out.kind = if bound { K::Bound } else { K::Unbound };
                out.currency = self.name(*name);
                out.cgroup = Some(path.clone());
                let verb = if bound {
                    "bound to"
                } else {
                    "no longer bound to"
                };
                out.message = format!("{} {verb} {path}", out.currency.clone().unwrap_or_default());
            }
            Event::CgroupCreated { path, .. }
            | Event::CgroupRemoved { path, .. }
            | Event::CgroupChanged { path, .. } => {
                (out.kind, out.message) = match e {
                    Event::CgroupCreated { .. } => {
                        (K::CgroupCreated, format!("cgroup {path} appeared"))
                    }
                    Event::CgroupRemoved { .. } => {
                        (K::CgroupRemoved, format!("cgroup {path} went"))
                    }
                    _ => (K::CgroupChanged, format!("cgroup {path} changed")),
                };
                (out.currency, out.cgroup) = (Some(path.clone()), Some(path.clone()));
            }
            Event::Dropped { what } => {
                tracing::warn!("not in force any more: {what}");
                return None;
            }
        }
        Some(out)
    }
}

pub(super) fn blank(kind: api::EventKind, message: String) -> api::Event {
    api::Event {
        time_usec: now_usec(),
        kind,
        currency: None,
        issuer: None,
        resource: None,
        amount: None,
        cgroup: None,
        uid: None,
        message,
    }
}
