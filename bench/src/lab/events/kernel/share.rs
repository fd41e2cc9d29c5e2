// SPDX-License-Identifier: GPL-2.0-only
//! bpf/share.bpf.h and file.bpf.h: charging and filing.

use tix_core_host as host;
use tix_core_host::NONE;

use super::{ANY, BRIEF_GROUP, BRIEF_LEAD, Kernel, WEIGHT, since};

pub(super) const LEAD_MAX: i64 = 1 << 32;
const INVERSE_MAX: u64 = 1 << 56;

/// `ns` of CPU, weighed.
pub(super) fn weighed(ns: i64, inverse: u64) -> u64 {
    let size = host::mul_q32(ns.unsigned_abs(), inverse);
    if ns < 0 { size.wrapping_neg() } else { size }
}

/// The CPU time that is charged `v` for, ns.
fn unweighed(v: i64, inverse: u64) -> i64 {
    let (size, inverse) = (v.unsigned_abs(), (inverse >> 16).max(1));
    let ns = ((size / inverse) << 16) + ((size % inverse) << 16) / inverse;
    ns.cast_signed() * v.signum()
}

fn part(inverse: u64, total: u32, load: u32) -> u64 {
    let ratio = (u64::from(total) << 16) / u64::from(load);
    let inverse = inverse >> 16;
    match inverse > INVERSE_MAX / ratio {
        true => INVERSE_MAX,
        false => inverse * ratio,
    }
}

impl Kernel {
    pub(super) fn units(&mut self) {
        let (online, rate) = (u64::from(self.cpus), self.funds.rate());
        if self.now - self.window_at >= self.with.slack {
            self.window_at = self.now;
            self.rate_before = std::mem::replace(&mut self.rate_top, rate);
        }
        self.rate_top = self.rate_top.max(rate);
        let top = self.rate_top.max(self.rate_before);
        self.v_round = host::mul_q32(self.with.round * online, rate);
        self.v_slack = host::mul_q32(self.with.slack * online, top).min(self.v_round);
        self.v_steal = self.v_slack / (self.with.slack / self.with.steal);
        self.v_granted = host::mul_q32(self.with.slice * online, rate);
    }

    /// had_locked().
    pub(super) fn had(&mut self, q: u32, ns: i64) {
        let node = self.node_of(q);
        let queue = &mut self.queues[q as usize];
        queue.tag = queue.tag.wrapping_add(weighed(ns, queue.inverse));
        let n = &mut self.nodes[node as usize];
        n.had = n.had.wrapping_add_signed(ns);
        if !n.active {
            self.funds.set_now(self.v);
            let most = self.bounds(q, 1).0.unsigned_abs() / 2;
            let due = self.self_due(node);
            self.v = self.funds.late(node, ns, most);
            let more = self.self_due(node).wrapping_sub(due);
            let queue = &mut self.queues[q as usize];
            queue.seen_due = queue.seen_due.wrapping_add(more);
        }
    }

    /// lead_locked(): what `q` has had more than it was due, ns.
    pub(super) fn lead(&mut self, q: u32, away: bool) -> i64 {
        let node = self.node_of(q);
        let due = self.self_due(node);
        let mut more = since(due, self.queues[q as usize].seen_due);
        if away {
            more = host::stayed(more, host::SELF.into(), self.funds.state(node).issued);
        }
        let v = self.v;
        let queue = &mut self.queues[q as usize];
        let mut lead;
        (queue.seen_due, lead) = if queue.seen_v == 0 || queue.forced > 0 {
            (due, unweighed(since(queue.tag, v), queue.inverse))
        } else {
            let (load, total) = queue.seen_part;
            let rest = (more.unsigned_abs() & 0xffff).cast_signed() * more.signum();
            let mut size = more.unsigned_abs() >> 16;
            if load != total {
                size = size / total * load;
            }
            let had = unweighed(since(queue.tag, queue.seen_v), queue.inverse);
            let due = due.wrapping_add_signed(-rest);
            (due, had - size.cast_signed() * more.signum())
        };
        lead = lead.clamp(-LEAD_MAX, LEAD_MAX);
        queue.seen_v = v;
        lead
    }

    pub(super) fn owes(&mut self, q: u32) -> i64 {
        let node = self.node_of(q);
        self.funds.set_now(self.v);
        match self.funds.state(node).nr_active {
            0 => self.funds.owes(node).clamp(-LEAD_MAX, LEAD_MAX),
            _ => self.lead(q, true),
        }
    }

