// SPDX-License-Identifier: GPL-2.0-only
//! One decision, from tix_decide() down: who is next on a CPU.

use super::{ANY, BRIEF_GROUP, Kernel, since};
use tix_core_host as host;
use tix_core_host::{Choice, NONE};

/// struct pick.
pub(super) struct Pick {
    pub(super) cpu: u32,
    pub(super) prev_queue: u32,
    pub(super) queue: u32,
    pub(super) waiting: u32,
    pub(super) slice: u64,
    pub(super) brief: bool,
    pub(super) grant: u64,
    pub(super) rate: u64,
    pub(super) vt: u32,
    pub(super) late: u32,
}

impl Pick {
    pub(super) fn on(cpu: u32) -> Pick {
        Pick {
            cpu,
            prev_queue: NONE,
            queue: NONE,
            waiting: 0,
            slice: 0,
            brief: false,
            grant: 0,
            rate: 0,
            vt: NONE,
            late: NONE,
        }
    }
}

impl Kernel {
    fn grant(&mut self, pick: &mut Pick, q: u32, nr: u32) {
        let least = self.with.min_slice;
        let queue = &mut self.queues[q as usize];
        let due = self.v.wrapping_sub(u64::from(nr) * queue.period);
        if pick.late == q && since(queue.tag, due) > 0 {
            queue.tag = due;
        }
        pick.queue = q;
        self.at[pick.cpu as usize].runs = q + 1;
        pick.slice = queue.slice;
        pick.brief = std::mem::take(&mut queue.brief) && pick.slice > least;
        if pick.brief {
            pick.slice = least;
        }
        self.at[pick.cpu as usize].brief = pick.brief;
        pick.grant = pick.slice;
        pick.rate = match queue.forced {
            0 => self.funds.rate(),
            part => (self.funds.rate() >> 16) * part,
        };
        if !pick.brief && pick.late != q {
            let c = &mut self.at[pick.cpu as usize];
            c.lead += (since(queue.tag, self.v) - c.lead) >> self.with.lead_log;
        }
        let more = host::mul_q32(pick.slice, queue.inverse);
        queue.tag = queue.tag.wrapping_add(more);
        let node = q as usize / self.vts.len();
        self.nodes[node].had = self.nodes[node].had.wrapping_add(pick.slice);
        self.v = self.v.wrapping_add(host::mul_q32(pick.slice, pick.rate));
    }

    fn late(&self, pick: &mut Pick, vt: u32) -> bool {
        pick.late = self.vts[vt as usize].overdue(self.now, self.with.overdue);
        if pick.late != NONE {
            pick.vt = vt;
        }
        pick.late != NONE
    }

    fn peek(&mut self, vt: u32) -> Choice {
        let queue = &mut self.vts[vt as usize];
        self.counts.looks += queue.groups();
        self.choices[vt as usize] = queue.peek(self.v);
        self.choices[vt as usize].0
    }

    fn consider(&mut self, pick: &mut Pick, vt: u32) {
        if self.vts[vt as usize].nr() == 0 {
            return;
        }
        let choice = self.peek(vt);
        if pick.vt == NONE || host::before(&choice, &self.choices[pick.vt as usize].0) {
            pick.vt = vt;
        }
    }

    fn jump(&mut self, choice: Choice, looks: u32) {
        if choice.eligible == 0 {
            self.jump_head = self.jump_head.min(choice.head);
            if self.jump_looks == 0 {
                self.jump_at = self.now;
            }
            self.jump_looks += 1;
            let soon = self.cpus > 1 && self.now - self.jump_at < self.with.steal;
            if self.jump_looks < looks || soon {
                return;
            }
            if since(self.jump_head, self.v) > 0 {
                self.v = self.jump_head;
            }
        }
        self.jump_looks = 0;
        self.jump_head = u64::MAX;
    }

    /// crowds_locked().
    fn crowds(&self, pick: &Pick, q: u32) -> bool {
        let here = q - self.vt_of(q) + 1 + 2 * pick.cpu;
        let nr = self.queues[here as usize].nr() + u32::from(pick.prev_queue == here);
        nr > 0 && nr >= self.queues[q as usize].nr()
    }

    fn behind(&mut self, pick: &Pick, other: u32, lag: i64) -> bool {
        let c = &self.at[other as usize];
        let steal = self.v_steal.cast_signed();
        if lag <= steal {
            return false;
        }
        let waiting = |cpu: u32| self.vts[1 + 2 * cpu as usize].nr();
        let many = waiting(other) > 2 * waiting(pick.cpu) + self.with.many_more;
        let catch_up = if many {
            self.with.catch_up_many
        } else {
            self.with.catch_up
        };
        let lately = since(self.now, c.robbed_at) < catch_up.cast_signed();
        if lately && lag < c.robbed_lag + steal / 2 {
            return false;
        }
        if lag <= 4 * steal && self.crowds(pick, self.choices[1 + 2 * other as usize].1) {
            return false;
        }
        let c = &mut self.at[other as usize];
        c.robbed_at = self.now;
        c.robbed_lag = lag;
        true
    }

    /// back_soon_locked().
    fn back_soon(&self, other: u32) -> bool {
        let (vt, q) = (1 + 2 * other, self.at[other as usize].runs.wrapping_sub(1));
        let first = self.choices[vt as usize].1;
        if self.vts[vt as usize].nr() != 1 || q == NONE {
            return false;
        }
        let waits = self.now - self.queues[first as usize].since;
        if q == first {
            let alone = self.nodes[self.node_of(q) as usize].runnable == 1;
            return alone && waits < self.with.slice;
        }
        self.vt_of(q) == vt + 1 && waits < self.with.min_slice
    }

