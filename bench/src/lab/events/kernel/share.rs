// SPDX-License-Identifier: GPL-2.0-only
//! bpf/share.bpf.h: charging and filing.

use tix_core_host as host;
use tix_core_host::NONE;

use super::{ANY, BRIEF_GROUP, BRIEF_LEAD, Kernel, WEIGHT, since};

const INVERSE_MAX: u64 = 1 << 56;

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
        let online = u64::from(self.cpus);
        self.v_round = host::mul_q32(self.with.round * online, self.funds.rate());
        self.v_steal = host::mul_q32(self.with.steal * online, self.funds.rate());
        self.v_granted = host::mul_q32(self.with.slice * online, self.funds.rate());
    }

    pub(super) fn refresh(&mut self, q: u32, nr: u32, load: u32) {
        self.units();
        let (node, any) = (self.node_of(q), self.vt_of(q) == ANY);
        let round = self.v_round;
        let value = self.funds.self_raw(node);
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
        if host::mul_q32(slice, inverse).wrapping_mul(nr) > round {
            slice = (round << 18) / ((inverse >> 14) * nr);
            if slice < self.with.min_slice {
                slice = self.with.min_slice;
                inverse = ((round << 18) / (nr * slice)) << 14;
                self.counts.forced += 1;
            }
        }
        let queue = &mut self.queues[q as usize];
        queue.slice = slice;
        queue.inverse = inverse;
        queue.period = host::mul_q32(slice, inverse);
        queue.group = host::group_of(queue.period).max(BRIEF_GROUP + 1);
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

    pub(super) fn charge(&mut self, t: u32, now: u64) {
        let task = &mut self.tasks[t as usize];
        let used = std::mem::take(&mut task.uncharged);
        let (inverse, grant, grant_v) = (task.inverse, task.grant, task.grant_v);
        let rate = match std::mem::take(&mut task.rate) {
            0 => self.funds.rate(),
            rate => rate,
        };
        (task.inverse, task.grant, task.grant_v) = (0, 0, 0);
        task.vtime = task.vtime.wrapping_add(used);
        let (node, from) = (task.node, task.ran_from);
        let n = &mut self.nodes[node as usize];
        let q = match from {
            NONE => n.homes.unwrap_or(node * self.vts.len() as u32),
            from => from,
        };
        let queue = &mut self.queues[q as usize];
        let by = if inverse == 0 { queue.inverse } else { inverse };
        queue.tag = (queue.tag.wrapping_add(host::mul_q32(used, by))).wrapping_sub(grant);
        self.v = self.v.wrapping_sub(grant_v);
        if n.active {
            self.v = self.v.wrapping_add(host::mul_q32(used, rate));
        }
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
        let slack = 2 * self.v_steal;
        (
            (behind + slack).cast_signed(),
            (ahead + slack).cast_signed(),
        )
    }

    /// moves_v(): what V moves when a queue comes that is ahead of it by `lead`, and what of that it keeps.
    pub(super) fn moves_v(&self, q: u32, lead: i64, behind: i64, rate: u64) -> (i64, i64) {
        let inverse = (self.queues[q as usize].inverse >> 16).max(1);
        let by = host::mul_q32((lead.unsigned_abs() << 16) / inverse, rate);
        let most = behind.unsigned_abs() / 2;
        if by <= most {
            return (by.cast_signed() * lead.signum(), lead);
        }
        let kept = host::mul_q32((most << 16) / (rate >> 16).max(1), inverse << 16);
        let sign = lead.signum();
        (most.cast_signed() * sign, kept.cast_signed() * sign)
    }

    pub(super) fn file(&mut self, q: u32, coming: u32, wake: bool) {
        if self.queues[q as usize].linked {
            return;
        }
        let nr = self.queues[q as usize].nr() + coming;
        let node = self.node_of(q);
        let joins = !self.nodes[node as usize].active;
        let (others, rate) = (self.funds.state(0).nr_active > 0, self.funds.rate());
        self.activity(node);
        self.refresh(q, nr, nr * WEIGHT);
        let (behind, ahead) = self.bounds(q, nr);
        let lead = since(self.queues[q as usize].tag, self.v);
        let slice = self.v_granted.cast_signed();
        let late = lead < -slice && (joins || (wake && nr <= 1));
        let brief = late && wake && nr <= 1;
        let mut lead = match late {
            true => -slice,
            false if !joins && !wake && self.cpus == 1 => lead,
            false => lead.clamp(-behind, ahead),
        };
        if joins {
            if others {
                let (by, kept) = self.moves_v(q, lead, behind, rate);
                self.v = self.v.wrapping_add_signed(by);
                lead = kept;
            } else {
                self.v = self.v.wrapping_add_signed(lead);
                lead = 0;
            }
        }
        let v = self.v;
        let queue = &mut self.queues[q as usize];
        queue.tag = v.wrapping_add_signed(lead);
        queue.linked = true;
        queue.brief = brief;
        let (tag, group) = (queue.tag, queue.group);
        let vt = self.vt_of(q) as usize;
        match brief {
            true => {
                let first = v.wrapping_sub(BRIEF_LEAD);
                self.vts[vt].link(q, first, BRIEF_GROUP, false, self.now);
            }
            false => self.vts[vt].link(q, tag, group, wake, self.now),
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
        self.activity(node);
        if q != NONE && self.funds.state(0).nr_active > 0 {
            let (behind, ahead) = self.bounds(q, 1);
            let lead = since(self.queues[q as usize].tag, self.v);
            let lead = lead.clamp(-behind, ahead);
            let (by, _) = self.moves_v(q, lead, behind, self.funds.rate());
            self.v = self.v.wrapping_add_signed(-by);
        }
    }

    pub(super) fn move_to(&mut self, t: u32, q: u32, others: u32, wake: bool) {
        let task = &mut self.tasks[t as usize];
        let from = std::mem::replace(&mut task.ran_from, q);
        if from == q {
            return;
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
        self.queues[q as usize].tag = here.wrapping_add_signed(by);
    }
}