    pub(super) fn refresh(&mut self, q: u32, nr: u32, load: u32, joins: bool) {
        self.units();
        let (node, any) = (self.node_of(q), self.vt_of(q) == ANY);
        let round = self.v_round;
        self.funds.set_now(self.v);
        let value = self.funds.self_raw(node);
        let queue = &self.queues[q as usize];
        let (told, was_forced, was) = (queue.seen_v != 0, queue.forced, queue.seen_part);
        let mut lead = self.lead(q, false);
        if self.cpus > 1 && !joins && told {
            lead = self.evened(q, lead, load);
        }
        let share = self.funds.share(value);
        let n = &mut self.nodes[node as usize];
        let inverse = (1 << 62) / (value >> 18).max(1);
        n.inverse = match inverse > INVERSE_MAX >> 14 {
            true => INVERSE_MAX,
            false => inverse << 14,
        };
        n.budget = (((share >> 30) * (self.with.round >> 8)) >> 24) * u64::from(self.cpus);
        let total = if n.load == 0 { 1 } else { n.load };
        let nr = match any || nr > n.runnable {
            true => n.runnable.max(1),
            false => nr,
        };
        let load = match any || load > total || load == 0 {
            true => total,
            false => load,
        };
        let nr = u64::from(nr);
        let mut slice = self.with.slice;
        let mut inverse = match load == total {
            true => n.inverse,
            false => part(n.inverse, total, load),
        };
        let kept = match was {
            (load, total) if load > 0 && load < total => part(n.inverse, total as u32, load as u32),
            _ => n.inverse,
        };
        let mut forced = 0;
        if host::mul_q32(slice, inverse).wrapping_mul(nr) > round {
            slice = (round << 10) / ((inverse >> 22) * nr);
            if slice < self.with.min_slice {
                slice = self.with.min_slice;
                let share = inverse >> 16;
                inverse = ((round << 10) / (nr * slice)) << 22;
                forced = (inverse / share).max(1);
                self.counts.forced += 1;
            }
        }
        let (v, slack) = (self.v, self.v_slack);
        let queue = &mut self.queues[q as usize];
        queue.slice = slice;
        queue.inverse = inverse;
        queue.forced = forced;
        queue.seen_part = (u64::from(load), u64::from(total));
        if told && !(was_forced > 0 && forced > 0) {
            let was_lead = since(queue.tag, v);
            let owed = forced > 0 && lead < 0;
            let mut lead = weighed(lead, if owed { inverse } else { kept }).cast_signed();
            if was_forced > 0 && lead.unsigned_abs() > was_lead.unsigned_abs() {
                lead = was_lead;
            }
            queue.tag = v.wrapping_add_signed(lead);
        }
        queue.period = host::mul_q32(slice, inverse);
        queue.group = host::group_of(queue.period).max(BRIEF_GROUP + 1);
        let most = (self.with.lead_periods * queue.period).max(2 * slack);
        let (lead, most) = (since(queue.tag, v), most.cast_signed());
        if forced > 0 && told && lead < -most {
            queue.tag = v.wrapping_add_signed(-most);
            let ns = unweighed(-most - lead, inverse);
            self.forgive(q, ns);
        }
    }

    pub(super) fn turn(&mut self, node: u32, now: u64) {
        let n = &mut self.nodes[node as usize];
        if since(now, n.turn_at) < self.with.turn.cast_signed() {
            return;
        }
        n.turn_at = now;
        if since(n.last_high, n.vtime) > 0 {
            n.vtime = n.last_high;
        }
        n.last_high = n.high;
        n.high = n.vtime;
    }

    fn forced(&self, q: u32) -> bool {
        q != NONE && self.queues[q as usize].forced > 0
    }

    pub(super) fn charge(&mut self, t: u32, now: u64) {
        let forced = self.forced(self.tasks[t as usize].ran_from);
        let task = &mut self.tasks[t as usize];
        let used = std::mem::take(&mut task.uncharged);
        let grant = std::mem::take(&mut task.grant);
        let rate = match std::mem::take(&mut task.rate) {
            0 => self.funds.rate(),
            _ if self.cpus > 1 && !forced => self.funds.rate(),
            rate => rate,
        };
        task.vtime = task.vtime.wrapping_add(used);
        let (node, from) = (task.node, task.ran_from);
        let n = &self.nodes[node as usize];
        let q = match from {
            NONE => n.homes.unwrap_or(node * self.vts.len() as u32),
            from => from,
        };
        let more = since(used, grant);
        self.v = self.v.wrapping_add(weighed(more, rate));
        self.had(q, more);
        let n = &mut self.nodes[node as usize];
        let load = if n.load == 0 { 100 } else { n.load };
        n.vtime = n.vtime.wrapping_add(used * 100 / u64::from(load));
        self.turn(node, now);
    }

