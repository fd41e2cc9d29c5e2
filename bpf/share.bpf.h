/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Charging, filing and picking: what happens under tix_lock.
 *
 * A run is charged twice: when a principal is picked its tag moves on by a whole slice
 * (the grant), so that the next CPU to pick sees it; when the run ends, the grant is
 * taken back and what was really used (sum_exec_runtime: exact also under preemption by
 * real-time tasks) is charged instead. A thread that ends its run where no operation of
 * ours is called is charged when it is seen next.
 */
#ifndef TIX_SHARE_BPF_H
#define TIX_SHARE_BPF_H

#define INVERSE_MAX (1ull << 56)	/* 2^-24 of what values are counted against: the smallest weight */

struct pick {
	/* out: by how much the queue's tag and V were moved in advance; in: those of `refile` */
	u64 grant, grant_v;
	u64 inverse;	/* out: what the run is charged by */
	u64 now;	/* in */
	u64 sum;	/* in: CPU time of the previous thread, if it is to be charged */
	u32 weight;	/* in: its nice weight */
	u32 cpu;
	u32 prev_queue;	/* in: its queue if it is still runnable, or VTRR_NONE */
	u32 first;	/* in: not a second try */
	u32 yielded;	/* in: the previous thread lets others go first */
	u32 left;	/* in: a principal of which no thread is runnable any longer, or VTRR_NONE */
	u32 refile;	/* in: a queue that was picked in vain, or VTRR_NONE */
	u32 queue;	/* out: VTRR_NONE if nobody waits */
	u32 waiting;	/* out: threads that wait in it */
	u32 slice;	/* likewise, ns of CPU */
	u32 vt;		/* the struct vtrr chosen from, or VTRR_NONE */
	u32 late;	/* who is overdue in it, or VTRR_NONE */
};

/* inverse * total / load, for total >= load > 0; at most INVERSE_MAX. */
static u64 part(u64 inverse, u32 total, u32 load)
{
	u64 ratio = ((u64)total << 16) / load;

	inverse >>= 16;
	return inverse > INVERSE_MAX / ratio ? INVERSE_MAX : inverse * ratio;
}

/* Bring `v_round` and `v_steal` up to date. */
static __always_inline void units_locked(void)
{
	if (GRAPH->rate == v_rate && nr_online == v_online)
		return;
	v_rate = GRAPH->rate;
	v_online = nr_online;
	v_round = tix_mul_q32(ROUND_NS * v_online, v_rate);
	v_steal = tix_mul_q32(STEAL_NS * v_online, v_rate);
}

/* 1 / value in Q32.32, of a value in Q62, with 31 bits that are right. */
static __always_inline u64 inverse_of(u64 value)
{
	u32 by;

	if (value <= FUND_ONE / (INVERSE_MAX >> 32))
		return INVERSE_MAX;
	by = tix_fls64(value) - 31;
	return ((1ull << 63) / (value >> by)) << (31 - by);
}

/*
 * Bring share, slice and group of queue `q` up to date, of whose threads `nr` of nice
 * weight `load` count, of `total` that its node has.
 *
 * Each thread of a queue is served in a round, whatever its principal's share and the
 * queue's part of that by nice: the smaller the share, the shorter the slice. A slice
 * shorter than MIN_SLICE_NS would only buy switches, so from there on the share it is
 * charged by is raised instead (a forced run).
 *
 * A tag may be behind V by what a busy CPU owes and others may take over (STEAL_NS), and
 * ahead by as much and by what runs at the same time, by a round at most in both directions.
 */
