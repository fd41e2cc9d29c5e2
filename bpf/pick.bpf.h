/* SPDX-License-Identifier: GPL-2.0-only */
/* One decision, under tix_lock: charge who ran, file its queue, choose who is next. */
#ifndef TIX_PICK_BPF_H
#define TIX_PICK_BPF_H

/* Queue `q` was picked in vain. */
static __noinline void refund_locked(u32 q, u64 grant, u64 rate)
{
	if (q >= TIX_QUEUES_MAX)
		return;
	now_v -= tix_mul_q32(grant, rate);
	had_locked(q, -grant);
}

/* Charge a slice in advance for a run from queue `q`, which is up to date for `nr` threads. */
static __always_inline void grant_locked(struct pick *pick, u32 q, u32 nr)
{
	struct tix_queue *queue = &QUEUES[q];
	struct cpu_ctx *c = cpu_ctx(pick->cpu);

	/* Who is overdue goes as if it were due just now; but who is behind by more stays so, and has that yet. */
	if (pick->late == q && (s64)(queue->tag - (now_v - nr * queue->period)) > 0)
		queue->tag = now_v - nr * queue->period;
	pick->queue = c->runs = q;
	pick->slice = queue->slice < pick->allowed ? queue->slice : pick->allowed;
	pick->brief = queue->brief && pick->slice > MIN_SLICE_NS;
	if (pick->brief)
		pick->slice = MIN_SLICE_NS;
	else if (nr_cpu_ids > 1 && pick->late != q)
		c->lead += ((s64)(queue->tag - now_v) - c->lead) >> LEAD_LOG;
	queue->brief = 0;
	pick->grant = pick->slice;
	/*
	 * What a forced run takes beyond its share passes no V: all others would fall behind V by that, and whoever
	 * wakes up would wait until they had caught up, for each slice.
	 */
	pick->rate = queue->forced ? (GRAPH->rate >> 16) * queue->forced : GRAPH->rate;
	queue->tag += tix_mul_q32(pick->slice, queue->inverse);
	NODES[queue->node].had_ns += pick->slice;
	now_v += tix_mul_q32(pick->slice, pick->rate);
}

/* Whether somebody is overdue in struct vtrr `at`. */
static __always_inline bool late_locked(struct pick *pick, u32 at)
{
	u32 q = vtrr_overdue(VT(at), CLIENTS, now_ns, OVERDUE_NS);

	if (q == VTRR_NONE)
		return false;
	pick->late = q;
	pick->vt = at;
	return true;
}

/* Look into struct vtrr `at` and keep the better choice. */
static __always_inline void consider_locked(struct pick *pick, u32 at)
{
	if (!VT(at)->nr)
		return;
	vtrr_peek(VT(at), now_v);
	if (pick->vt == VTRR_NONE || vtrr_before(&VT(at)->choice, &VT(pick->vt)->choice))
		pick->vt = at;
}

static __noinline void jump_locked(const struct vtrr_choice *choice, u32 looks)
{
	if (choice->eligible) {
		jump_looks = 0;
		jump_head = ~0ull;
		return;
	}
	if (choice->head < jump_head)
		jump_head = choice->head;
	if (!jump_looks)
		jump_at = now_ns;
	if (++jump_looks < looks || now_ns - jump_at < STEAL_NS)
		return;
	if ((s64)(jump_head - now_v) > 0)
		now_v = jump_head;
	jump_looks = 0;
	jump_head = ~0ull;
}

/*
 * Whether queue `q` has no more threads than its principal has on this CPU already. Apart they can
 * use more of the machine than together, and where each principal has as many on each CPU, no CPU
 * has more to do than another.
 */
static __noinline bool crowds_locked(struct pick *pick, u32 q)
{
	u32 here, nr;

	if (q >= TIX_QUEUES_MAX)
		return true;
	for (here = NODES[QUEUES[q].node].homes; here < TIX_QUEUES_MAX && can_loop; here = QUEUES[here].next)
		if (QUEUES[here].vt == VT_HOME(pick->cpu))
			break;
	if (here >= TIX_QUEUES_MAX)
		return false;
	nr = QUEUES[here].nr + (here == pick->prev_queue);
	return nr && nr >= QUEUES[q].nr;
}