    pub(super) fn place(&mut self, q: u32, t: u32, wake: bool) -> u64 {
        let node = self.tasks[t as usize].node;
        let (n, queue) = (&self.nodes[node as usize], &self.queues[q as usize]);
        let load = if n.load == 0 { 100 } else { n.load };
        let most = n.budget.max(u64::from(n.runnable) * self.with.min_slice);
        let most = most * 100 / u64::from(load);
        let slice = match queue.slice {
            0 => self.with.slice,
            slice => slice,
        };
        let low = n.vtime.wrapping_sub(slice.min(most));
        let high = n.vtime.wrapping_add(most);
        let first = queue.first().filter(|_| wake).map(i64::cast_unsigned);
        let task = &mut self.tasks[t as usize];
        if since(task.vtime, low) < 0 {
            task.vtime = low;
            if let Some(first) = first.filter(|first| since(*first, low) < 0) {
                return first.wrapping_sub(1);
            }
        } else if since(task.vtime, high) > 0 {
            task.vtime = high;
        }
        task.vtime
    }

    /// How far a tag may be behind V and ahead of it, of compute_locked().
    pub(super) fn bounds(&self, q: u32, nr: u32) -> (i64, i64) {
        let period = self.queues[q as usize].period;
        let up = u64::from(nr);
        let behind = ((self.with.lag_periods + up) * period).min(self.v_round);
        let ahead = ((self.with.lead_periods + up) * period).min(self.v_round + period);
        if self.queues[q as usize].forced > 0 {
            let behind = behind + 2 * self.v_slack;
            return (
                behind.cast_signed(),
                (self.with.lead_periods * period).cast_signed(),
            );
        }
        let paced = self.nodes[self.node_of(q) as usize].slack;
        let slack = 2 * self.v_slack.max(paced.min(self.v_round));
        (
            (behind + slack).cast_signed(),
            (ahead + slack).cast_signed(),
        )
    }

    pub(super) fn bear(&mut self, q: u32, lead: i64, came: bool) {
        let node = self.node_of(q);
        let ns = unweighed(lead, self.queues[q as usize].inverse);
        self.funds.set_now(self.v);
        let most = self.bounds(q, 1).0.unsigned_abs() / 2;
        self.v = self.funds.bear(node, ns, came, most);
        let due = self.self_due(node);
        let queue = &mut self.queues[q as usize];
        queue.tag = self.v.wrapping_add_signed(lead);
        queue.seen_v = self.v;
        queue.seen_due = due;
    }

    /// enter_locked(): bring `q` up to date for `nr` threads; whether its principal became active.
    pub(super) fn enter(&mut self, q: u32, nr: u32, wake: bool) -> bool {
        let node = self.node_of(q);
        let joins = !self.nodes[node as usize].active;
        let owes = if joins { self.owes(q) } else { 0 };
        self.activity(node);
        self.refresh(q, nr, nr * WEIGHT, joins);
        if joins {
            let (_, ahead) = self.bounds(q, nr);
            let slice = self.v_granted.cast_signed();
            let queue = &mut self.queues[q as usize];
            let lead = weighed(owes, queue.inverse).cast_signed().min(ahead);
            queue.brief = lead < -slice && wake && nr <= 1;
            let lead = lead.max(-slice);
            self.bear(q, lead, true);
            let queue = &self.queues[q as usize];
            let after = match queue.brief {
                true => lead,
                false => (self.with.lag_periods * queue.period).cast_signed(),
            };
            let earlier = (self.latest(q, after) - lead.min(0)).min(0);
            let queue = &mut self.queues[q as usize];
            queue.tag = queue.tag.wrapping_add_signed(earlier);
            let inverse = self.queues[q as usize].inverse;
            self.open_account(q, unweighed(lead, inverse));
        }
        joins
    }

    /// latest_locked().
    fn latest(&self, q: u32, after: i64) -> i64 {
        let vt = self.vt_of(q) as usize;
        if vt == 0 {
            return 0;
        }
        (self.at[(vt - 1) / 2].lead + after).min(0)
    }