static __noinline void compute_locked(u32 q, u32 nr, u32 load, u32 total)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];
	struct fund_node *f = &FUNDS[queue->node];
	u64 value, inverse, slice, round, period, most;
	u32 up;

	units_locked();
	round = v_round;
	fund_refresh(GRAPH, FUNDS, queue->node);
	queue->seen_epoch = GRAPH->epoch;
	/* More that are active make a round of virtual time shorter, and slices that fill it too long. */
	queue->seen_rate = GRAPH->rate - GRAPH->rate / 8;
	queue->seen_rates = 2 * GRAPH->rate;
	queue->seen_load = load;
	queue->seen_total = total;
	if (f->ver != n->self_ver || f->issued != n->self_issued || GRAPH->rate != n->self_rate) {
		value = fund_self_value(GRAPH, FUNDS, queue->node);
		if (f->ver != n->self_ver || f->issued != n->self_issued)
			n->inverse = inverse_of(value);
		n->self_ver = f->ver;
		n->self_issued = f->issued;
		n->self_rate = GRAPH->rate;
		n->budget = ((fund_share(GRAPH, value) >> 30) * (ROUND_NS >> 8) >> 24) * nr_online;
	}

	total = total ?: 1;
	if (nr > n->nr_runnable)
		nr = n->nr_runnable ?: 1;
	if (load > total || !load)
		load = total;
	slice = slice_ns;
	inverse = n->inverse;
	if (load != total)
		inverse = part(inverse, total, load);
	period = tix_mul_q32(slice, inverse);
	/* Good for half as many threads and twice as many, or so, as long as they do not fill a round. */
	up = nr > 1 ? 2u << tix_fls64(nr - 1) : 2;
	queue->seen_nr = up / 4 + 1;
	queue->seen_nrs = up - up / 4 - 1;
	if (period * up > round) {
		queue->seen_nr = up = nr;
		queue->seen_nrs = 0;
	}
	if (period * nr > round) {
		slice = (round << 18) / ((inverse >> 14) * nr);
		if (slice < MIN_SLICE_NS) {
			slice = MIN_SLICE_NS;
			inverse = ((round << 18) / (nr * MIN_SLICE_NS)) << 14;
			stats.forced++;
		}
		period = tix_mul_q32(slice, inverse);
	}
	queue->slice = slice;
	queue->inverse = inverse;
	queue->period = period;
	queue->group = vtrr_group_of(period);
	most = (LAG_PERIODS + up) * period;
	queue->behind = (most < round ? most : round) + 2 * v_steal;
	most = (LEAD_PERIODS + up) * period;
	queue->ahead = (most < round + period ? most : round + period) + 2 * v_steal;
}

/* The threads directly in `idx` became runnable, or none is any longer. */
static __noinline void turned_locked(u32 idx)
{
	struct tix_node *n = &NODES[idx];
	bool active = n->nr_runnable;

	if (n->self_active == active)
		return;
	n->self_active = active;
	fund_self(GRAPH, FUNDS, idx, active);
}

/* The same unless what it is computed from is the same, or nearly; the node has a runnable thread. */
static __always_inline void refresh_locked(u32 q, u32 nr, u32 load)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];
	u32 total = n->load;

	if (!n->self_active)
		turned_locked(queue->node);
	if (queue->vt == VT_ANY) {
		nr = n->nr_runnable;
		load = total = 1;	/* all of it */
	}
	if (queue->seen_epoch != GRAPH->epoch ||
	    GRAPH->rate - queue->seen_rate > queue->seen_rates ||
	    queue->seen_total != total || queue->seen_load != load || nr - queue->seen_nr > queue->seen_nrs)
		compute_locked(q, nr, load, total);
}

/*
 * Virtual time inside a principal passes as its threads are served, and in a crowd slowly:
 * a place that was far ahead of it when few were there would not be reached for minutes
 * once thousands came. So it passes every place given out in the turn before last at the
 * latest: whoever waits is overtaken for two turns at most, and then by those that may
 * catch up, each once.
 */
static __noinline void turn_locked(struct tix_node *n, u64 now)
{
	n->turn_at = now;
	if ((s64)(n->last_high - n->vtime) > 0)
		n->vtime = n->last_high;
	n->last_high = __sync_lock_test_and_set(&n->high, n->vtime);
}

/* What a thread has used since it was charged last, and its grant back. */
static __always_inline void charge_locked(struct task_ctx *t, u64 sum, u32 weight, u64 now)
{
	struct tix_node *n = &NODES[t->node];
	u64 used = sum - t->sum;
	u32 q = t->ran_from;

	t->sum = sum;
	if (used > 0xffffffff)
		used = 0xffffffff;
	if (q >= TIX_QUEUES_MAX || QUEUES[q].node != t->node)
		q = n->homes < TIX_QUEUES_MAX ? n->homes : t->node;	/* moved while it ran */
	QUEUES[q].tag += tix_mul_q32(used, t->inverse ?: QUEUES[q].inverse) - t->grant;
	now_v += tix_mul_q32(used, GRAPH->rate) - t->grant_v;
	t->grant = t->grant_v = t->inverse = 0;
	n->used_ns += used;
	t->vtime += used * 100 / (weight ?: 1);
	n->vtime += used * 100 / (n->load ?: 100);
	if ((s64)(now - n->turn_at) >= (s64)TURN_NS)
		turn_locked(n, now);
}