/*
 * Whether the next thread of CPU `other`, `lag` behind this one in virtual time, is to be taken
 * over. There all is about as late; and with one thread less it catches up, if slowly. So the next
 * one goes only if it falls behind further, or has not caught up after a while; that is short where
 * far more wait than here, as after a thousand were started by one. A thread goes to where as many
 * of its principal are only if nothing else helps.
 */
static __noinline bool behind_locked(struct pick *pick, u32 other, s64 lag)
{
	struct cpu_ctx *c = cpu_ctx(other);
	u64 catch_up = CATCH_UP_NS;

	if (lag <= (s64)v_steal)
		return false;
	if (VT(VT_HOME(other))->nr > 2 * VT(VT_HOME(pick->cpu))->nr + MANY_MORE)
		catch_up = CATCH_UP_MANY_NS;
	if ((s64)(now_ns - c->robbed_at) < (s64)catch_up && lag < c->robbed_lag + (s64)(v_steal / 2))
		return false;
	if (lag <= (s64)(CROWD_STEALS * v_steal) && crowds_locked(pick, vtrr_first(VT(VT_HOME(other)))))
		return false;
	c->robbed_at = now_ns;
	c->robbed_lag = lag;
	return true;
}

/*
 * Whether who waits on CPU `other` has it for itself, but for a moment: alone there, it waits for a thread of the kernel's own that goes first, as
 * the last decision was for it and nobody else of its principal is runnable; or for one that may run nowhere else. And not for long yet.
 * Elsewhere it would be in somebody's way.
 */
static __always_inline bool back_soon_locked(u32 other)
{
	u32 q = cpu_ctxs[other].runs, first = VT(VT_HOME(other))->oldest;
	u64 waits;

	if (VT(VT_HOME(other))->nr != 1 || q >= TIX_QUEUES_MAX || first >= TIX_QUEUES_MAX)
		return false;
	waits = now_ns - CLIENTS[first].since;
	if (q == first)
		return NODES[QUEUES[q].node].nr_runnable == 1 && waits < slice_ns;
	return QUEUES[q].vt == VT_BOUND(other) && waits < MIN_SLICE_NS;
}

/*
 * How far CPU `other` is behind CPU `cpu`, of which `mine` is the choice: as far as their means tell; where all have been ahead of V for half of
 * STEAL_NS, as far as all that waits here is at least. The mean alone follows only after 2^LEAD_LOG picks, and who is due little and has a CPU for
 * itself may be ahead by then by more than is remembered (bound_locked). But for one period: to who is due a hundredth a single slice is more
 * than STEAL_NS of the machine. And not at once: where many sleep and wake up all are ahead now and then, and threads would move more often.
 */
static __always_inline s64 lag_locked(u32 cpu, const struct vtrr_choice *mine, u32 other)
{
	s64 lead = cpu_ctxs[cpu].lead, ahead = mine->head - (mine->finish - mine->head) - now_v;

	if (ahead > lead && now_ns - cpu_ctxs[cpu].eligible_at >= STEAL_NS / 2)
		lead = ahead;
	return lead - cpu_ctxs[other].lead;
}

/*
 * Choose the struct vtrr to take from: this CPU's, those of threads without a home, or,
 * in turn, one other CPU's if what it picked lately was later by STEAL_NS of the whole machine (lag_locked):
 * a single thread there may be due early only because it is due often.
 * A CPU that has nothing looks at all others before it goes idle, and then at what of those that may use some CPUs only is for it
 * (waits_elsewhere).
 *
 * Who has waited for OVERDUE_NS goes first, whatever the tags say, but for every other pick:
 * should thousands be overdue at once, who has a large share has it still.
 *
 * V jumps to the earliest tag when nobody is eligible. What one CPU sees is not everybody:
 * V waits until nobody was eligible in so many looks, and for so long, that all CPUs had
 * their turn. Who has a CPU for itself looks each few ms only, while others do each ms.
 */
