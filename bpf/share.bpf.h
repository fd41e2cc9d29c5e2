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
	u32 cpu;
	u32 prev_queue;	/* in: queue of the still runnable previous thread, or VTRR_NONE */
	u32 queue;	/* out: VTRR_NONE if nobody waits */
	u32 waiting;	/* out: threads that wait in it */
	u64 grant;	/* out: virtual time charged in advance */
	u32 slice;	/* out: ns */
	u32 refile;	/* a queue that was picked in vain */
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
	tix_node_t *n = &NODES[idx];
	struct fund_node TIX_MEM *f = &FUNDS[idx];
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
	tix_node_t *n = &NODES[t->node];
	u64 used = sum - t->sum;

	t->sum = sum;
	if (used > 0xffffffff)
		used = 0xffffffff;
	n->tag += tix_mul_q32(used, n->inverse) - t->grant;
	t->grant = 0;
	n->used_ns += used;
	now_v += used;
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
	tix_node_t *n;
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

static __noinline void refund_locked(u32 q, u64 grant)
{
	if (q >= TIX_QUEUES_MAX)
		return;
	NODES[QUEUES[q].node].tag -= grant;
	if (QUEUES[q].nr)
		file_locked(q, true);
}

/* Charge a slice in advance for a run from queue `q`. */
static __noinline void grant_locked(struct pick *pick, u32 q)
{
	tix_node_t *n = &NODES[QUEUES[q].node];

	refresh_locked(QUEUES[q].node);
	pick->queue = q;
	pick->slice = n->slice;
	pick->grant = n->period;
	n->tag += n->period;
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
	u32 tries = PICK_TRIES, vt = 1 + (pick->cpu & (TIX_CPUS_MAX - 1));
	u32 prev_queue = pick->prev_queue;
	struct vtrr_choice any, here;
	tix_node_t *n;
	u32 q, waiting;

	pick->queue = VTRR_NONE;
	while (tries-- && can_loop) {
		vtrr_peek(VT(0), now_v, &any);
		if (VT(vt)->nr) {
			vtrr_peek(VT(vt), now_v, &here);
			if (any.client == VTRR_NONE || here.eligible > any.eligible ||
			    (here.eligible == any.eligible &&
			     (any.eligible ? here.finish < any.finish : here.head < any.head)))
				any = here;
		}
		q = any.client;
		if (q >= TIX_QUEUES_MAX)
			return;
		vtrr_unlink(VT(1 + QUEUES[q].cpu), CLIENTS, q);
		waiting = QUEUES[q].nr;
		if (!waiting && q != prev_queue)
			continue;
		n = &NODES[QUEUES[q].node];
		if ((s64)(n->tag - CLIENTS[q].tag) > (s64)(n->period >> VTRR_SLOT_BITS)) {
			stats.stale++;
			file_locked(q, false);
			continue;
		}
		if (!any.eligible && (s64)(any.head - now_v) > 0)
			now_v = any.head;
		grant_locked(pick, q);
		pick->waiting = waiting;
		stats.picks++;
		if (waiting > (q != prev_queue))
			file_locked(q, false);
		return;
	}
}

/*
 * A principal's own threads became runnable, or none is any longer. On its return it
 * starts at V or where it was, whichever is later (Nieh eq. 8).
 */
static __noinline void activity(u32 idx)
{
	tix_node_t *n = &NODES[idx];

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