    /// lag_locked().
    fn lag(&self, cpu: u32, mine: Choice, other: u32) -> i64 {
        let c = &self.at[cpu as usize];
        let ahead = since(mine.head, self.v) - since(mine.finish, mine.head);
        let lead = match self.now - c.eligible_at >= self.with.steal / 2 {
            true => c.lead.max(ahead),
            false => c.lead,
        };
        lead - self.at[other as usize].lead
    }

    fn choose(&mut self, pick: &mut Pick) {
        let cpu = pick.cpu;
        let (home, bound) = (1 + 2 * cpu, 2 + 2 * cpu);
        let rescued = self.at[cpu as usize].rescued;
        (pick.vt, pick.late) = (NONE, NONE);
        let own: &[u32] = match self.cpus {
            1 => &[ANY],
            _ => &[ANY, home, bound],
        };
        if !rescued && own.iter().any(|vt| self.late(pick, *vt)) {
            return;
        }
        for vt in own {
            self.consider(pick, *vt);
        }
        let idle = self.at[cpu as usize].idle;
        if pick.vt == NONE || idle || self.choices[pick.vt as usize].0.eligible != 0 {
            self.at[cpu as usize].eligible_at = self.now;
        }
        if pick.vt == NONE {
            let others = if self.cpus == 1 { 0 } else { self.cpus };
            for other in (0..others).rev() {
                if pick.vt == NONE {
                    self.consider(pick, 1 + 2 * other);
                }
            }
            return;
        }
        let mine = self.choices[pick.vt as usize].0;
        self.jump(mine, if self.cpus == 1 { 1 } else { 2 * self.cpus });
        if self.cpus > 1 {
            self.probe(pick, mine, rescued);
        }
    }

    /// The other CPU whose turn it is, of choose_locked().
    fn probe(&mut self, pick: &mut Pick, mine: Choice, rescued: bool) {
        let other = (self.at[pick.cpu as usize].probe + 1) % self.cpus;
        self.at[pick.cpu as usize].probe = other;
        let vt = 1 + 2 * other;
        if other == pick.cpu || self.vts[vt as usize].nr() == 0 {
            return;
        }
        if !rescued && self.late(pick, vt) {
            return;
        }
        let lag = self.lag(pick.cpu, mine, other);
        if mine.eligible != 0 && lag <= self.v_steal.cast_signed() {
            return;
        }
        let theirs = self.peek(vt);
        if mine.eligible == 0 {
            self.jump(theirs, 2 * self.cpus);
        }
        if theirs.group != BRIEF_GROUP && !self.back_soon(other) && self.behind(pick, other, lag) {
            pick.vt = vt;
            self.counts.stolen += 1;
        }
    }

    fn pick(&mut self, pick: &mut Pick) {
        pick.queue = NONE;
        self.choose(pick);
        if pick.vt == NONE {
            return;
        }
        let q = match pick.late {
            NONE => self.choices[pick.vt as usize].1,
            late => late,
        };
        self.vts[pick.vt as usize].unlink(q);
        self.queues[q as usize].linked = false;
        let prev = u32::from(q == pick.prev_queue);
        pick.queue = q;
        pick.waiting = self.queues[q as usize].nr();
        let nr = pick.waiting + prev;
        self.at[pick.cpu as usize].rescued = pick.late != NONE;
        self.counts.overdue += u64::from(pick.late != NONE);
        // serve_locked()
        self.enter(q, nr, false);
        self.grant(pick, q, nr);
        if nr > 1 {
            self.link(q, nr, false, false);
        }
    }

    /// tix_decide(): charge `prev`, file its queue if it is `runnable`, choose.
    pub(super) fn decide(&mut self, pick: &mut Pick, prev: Option<u32>, runnable: bool, now: u64) {
        self.now = now;
        self.counts.decisions += 1;
        self.counts.looks = 0;
        let (mut yielded, mut joined) = (false, false);
        if let Some(t) = prev {
            yielded = std::mem::take(&mut self.tasks[t as usize].yielded);
            self.charge(t, now);
            if !runnable {
                self.emptied(t);
                self.leave(t);
            }
        }
        let prev_queue = match prev {
            Some(t) if runnable => self.queue_of(t, pick.cpu),
            _ => NONE,
        };
        pick.prev_queue = prev_queue;
        // beside_locked()
        let ran = self.at[pick.cpu as usize].runs.wrapping_sub(1);
        if self.cpus == 1 && ran != NONE && ran != prev_queue {
            self.file(ran, false);
        }
        if let (Some(t), true) = (prev, runnable) {
            let others = self.queues[prev_queue as usize].nr();
            self.move_to(t, prev_queue, others, false);
            // prev_locked()
            if !self.queues[prev_queue as usize].linked {
                joined = self.enter(prev_queue, others + 1, false);
                if self.cpus > 1 {
                    self.cap(prev_queue);
                }
                if !yielded || (self.cpus == 1 && others > 0) {
                    self.link(prev_queue, others + 1, false, joined);
                }
            }
        }
        self.pick(pick);
        if runnable && pick.queue == NONE {
            pick.waiting = 0;
            pick.late = NONE;
            self.grant(pick, prev_queue, 1);
        } else if runnable && yielded {
            self.link(prev_queue, 1, false, joined);
        }
        if pick.queue == NONE {
            let c = &mut self.at[pick.cpu as usize];
            c.runs = 0;
            if !runnable {
                c.lead = 0;
            }
        }
        self.counts.most_looks = self.counts.most_looks.max(self.counts.looks);
    }
}