/*
 * Where a thread of queue `q` stands in its principal's virtual time. Whatever it had
 * before, it waits a round at most, and nobody waits longer for it: `most`, what the
 * principal is given in one, or has to be, divided by the weights of its threads.
 *
 * What a sleeper may catch up is one slice. When it wakes up it goes before all that wait:
 * after a turn (turn_locked) they may be further behind, and one that has been given the
 * lock that a crowd waits for would come last.
 */
static __always_inline u64 place(u32 q, struct task_ctx *t, bool wake)
{
	struct tix_node *n = &NODES[t->node];
	u64 slice = QUEUES[q].slice ?: slice_ns, most = n->nr_runnable * MIN_SLICE_NS;
	struct task_struct *first;
	u64 low;

	if (most < n->budget)
		most = n->budget;
	most = most * 100 / (n->load ?: 100);
	if (slice > most)
		slice = most;
	low = n->vtime - slice;
	if ((s64)(t->vtime - low) < 0) {
		t->vtime = low;
		first = wake && QUEUES[q].nr ? __COMPAT_scx_bpf_dsq_peek(DSQ(q)) : NULL;
		if (first && (s64)(first->scx.dsq_vtime - low) < 0)
			return first->scx.dsq_vtime - 1;
	} else if ((s64)(t->vtime - (n->vtime + most)) > 0) {
		t->vtime = n->vtime + most;
	}
	return t->vtime;
}

static void charge(struct task_struct *p, struct task_ctx *t)
{
	u64 sum = p->se.sum_exec_runtime;
	u64 now = cpu_ctx(bpf_get_smp_processor_id())->now;
	u32 weight = p->scx.weight;

	bpf_spin_lock(&tix_lock);
	charge_locked(t, sum, weight, now);
	bpf_spin_unlock(&tix_lock);
}

/*
 * File queue `q` where its tag says, unless it is filed. `coming`: nice weight of a thread
 * that is about to join it and is not counted yet, or 0; `wake`: somebody woke up.
 *
 * A tag that is too far behind V or ahead of it (compute_locked) is forgotten as far as it
 * is. One who comes back starts at V or where it was, whichever is later (Nieh eq. 8).
 */
static __noinline void file_locked(u32 q, u32 coming, bool wake)
{
	struct tix_queue *queue;
	u64 tag;
	u32 nr;

	if (q >= TIX_QUEUES_MAX || CLIENTS[q].linked)
		return;
	queue = &QUEUES[q];
	nr = queue->nr + !!coming;
	refresh_locked(q, nr, queue->load + coming);
	tag = queue->tag - now_v;
	if ((s64)tag > (s64)queue->ahead)
		tag = queue->ahead;
	else if ((s64)tag < 0 && wake && nr <= 1)
		tag = 0;
	else if ((s64)(tag + queue->behind) < 0)
		tag = -queue->behind;
	tag += now_v;
	queue->tag = tag;
	vtrr_link(VT(queue->vt), CLIENTS, q, tag, queue->group, wake, now_ns);
}

/*
 * A thread that last ran from another queue of its principal takes its place in virtual
 * time along: its part of the share goes with it, and so does what that part is behind or
 * ahead. Where `others` are it counts for one of them. A sleeper brings only what it owes.
 */
static __noinline void move_locked(struct task_ctx *t, u32 q, u32 others, bool wake)
{
	u32 from = t->ran_from;
	u64 tag = now_v;
	bool moved;

	if (from == q || q >= TIX_QUEUES_MAX)
		return;
	t->ran_from = q;
	moved = from >= TIX_QUEUES_MAX || QUEUES[from].node != t->node;
	if (!moved && (!wake || (s64)(QUEUES[from].tag - tag) > 0))
		tag = QUEUES[from].tag;
	else if (others)
		return;
	else if (moved && (s64)(QUEUES[q].tag - tag) > 0)
		return;		/* what its new principal owes */
	if (!others) {
		QUEUES[q].tag = tag;
	} else if ((s64)(tag - QUEUES[q].tag) >= 0) {
		QUEUES[q].tag += (tag - QUEUES[q].tag) / (others + 1);
	} else {
		QUEUES[q].tag -= (QUEUES[q].tag - tag) / (others + 1);
	}
}

