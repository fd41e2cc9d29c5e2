// SPDX-License-Identifier: GPL-2.0-only
//! bpf/account.bpf.h: what a principal with threads on several CPUs has had more than its due, as a whole.

use tix_core_host::NONE;

use super::share::{LEAD_MAX, weighed};
use super::{Kernel, since};

pub(super) const EVEN_LOG: u32 = 5;
pub(super) const PACE_LOG: u32 = 4;

/// ns from `since` to `due`.
fn due_ns(due: u64, from: u64) -> i64 {
    let more = since(due, from);
    (more.unsigned_abs() >> 16).cast_signed() * more.signum()
}

impl Kernel {
    pub(super) fn account(&mut self, node: u32) -> i64 {
        let due = self.self_due(node);
        let n = &self.nodes[node as usize];
        let lead = n.lead + since(n.had, n.was_had) - due_ns(due, n.was_due);
        lead.clamp(-LEAD_MAX, LEAD_MAX)
    }

    pub(super) fn open_account(&mut self, q: u32, lead: i64) {
        let node = self.node_of(q);
        let queue = &mut self.queues[q as usize];
        let n = &mut self.nodes[node as usize];
        (n.lead, n.sum_lead, queue.was_lead) = (lead, lead, lead);
        (n.was_had, n.seen_had) = (n.had, n.had);
        (n.was_due, n.seen_due) = (queue.seen_due, queue.seen_due);
        (n.seen_at, n.excess) = (self.now, 0);
    }

    pub(super) fn close(&mut self, q: u32) {
        let node = self.node_of(q);
        let was = std::mem::take(&mut self.queues[q as usize].was_lead);
        self.nodes[node as usize].sum_lead -= was;
    }

    pub(super) fn emptied(&mut self, t: u32) {
        let q = self.tasks[t as usize].ran_from;
        if self.cpus > 1 && q != NONE && self.queues[q as usize].nr() == 0 {
            self.close(q);
        }
    }

    pub(super) fn forgive(&mut self, q: u32, ns: i64) {
        let node = self.node_of(q);
        let n = &mut self.nodes[node as usize];
        n.lead += ns;
        n.sum_lead += ns;
        self.queues[q as usize].was_lead += ns;
    }

    pub(super) fn self_due(&mut self, node: u32) -> u64 {
        let due = self.funds.self_due(node);
        due.wrapping_sub(self.nodes[node as usize].not_due)
    }

    /// run_over_locked(): what the principal of `q` was due and its threads could not use is for others.
    pub(super) fn runs_over(&mut self, q: u32) {
        let node = self.node_of(q);
        let vt = self.vt_of(q) as usize;
        let home = (vt - 1) / 2 * 2 + 1;
        let alone = self.nodes[node as usize].runnable <= 1
            && self.vts[home].nr() + self.vts[home + 1].nr() == 0;
        let (due, now) = (self.self_due(node), self.now);
        let account = self.account(node);
        let n = &mut self.nodes[node as usize];
        let passed = now - n.seen_at;
        let had = since(n.had, std::mem::replace(&mut n.seen_had, n.had));
        let more = due_ns(due, n.seen_due);
        if passed <= self.with.slack {
            // pace_locked()
            let rate = (more.max(0).cast_unsigned() << 16) / passed.max(1);
            let most = u64::from(self.cpus) << 16;
            n.rate = (n.rate - (n.rate >> PACE_LOG)).max(rate.min(most));
            let slack = (n.rate * (self.with.slack >> 16)).cast_signed();
            n.slack = weighed(slack.min(LEAD_MAX), n.inverse);
            let can = passed.cast_signed() * i64::from(n.runnable.min(self.cpus));
            n.excess += more - can.max(had);
        }
        n.excess = n.excess.max(0);
        (n.seen_at, n.seen_due) = (now, due);
        let slack = (self.with.cap_slices * self.with.slice).cast_signed();
        let lost = n.excess - slack;
        if lost <= 0 {
            return;
        }
        n.excess = slack;
        let mut lost = if alone { lost.max(more - had) } else { lost };
        if alone {
            lost -= (account + slack).clamp(0, lost / 4);
        }
        self.v = self.funds.bear(node, lost, true, self.v_round);
        self.funds.set_now(self.v);
        let more = self.self_due(node).wrapping_sub(due);
        let lost = lost.cast_unsigned() << 16;
        let n = &mut self.nodes[node as usize];
        n.not_due = n.not_due.wrapping_add(lost.wrapping_add(more));
        n.seen_due = due.wrapping_sub(lost);
    }

    pub(super) fn evened(&mut self, q: u32, lead: i64, load: u32) -> i64 {
        let node = self.node_of(q);
        let account = self.account(node);
        let was = self.queues[q as usize].was_lead;
        let n = &mut self.nodes[node as usize];
        n.sum_lead += lead - was;
        let lacks = account - n.sum_lead;
        let mut more = 0;
        if self.queues[q as usize].forced > 0 {
            n.lead -= lacks;
        } else {
            more = lacks >> EVEN_LOG;
            if load > 0 && load < n.load {
                more = more / i64::from(n.load) * i64::from(load);
            }
        }
        n.sum_lead += more;
        self.queues[q as usize].was_lead = lead + more;
        lead + more
    }
}