    pub(super) fn link(&mut self, q: u32, nr: u32, wake: bool, joined: bool) {
        if self.queues[q as usize].linked {
            return;
        }
        let (behind, ahead) = self.bounds(q, nr);
        let (v, slice) = (self.v, self.v_granted.cast_signed());
        let vt = self.vt_of(q) as usize;
        let alone = wake && nr <= 1;
        let after = self.with.lag_periods * self.queues[q as usize].period;
        let latest = self.latest(q, after.cast_signed());
        let runs = vt > 0 && self.at[(vt - 1) / 2].runs == q + 1;
        let queue = &mut self.queues[q as usize];
        if !joined {
            let was = since(queue.tag, v);
            let fresh = self.cpus > 1 && alone && !runs;
            queue.brief = alone && was < -slice;
            let lead = match self.cpus {
                // It has always been there.
                1 => was,
                _ if fresh => {
                    queue.brief = false;
                    latest
                }
                _ => was.clamp(-behind, ahead),
            };
            queue.tag = v.wrapping_add_signed(lead);
            if lead != was && !fresh {
                let ns = unweighed(lead - was, queue.inverse);
                self.forgive(q, ns);
            }
        }
        let queue = &mut self.queues[q as usize];
        (queue.linked, queue.since) = (true, self.now);
        let (tag, group) = (queue.tag, queue.group);
        match queue.brief {
            true => {
                let first = v.wrapping_sub(BRIEF_LEAD);
                self.vts[vt].link(q, first, BRIEF_GROUP, false, self.now);
            }
            false => self.vts[vt].link(q, tag, group, wake, self.now),
        }
    }

    /// cap_locked(): what threads are due beyond what they can use is for others.
    pub(super) fn cap(&mut self, q: u32) {
        let node = self.node_of(q);
        let passed = self.now - self.nodes[node as usize].seen_at;
        if passed < self.with.cap_every || self.queues[q as usize].forced > 0 {
            return;
        }
        self.funds.set_now(self.v);
        self.runs_over(q);
        let lead = self.lead(q, false);
        let queue = &mut self.queues[q as usize];
        queue.tag = self.v.wrapping_add(weighed(lead, queue.inverse));
    }

    pub(super) fn file(&mut self, q: u32, wake: bool) {
        let nr = self.queues[q as usize].nr();
        if nr > 0 && !self.queues[q as usize].linked {
            let joined = self.enter(q, nr, wake);
            self.link(q, nr, wake, joined);
        }
    }

    /// leave_locked(): the last thread of `t`'s node has gone to sleep.
    pub(super) fn leave(&mut self, t: u32) {
        let task = &self.tasks[t as usize];
        let (node, q) = (task.node, task.ran_from);
        let n = &self.nodes[node as usize];
        if n.runnable > 0 || !n.active {
            return;
        }
        let much = self.cpus > 1 && n.budget > self.with.round;
        self.activity(node);
        if q != NONE {
            let (behind, ahead) = self.bounds(q, 1);
            let lead = self.account(node);
            let lead = weighed(lead, self.queues[q as usize].inverse);
            let lead = lead.cast_signed().clamp(-behind, ahead);
            self.bear(q, lead, false);
            if much && lead < 0 {
                self.funds.forget(node);
                self.queues[q as usize].tag = self.v;
            }
        }
    }

    /// tell_locked().
    fn tell(&mut self, q: u32) {
        let node = self.node_of(q);
        if !self.nodes[node as usize].active || self.queues[q as usize].seen_v == 0 {
            return;
        }
        self.funds.set_now(self.v);
        let lead = self.lead(q, false);
        let queue = &mut self.queues[q as usize];
        queue.tag = self.v.wrapping_add(weighed(lead, queue.inverse));
    }

    pub(super) fn move_to(&mut self, t: u32, q: u32, others: u32, wake: bool) {
        let task = &mut self.tasks[t as usize];
        let from = std::mem::replace(&mut task.ran_from, q);
        if from == q {
            return;
        }
        if self.cpus > 1 && from != NONE && self.queues[from as usize].nr() == 0 {
            self.close(from);
        }
        if self.cpus > 1 && from != NONE {
            self.tell(from);
            if others > 0 {
                self.tell(q);
            }
        }
        let mut tag = self.v;
        let here = self.queues[q as usize].tag;
        let there = self.queues.get(from as usize).map(|queue| queue.tag);
        match there {
            Some(there) if !wake || since(there, tag) > 0 => tag = there,
            _ if others > 0 => return,
            None if since(here, tag) > 0 => return,
            _ => (),
        }
        // Rounded towards `here`, as unsigned divisions there are.
        let by = since(tag, here) / (i64::from(others) + 1);
        let queue = &mut self.queues[q as usize];
        queue.tag = here.wrapping_add_signed(by);
        if others == 0 {
            queue.seen_v = 0;
        }
    }

    /// turned_locked().
    pub(super) fn activity(&mut self, node: u32) {
        let n = &mut self.nodes[node as usize];
        let active = n.runnable > 0;
        if active != n.active {
            n.active = active;
            self.funds.set_now(self.v);
            self.funds.set_self(node, active);
        }
    }
}