static __always_inline void choose_locked(struct pick *pick)
{
	u32 cpu = pick->cpu & (TIX_CPUS_MAX - 1), other;
	struct vtrr_choice *mine, *theirs;
	s64 lag;

	pick->vt = pick->late = VTRR_NONE;
	if (nr_cpu_ids == 1) {
		mine = &VT(VT_ANY)->choice;
		if (!VT(VT_ANY)->nr || (!cpu_ctxs[cpu].rescued && late_locked(pick, VT_ANY)))
			return;
		vtrr_peek(VT(VT_ANY), now_v);
		pick->vt = VT_ANY;
		if (!mine->eligible)
			now_v = mine->head;
		return;
	}
	if (!cpu_ctxs[cpu].rescued &&
	    (late_locked(pick, VT_ANY) || late_locked(pick, VT_HOME(cpu)) || late_locked(pick, VT_BOUND(cpu))))
		return;
	if (nr_cpu_ids > 2 && !cpu_ctxs[cpu].rescued && late_locked(pick, VT_SOME(cpu)))
		return;
	consider_locked(pick, VT_ANY);
	consider_locked(pick, VT_HOME(cpu));
	if (nr_cpu_ids > 2)
		consider_locked(pick, VT_SOME(cpu));
	consider_locked(pick, VT_BOUND(cpu));
	/* Nor is what was before it was idle anything to go by. */
	if (pick->vt == VTRR_NONE || VT(pick->vt)->choice.eligible || cpu_ctxs[cpu].idle)
		cpu_ctxs[cpu].eligible_at = now_ns;
	if (pick->vt != VTRR_NONE) {
		jump_locked(&VT(pick->vt)->choice, 2 * nr_online);
		other = cpu_ctxs[cpu].probe + 1;
		if (other >= nr_cpu_ids)
			other = 0;
		cpu_ctxs[cpu].probe = other;
		other &= TIX_CPUS_MAX - 1;
		if (other == cpu)
			return;
		if (!VT(VT_HOME(other))->nr) {
			keep_apart_locked(cpu, other);
			return;
		}
		if (!cpu_ctxs[cpu].rescued && late_locked(pick, VT_HOME(other)))
			return;
		units_locked();
		mine = &VT(pick->vt)->choice;
		lag = lag_locked(cpu, mine, other);
		if (mine->eligible && lag <= (s64)v_steal)
			return;
		vtrr_peek(VT(VT_HOME(other)), now_v);
		theirs = &VT(VT_HOME(other))->choice;
		if (!mine->eligible)
			jump_locked(theirs, 2 * nr_online);
		if (theirs->group != BRIEF_GROUP && !back_soon_locked(other) && behind_locked(pick, other, lag)) {
			pick->vt = VT_HOME(other);
			stats.stolen++;
		}
		return;
	}
	steal_left = nr_cpu_ids;
	while (pick->vt == VTRR_NONE && steal_left && can_loop) {
		other = --steal_left;
		consider_locked(pick, VT_HOME(other & (TIX_CPUS_MAX - 1)));
	}
	if (nr_cpu_ids > 2 && pick->vt == VTRR_NONE && pick->elsewhere < VT_NR)
		consider_locked(pick, pick->elsewhere);
}

/* Whether queue `q`, which was picked or goes on, has to wait for a limit's next period. */
static __noinline bool held_locked(struct pick *pick, u32 q)
{
	if (!hold_locked(q)) {
		pick->allowed = limit_left > TIMER_MIN_NS ? limit_left : TIMER_MIN_NS;
		return false;
	}
	if (pick->left >= TIX_NODES_MAX)
		pick->left = QUEUES[q].node;	/* it counts no longer: settle_locked() */
	if (q == pick->prev_queue) {
		pick->prev_queue = VTRR_NONE;
		pick->held = 1;
	}
	return true;
}

/* Find whom to run next. */
static __noinline void pick_locked(struct pick *pick)
{
	u32 q, waiting = 0, prev = 0;

	pick->queue = VTRR_NONE;
	while (can_loop) {	/* each round but the last drops somebody */
		choose_locked(pick);
		if (pick->vt == VTRR_NONE)
			return;
		q = pick->late != VTRR_NONE ? pick->late : vtrr_first(VT(pick->vt));
		if (q >= TIX_QUEUES_MAX)
			return;
		vtrr_unlink(VT(pick->vt), CLIENTS, q);
		prev = q == pick->prev_queue;
		waiting = nr_after(q);
		if (waiting || prev)
			break;	/* else filed for a thread that another CPU has taken */
		q = VTRR_NONE;
	}
	if (q < TIX_QUEUES_MAX && nr_limits) {
		if (!pardoned_locked(pick, q) && held_locked(pick, q)) {
			pick->again = 1;
			return;
		}
		round_locked(q);
	}
	if (q >= TIX_QUEUES_MAX)
		return;
	pick->queue = q;
	pick->waiting = waiting;
	cpu_ctx(pick->cpu)->rescued = pick->late != VTRR_NONE;
	stats.overdue += pick->late != VTRR_NONE;
	stats.picks++;
}

