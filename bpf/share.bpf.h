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

struct pick {
	u64 grant;	/* out: virtual time charged in advance; in: that of `refile` */
	u64 sum;	/* in: CPU time of the previous thread, if it is to be charged */
	u32 weight;	/* in: its nice weight */
	u32 cpu;
	u32 prev_queue;	/* in: its queue if it is still runnable, or VTRR_NONE */
	u32 first;	/* in: not a second try */
	u32 refile;	/* in: a queue that was picked in vain, or VTRR_NONE */
	u32 queue;	/* out: VTRR_NONE if nobody waits */
	u32 waiting;	/* out: threads that wait in it */
	u32 slice;	/* likewise, ns of CPU */
};

/*
 * Bring share, slice and group of `n` up to date; `n` is active.
 *
 * In a round of ROUND_NS a principal is due `budget` ns of CPU, and each of its threads a
 * part of that: the slice. A slice shorter than MIN_SLICE_NS would only buy switches, so
 * from there on the share it is charged by is raised instead (a forced run).
 */
static __noinline void refresh_locked(u32 idx)
{
	struct tix_node *n = &NODES[idx];
	struct fund_node *f = &FUNDS[idx];
	u64 share, inverse, slice;
	u32 nr;

	fund_refresh(GRAPH, FUNDS, idx);
	if (f->ver != n->self_ver) {
		n->self_ver = f->ver;
		share = fund_self_value(f);
		inverse = (1ull << 62) / ((share >> 18) ?: 1);
		if (inverse > 1ull << 42)
			inverse = 1ull << 42;	/* 2^-24 of the machine: the smallest weight */
		n->share_inverse = inverse << 14;
		n->budget = ((share >> 30) * (ROUND_NS >> 8) >> 24) * nr_online;
	}

	nr = n->nr_runnable ?: 1;
	slice = slice_ns;
	inverse = n->share_inverse;
	if (n->budget < slice * nr) {
		slice = n->budget / nr;
		if (slice < MIN_SLICE_NS) {
			u64 most = (((ROUND_NS * nr_online) << 18) / (nr * MIN_SLICE_NS)) << 14;

			slice = MIN_SLICE_NS;
			if (inverse > most) {
				inverse = most;
				stats.forced++;
			}
		}
	}
	if (slice == n->slice && inverse == n->inverse)
		return;
	n->slice = slice;
	n->inverse = inverse;
	n->period = tix_mul_q32(slice, inverse);
	n->group = vtrr_group_of(n->period);
}

/* What a thread has used since it was charged last, and its grant back. */
static __noinline void charge_locked(struct task_ctx *t, u64 sum, u32 weight)
{
	struct tix_node *n = &NODES[t->node];
	u64 used = sum - t->sum;

	t->sum = sum;
	if (used > 0xffffffff)
		used = 0xffffffff;
	n->tag += tix_mul_q32(used, n->inverse) - t->grant;
	now_v += used - t->grant_ns;
	t->grant = t->grant_ns = 0;
	n->used_ns += used;
	t->vtime += used * 100 / (weight ?: 1);
	n->vtime += used / (n->nr_runnable ?: 1);
}

static void charge(struct task_struct *p, struct task_ctx *t)
{
	u64 sum = p->se.sum_exec_runtime;
	u32 weight = p->scx.weight;

	bpf_spin_lock(&tix_lock);
	charge_locked(t, sum, weight);
	bpf_spin_unlock(&tix_lock);
}

/* File queue `q` where its principal's tag says, unless it is filed. */
static __noinline void file_locked(u32 q, bool front)
{
	struct tix_node *n;
	u64 least;

	if (q >= TIX_QUEUES_MAX || CLIENTS[q].linked)
		return;
	n = &NODES[QUEUES[q].node];
	refresh_locked(QUEUES[q].node);
	least = now_v - LAG_PERIODS * n->period;
	if ((s64)(n->tag - least) < 0)
		n->tag = least;
	vtrr_link(VT(1 + QUEUES[q].cpu), CLIENTS, q, n->tag, n->group, front);
}

static void file(u32 q, bool front)
{
	bpf_spin_lock(&tix_lock);
	if (QUEUES[q].nr)
		file_locked(q, front);
	bpf_spin_unlock(&tix_lock);
}

/* The last thread of `q` went without having run. */
static void unfile(u32 q)
{
	bpf_spin_lock(&tix_lock);
	if (!QUEUES[q].nr && CLIENTS[q].linked)
		vtrr_unlink(VT(1 + QUEUES[q].cpu), CLIENTS, q);
	bpf_spin_unlock(&tix_lock);
}

