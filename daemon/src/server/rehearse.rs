// SPDX-License-Identifier: GPL-2.0-only
//! `Rehearse`: the next change on a connection is tried on the ledger and taken back at once, so
//! that the caller sees what would come of it: what would be done, and whose share would be
//! another.
//!
//! The writer applies it and undoes it in one turn, as it undoes what is refused half way; nobody
//! sees what was between, and nothing of it is kept, told or logged. Two copies of the ledger are
//! compared beside the writer, so it costs what an export does, and waits as that does.

use super::errors::bad;
use crate::writer::Rehearsed as Tried;
use std::collections::BTreeSet;
use tix_api::{Effect, Error, RehearsedReply};
use tix_ledger::{BASE, Ledger, Resource, fraction};

/// Shares that are told of, at most.
const MOST: usize = 100;
/// Shares that differ by less are the same.
const NEAR: f64 = 1e-9;

/// What a connection has asked for.
#[derive(Debug, Default)]
pub enum Rehearsal {
    #[default]
    Off,
    /// The next change is only tried.
    Next,
    /// It was.
    Done(RehearsedReply),
}

impl Rehearsal {
    /// What the last one came to; once.
    pub fn reply(self) -> Result<RehearsedReply, Error> {
        match self {
            Rehearsal::Done(reply) => Ok(reply),
            Rehearsal::Off | Rehearsal::Next => Err(bad(
                "nothing was rehearsed on this connection".to_owned(),
                "call Rehearse, then what would change something",
            )),
        }
    }
}

/// What came of it, compared.
pub fn told(tried: &Tried) -> RehearsedReply {
    let mut effects = effects(&tried.before, &tried.after);
    effects.sort_by(|a, b| {
        let size = |e: &Effect| (e.after - e.before).abs();
        size(b)
            .total_cmp(&size(a))
            .then_with(|| a.currency.cmp(&b.currency))
    });
    let more = effects.len().saturating_sub(MOST) as u64;
    effects.truncate(MOST);
    let mut acts: Vec<String> = tried.acts.iter().take(MOST).cloned().collect();
    if tried.acts.len() > MOST {
        acts.push(format!("and {} more", tried.acts.len() - MOST));
    }
    RehearsedReply {
        acts,
        effects,
        more,
    }
}

/// Whose entitlement differs.
fn effects(before: &Ledger, after: &Ledger) -> Vec<Effect> {
    let ids = |ledger: &Ledger| ledger.iter().map(|(cid, _)| cid).collect::<BTreeSet<_>>();
    let mut effects = Vec::new();
    for cid in ids(before).union(&ids(after)).filter(|cid| **cid != BASE) {
        let of = |ledger: &Ledger, r| fraction(ledger.entitlement(*cid, r), ledger.total(r));
        for r in Resource::ALL.into_iter().filter(|r| r.is_enforced()) {
            let (was, is) = (of(before, r), of(after, r));
            if (was - is).abs() > NEAR {
                let known = if after.get(*cid).is_some() {
                    after
                } else {
                    before
                };
                effects.push(Effect {
                    currency: known.name(*cid),
                    resource: r.into(),
                    before: was,
                    after: is,
                });
            }
        }
    }
    effects
}