static __always_inline void advance_locked(u64 now)
{
	if ((s64)(now - now_ns) > 0)	/* CPUs' clocks differ a little */
		now_ns = now;
}

static void file(u32 q, bool wake, struct task_ctx *t)
{
	u64 now = scx_bpf_now();

	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	move_locked(t, q, QUEUES[q].nr - 1, wake);
	if (QUEUES[q].nr)
		file_locked(q, 0, wake);
	bpf_spin_unlock(&tix_lock);
}

/* The last thread of `q` went without having run. */
static void unfile(u32 q)
{
	bpf_spin_lock(&tix_lock);
	if (!QUEUES[q].nr && CLIENTS[q].linked)
		vtrr_unlink(VT(QUEUES[q].vt), CLIENTS, q);
	bpf_spin_unlock(&tix_lock);
}

static __noinline void refund_locked(u32 q, u64 grant, u64 grant_v)
{
	if (q >= TIX_QUEUES_MAX)
		return;
	QUEUES[q].tag -= grant;
	now_v -= grant_v;
	if (QUEUES[q].nr)
		file_locked(q, 0, false);
}

/* Charge a slice in advance for a run from queue `q`, of whose threads `nr` of `load` count. */
static __always_inline void grant_locked(struct pick *pick, u32 q, u32 nr, u32 load)
{
	struct tix_queue *queue = &QUEUES[q];

	refresh_locked(q, nr, load);
	if (pick->late == q)
		queue->tag = now_v - nr * queue->period;
	pick->queue = q;
	pick->slice = queue->slice;
	pick->grant = queue->period;
	pick->inverse = queue->inverse;
	pick->grant_v = tix_mul_q32(queue->slice, GRAPH->rate);
	queue->tag += queue->period;
	now_v += pick->grant_v;
}

/* Nobody waits: the previous thread goes on. */
static __noinline void keep_locked(struct pick *pick)
{
	pick->waiting = 0;
	pick->late = VTRR_NONE;
	grant_locked(pick, pick->prev_queue, 1, pick->weight);
}

/* Whether somebody is overdue in struct vtrr `at`. */
static __always_inline bool late_locked(struct pick *pick, u32 at)
{
	pick->late = vtrr_overdue(VT(at), CLIENTS, now_ns, OVERDUE_NS);
	if (pick->late != VTRR_NONE)
		pick->vt = at;
	return pick->late != VTRR_NONE;
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
	if (++jump_looks < looks)
		return;
	if ((s64)(jump_head - now_v) > 0)
		now_v = jump_head;
	jump_looks = 0;
	jump_head = ~0ull;
}

/*
 * Whether what waits on CPU `cpu`, due earlier than others' by `lag`, is to be taken over.
 * There all is about as late; and with one thread less it catches up, if slowly. So the
 * next one goes only if it falls behind further, or has not caught up after a while.
 */
static __noinline bool behind_locked(u32 cpu, u64 lag)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if ((s64)lag <= (s64)v_steal)
		return false;
	if ((s64)(now_ns - c->robbed_at) < (s64)CATCH_UP_NS && lag < c->robbed_lag + v_steal / 8)
		return false;
	c->robbed_at = now_ns;
	c->robbed_lag = lag;
	return true;
}

/*
 * Choose the struct vtrr to take from: this CPU's, those of threads without a home, or,
 * in turn, one other CPU's if the next thread there is due earlier by STEAL_NS of the
 * whole machine. A CPU that has nothing looks at all others before it goes idle.
 *
 * Who has waited for OVERDUE_NS goes first, whatever the tags say, but for every other pick:
 * should thousands be overdue at once, who has a large share has it still.
 *
 * V jumps to the earliest tag when nobody is eligible. What one CPU sees is not everybody:
 * V waits until nobody was eligible in so many looks that all CPUs had their turn.
 */