/* What happened since the last decision here. */
static __always_inline void settle_locked(struct pick *pick, struct task_ctx *t)
{
	advance_locked(pick->now);
	if (t && pick->first)
		charge_locked(t, pick->sum, pick->weight, pick->now);
	if (t && pick->first && pick->slept)
		emptied_locked(t);
	if (nr_limits && pick->prev_queue < TIX_QUEUES_MAX && !CLIENTS[pick->prev_queue].linked) {
		if (!QUEUES[pick->prev_queue].held)
			come_locked(pick->prev_queue);
		held_locked(pick, pick->prev_queue);
	}
	if (pick->left < TIX_NODES_MAX)
		gone_locked(pick->left, t && t->node == pick->left ? t->ran_from : VTRR_NONE);
	pick->left = VTRR_NONE;
	if (t && pick->prev_queue < TIX_QUEUES_MAX && t->ran_from != pick->prev_queue)
		move_locked(t, pick->prev_queue, QUEUES[pick->prev_queue].nr, false);
	if (pick->refile < TIX_QUEUES_MAX)
		refund_locked(pick->refile, pick->grant, pick->rate);
}

/* The previous thread goes on being runnable: its queue is brought up to date, and filed unless it yielded. */
static __always_inline void prev_locked(struct pick *pick)
{
	struct tix_queue *queue;
	u32 q = pick->prev_queue;

	if (q >= TIX_QUEUES_MAX || CLIENTS[q].linked)
		return;
	queue = &QUEUES[q];
	pick->joined = enter_locked(q, queue->nr + 1, queue->load + pick->weight, false);
	if (nr_cpu_ids > 1)
		cap_locked(q);
	if (!pick->yielded || (nr_cpu_ids == 1 && queue->nr))
		link_locked(q, queue->nr + 1, false, pick->joined);
}

/* What was picked runs, and is filed for who waits there besides; else the previous thread goes on. */
static __always_inline void serve_locked(struct pick *pick)
{
	u32 q = pick->queue, prev = pick->prev_queue, waiting = pick->waiting, nr;
	bool picked = q < TIX_QUEUES_MAX;

	if (!picked) {
		q = prev;
		pick->waiting = waiting = 0;
		pick->late = VTRR_NONE;
	}
	if (q < TIX_QUEUES_MAX) {
		nr = waiting + (q == prev);
		enter_locked(q, nr, QUEUES[q].load + (q == prev ? pick->weight : 0), false);
		grant_locked(pick, q, nr);
		if (waiting > (q != prev)) {
			link_locked(q, nr, false, false);
			stay_locked(q);
		}
	}
	if (picked && pick->yielded && prev < TIX_QUEUES_MAX)
		link_locked(prev, 1, false, pick->joined);
}

/* One decision: charge the previous thread, file its principal, choose. A global function, so that the verifier looks at it once. */
__noinline int tix_decide(struct pick *pick, struct task_ctx *t)
{
	USES_ARENA();
	if (!pick)
		return 0;
	bpf_spin_lock(&tix_lock);
	settle_locked(pick, t);
	beside_locked(pick->prev_queue);
	prev_locked(pick);
	pick_locked(pick);
	if (pick->again)
		pick->grant = 0;	/* nothing was granted this time */
	else
		serve_locked(pick);
	if (pick->refile < TIX_QUEUES_MAX && QUEUES[pick->refile].nr)
		link_locked(pick->refile, 1, false, false);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* A queue was picked in vain and nothing else is to be run: undo that. */
__noinline int tix_undo(u32 q, u64 grant, u64 rate)
{
	USES_ARENA();
	bpf_spin_lock(&tix_lock);
	refund_locked(q, grant, rate);
	if (q < TIX_QUEUES_MAX)
		file_locked(q, false);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* The last runnable thread of principal `idx`, last in queue `q`, is gone. */
__noinline int tix_leave(u32 idx, u32 q)
{
	struct run run = {};

	USES_ARENA();
	if (idx >= TIX_NODES_MAX)
		return 0;
	if (nr_cpu_ids == 1 && nr_limits)
		look_at_run(&run, scx_bpf_now());
	bpf_spin_lock(&tix_lock);
	begin_run_locked(&run);
	gone_locked(idx, q);
	end_run_locked(&run);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

#endif