static __noinline void refund_locked(u32 q, u64 grant, u32 slice)
{
	if (q >= TIX_QUEUES_MAX)
		return;
	NODES[QUEUES[q].node].tag -= grant;
	now_v -= slice;
	if (QUEUES[q].nr)
		file_locked(q, true);
}

/* Charge a slice in advance for a run from queue `q`. */
static __noinline void grant_locked(struct pick *pick, u32 q)
{
	struct tix_node *n = &NODES[QUEUES[q].node];

	refresh_locked(QUEUES[q].node);
	pick->queue = q;
	pick->slice = n->slice;
	pick->grant = n->period;
	n->tag += n->period;
	now_v += n->slice;
}

/* Nobody waits: the previous thread goes on. */
static __noinline void keep_locked(struct pick *pick)
{
	pick->waiting = 0;
	grant_locked(pick, pick->prev_queue);
}

/*
 * Choose between those that may run anywhere and those bound to this CPU. A choice whose
 * tag moved on since it was filed (it ran elsewhere, or from its other queue) is filed
 * again; each run causes at most one such refiling per structure, and a pick does at most
 * PICK_TRIES.
 */
static __noinline void pick_locked(struct pick *pick)
{
	u32 vt = 1 + (pick->cpu & (TIX_CPUS_MAX - 1));
	u32 prev_queue = pick->prev_queue;
	struct vtrr *v;
	struct tix_node *n;
	u32 q, waiting;

	pick->queue = VTRR_NONE;
	pick_tries = PICK_TRIES;
	while (pick_tries-- && can_loop) {
		v = VT(0);
		vtrr_peek(v, now_v);
		if (VT(vt)->nr) {
			vtrr_peek(VT(vt), now_v);
			if (!v->nr || vtrr_before(&VT(vt)->choice, &v->choice))
				v = VT(vt);
		}
		q = vtrr_first(v);
		if (q >= TIX_QUEUES_MAX)
			return;
		vtrr_unlink(v, CLIENTS, q);
		waiting = QUEUES[q].nr;
		if (!waiting && q != prev_queue)
			continue;
		n = &NODES[QUEUES[q].node];
		if ((s64)(n->tag - CLIENTS[q].tag) > (s64)(n->period >> 1)) {
			stats.stale++;
			file_locked(q, false);
			continue;
		}
		if (!v->choice.eligible)
			now_v = v->choice.head;
		grant_locked(pick, q);
		pick->waiting = waiting;
		stats.picks++;
		if (waiting > (q != prev_queue))
			file_locked(q, false);
		return;
	}
}

/*
 * One decision: charge the previous thread, file its principal, choose. A global function,
 * so that the verifier looks at it once.
 */
__noinline int tix_decide(struct pick *pick, struct task_ctx *t)
{
	u64 grant;
	u32 slice;
	bool yielded;

	USES_ARENA();
	if (!pick)
		return 0;
	yielded = t && t->yielded;
	grant = pick->grant;
	slice = pick->slice;
	bpf_spin_lock(&tix_lock);
	if (t && pick->first)
		charge_locked(t, pick->sum, pick->weight);
	if (pick->prev_queue != VTRR_NONE && !yielded)
		file_locked(pick->prev_queue, false);
	pick_locked(pick);
	if (pick->refile != VTRR_NONE)
		refund_locked(pick->refile, grant, slice);
	if (pick->prev_queue != VTRR_NONE) {
		if (pick->queue == VTRR_NONE)
			keep_locked(pick);
		else if (yielded)
			file_locked(pick->prev_queue, false);
	}
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* A queue was picked in vain and nothing else is to be run: undo that. */
__noinline int tix_undo(u32 q, u64 grant, u32 slice)
{
	USES_ARENA();
	bpf_spin_lock(&tix_lock);
	refund_locked(q, grant, slice);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/*
 * A principal's own threads became runnable, or none is any longer. On its return it
 * starts at V or where it was, whichever is later (Nieh eq. 8).
 */
static __noinline void activity(u32 idx)
{
	struct tix_node *n = &NODES[idx];

	bpf_spin_lock(&tix_lock);
	if (!n->self_active && n->nr_runnable) {
		n->self_active = 1;
		fund_self(GRAPH, FUNDS, idx, true);
		if ((s64)(n->tag - now_v) < 0)
			n->tag = now_v;
	} else if (n->self_active && !n->nr_runnable) {
		n->self_active = 0;
		fund_self(GRAPH, FUNDS, idx, false);
	}
	bpf_spin_unlock(&tix_lock);
}

#endif
