// SPDX-License-Identifier: GPL-2.0-only
//! Limits as the API sets and shows them.

use super::amount::Amount;
use super::session::Session;
use super::{held, names};
use crate::reconcile::limit::quota;
use crate::writer::Core;
use tix_api::{Error, Limit, LimitKind, LimitReply, Problem, Resource, UnlimitReply};
use tix_bpf::Throttle;
use tix_ledger::{self as ledger, BASE, Cid, Ledger, Op};

impl Session {
    pub(super) async fn set_limit(
        &self,
        name: String,
        resource: Resource,
        milli: Amount,
    ) -> Result<LimitReply, Error> {
        let resource = tix_model::Resource::from(resource);
        let name = self.change_limit(name, move |name| Op::Limit {
            name,
            resource,
            milli: milli.0,
        });
        let name = name.await?;
        let limited = name.clone();
        let not_held = self.ask(move |core| why_not(core, &limited)).await?;
        Ok(LimitReply {
            name: Some(name),
            in_force: not_held.is_none(),
            not_held,
        })
    }

    pub(super) async fn lift_limit(
        &self,
        name: String,
        resource: Resource,
    ) -> Result<UnlimitReply, Error> {
        let resource = tix_model::Resource::from(resource);
        let name = self.change_limit(name, move |name| Op::Unlimit { name, resource });
        Ok(UnlimitReply { name: name.await? })
    }

    /// The name in full of what the caller called `name`, once `op` is done to it.
    async fn change_limit(
        &self,
        name: String,
        op: impl FnOnce(String) -> Op + Clone + Send + 'static,
    ) -> Result<String, Error> {
        let uid = self.caller.uid;
        self.change_with(move |l| {
            let name = names::named(l, &name, uid)?;
            Ok((vec![op(name.clone())], |_: &Ledger| name))
        })
        .await
    }
}

/// Why the limit of `name` does not hold now.
fn why_not(core: &mut Core, name: &str) -> Option<Problem> {
    if let Some(problem) = held::limits_not_held(core) {
        return Some(problem);
    }
    core.activity.find_bounds(&core.ledger);
    let cid = core.ledger.find(name)?;
    match core.activity.bounds.capping.contains(&cid) {
        true => None,
        false => held::without_cpu_below(core, cid),
    }
}

pub fn limit(currency: String, kind: LimitKind, t: &Throttle, in_force: bool) -> Limit {
    Limit {
        currency,
        kind,
        quota_usec: t.quota_ns / 1000,
        period_usec: t.period_ns / 1000,
        burst_usec: t.burst_ns / 1000,
        in_force,
        periods: t.periods,
        throttled_periods: t.throttled,
        throttled_usec: t.throttled_ns / 1000,
        why: None,
        // Rounded up: after that long they may go on.
        refill_usec: (in_force && t.refill_ns > 0).then(|| t.refill_ns.div_ceil(1000)),
    }
}

/// The `cpu.max` of its cgroup, if that is limited. The kernel's own scheduler tells of it itself,
/// in `cpu.stat`.
fn cpu_max(core: &Core, cid: Cid) -> Option<Limit> {
    let t = core.activity.throttles.cpu_max.get(&cid)?;
    Some(limit(core.ledger.name(cid), LimitKind::CpuMax, t, true))
}

/// What was set for the currency. `look`: at the files of what it is for, too, which takes long.
fn set(core: &Core, cid: Cid, look: bool) -> Option<Limit> {
    let ledger::Limit { milli, .. } = core.ledger.limit_of(cid)?;
    let throttle = core.activity.throttles.own.get(&cid);
    let (quota_us, period_us) = quota(milli);
    let idle = Throttle {
        quota_ns: quota_us * 1000,
        period_ns: period_us * 1000,
        ..Throttle::default()
    };
    let name = core.ledger.name(cid);
    let t = throttle.unwrap_or(&idle);
    let why = match (throttle, core.activity.bounds.capping.contains(&cid)) {
        (None, _) if core.cpu.in_charge() => Some("the scheduler was not told of it".to_owned()),
        (None, _) => {
            let why = core.cpu.reason().map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            Some(format!("tix's scheduler is not in force{why}"))
        }
        (Some(_), true) => None,
        // What it is for may be without the cpu controller.
        (Some(_), false) if look => held::without_cpu_below(core, cid).map(|p| p.message),
        (Some(_), false) => None,
    };
    Some(Limit {
        why: why.clone(),
        ..limit(name, LimitKind::Currency, t, why.is_none())
    })
}

/// Its own.
pub fn own(core: &Core, cid: Cid) -> Vec<Limit> {
    cpu_max(core, cid)
        .into_iter()
        .chain(set(core, cid, false))
        .collect()
}

/// The smallest of its own, thousandths of one CPU.
pub fn smallest(core: &Core, cid: Cid) -> Option<u64> {
    own(core, cid).iter().map(Limit::milli).min()
}

/// All that count for it: `cpu.max` of its cgroup and of those above, then those of currencies, the
/// nearest first.
pub fn over(core: &Core, cid: Cid) -> Vec<Limit> {
    let mut all = Vec::new();
    let mut at = core.ledger.get(cid).and_then(|c| c.mirror.as_ref());
    let mut cgroup = cid;
    while let Some(m) = at.filter(|_| cgroup != BASE) {
        all.extend(cpu_max(core, cgroup));
        cgroup = m.parent;
        at = core.ledger.get(cgroup).and_then(|c| c.mirror.as_ref());
    }
    let limits = core.ledger.limits_over(cid);
    all.extend(limits.into_iter().filter_map(|c| set(core, c, true)));
    all
}

/// How many there are in force, as the scheduler's tables have them.
pub fn in_force(core: &Core) -> u64 {
    let states = core.cpu.states();
    states.iter().filter(|n| n.throttle.quota_ns > 0).count() as u64
}

/// That limits are set and nothing holds them, in words.
pub fn not_held(core: &Core, in_force: bool) -> Option<String> {
    let limits = core.ledger.limits_there();
    (limits > 0 && !in_force).then(|| {
        let (set, hold) = match limits {
            1 => ("1 limit of a currency".to_owned(), "holds"),
            n => (format!("{n} limits of currencies"), "hold"),
        };
        format!("{set} (`tixctl limit`) {hold} only while tix's scheduler is in force")
    })
}