static __always_inline void choose_locked(struct pick *pick)
{
	u32 cpu = pick->cpu & (TIX_CPUS_MAX - 1), other;
	struct vtrr_choice *mine, *theirs;

	pick->vt = pick->late = VTRR_NONE;
	if (!cpu_ctxs[cpu].rescued &&
	    (late_locked(pick, VT_ANY) ||
	     (nr_cpu_ids > 1 &&
	      (late_locked(pick, VT_HOME(cpu)) || late_locked(pick, VT_BOUND(cpu))))))
		return;
	consider_locked(pick, VT_ANY);
	if (nr_cpu_ids == 1) {
		mine = &VT(VT_ANY)->choice;
		if (pick->vt != VTRR_NONE && !mine->eligible)
			now_v = mine->head;
		return;
	}
	consider_locked(pick, VT_HOME(cpu));
	consider_locked(pick, VT_BOUND(cpu));
	if (pick->vt != VTRR_NONE) {
		jump_locked(&VT(pick->vt)->choice, 2 * nr_online);
		other = cpu_ctxs[cpu].probe + 1;
		if (other >= nr_cpu_ids)
			other = 0;
		cpu_ctxs[cpu].probe = other;
		other &= TIX_CPUS_MAX - 1;
		if (other == cpu || !VT(VT_HOME(other))->nr)
			return;
		if (!cpu_ctxs[cpu].rescued && late_locked(pick, VT_HOME(other)))
			return;
		vtrr_peek(VT(VT_HOME(other)), now_v);
		mine = &VT(pick->vt)->choice;
		theirs = &VT(VT_HOME(other))->choice;
		jump_locked(theirs, 2 * nr_online);
		units_locked();
		if (behind_locked(other, mine->finish - theirs->finish)) {
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
}

/* Find whom to run next, file its queue again if more threads wait there. */
static __noinline void pick_locked(struct pick *pick)
{
	u32 q, waiting = 0, prev = 0;

	pick->queue = q = VTRR_NONE;
	while (can_loop) {	/* each round but the last drops somebody */
		choose_locked(pick);
		if (pick->vt == VTRR_NONE)
			return;
		q = pick->late != VTRR_NONE ? pick->late : vtrr_first(VT(pick->vt));
		if (q >= TIX_QUEUES_MAX)
			return;
		vtrr_unlink(VT(pick->vt), CLIENTS, q);
		prev = q == pick->prev_queue;
		waiting = QUEUES[q].nr;
		if (waiting || prev)
			break;	/* else filed for a thread that another CPU has taken */
		q = VTRR_NONE;
	}
	if (q >= TIX_QUEUES_MAX)
		return;
	grant_locked(pick, q, waiting + prev, QUEUES[q].load + (prev ? pick->weight : 0));
	pick->waiting = waiting;
	cpu_ctx(pick->cpu)->rescued = pick->late != VTRR_NONE;
	stats.overdue += pick->late != VTRR_NONE;
	stats.picks++;
	if (waiting > !prev)
		file_locked(q, prev ? pick->weight : 0, false);
}

/*
 * One decision: charge the previous thread, file its principal, choose. A global function,
 * so that the verifier looks at it once.
 */
__noinline int tix_decide(struct pick *pick, struct task_ctx *t)
{
	u64 grant, grant_v;

	USES_ARENA();
	if (!pick)
		return 0;
	grant = pick->grant;
	grant_v = pick->grant_v;
	bpf_spin_lock(&tix_lock);
	advance_locked(pick->now);
	if (t && pick->first)
		charge_locked(t, pick->sum, pick->weight, pick->now);
	if (pick->left < TIX_NODES_MAX)
		turned_locked(pick->left);
	pick->left = VTRR_NONE;
	if (t && pick->prev_queue < TIX_QUEUES_MAX && t->ran_from != pick->prev_queue)
		move_locked(t, pick->prev_queue, QUEUES[pick->prev_queue].nr, false);
	if (pick->prev_queue != VTRR_NONE && !pick->yielded)
		file_locked(pick->prev_queue, pick->weight, false);
	pick_locked(pick);
	if (pick->refile != VTRR_NONE)
		refund_locked(pick->refile, grant, grant_v);
	if (pick->prev_queue != VTRR_NONE) {
		if (pick->queue == VTRR_NONE)
			keep_locked(pick);
		else if (pick->yielded)
			file_locked(pick->prev_queue, pick->weight, false);
	}
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* A queue was picked in vain and nothing else is to be run: undo that. */
__noinline int tix_undo(u32 q, u64 grant, u64 grant_v)
{
	USES_ARENA();
	bpf_spin_lock(&tix_lock);
	refund_locked(q, grant, grant_v);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* The last runnable thread of principal `idx` is gone. */
static __noinline void leave(u32 idx)
{
	bpf_spin_lock(&tix_lock);
	turned_locked(idx);
	bpf_spin_unlock(&tix_lock);
}

#endif
