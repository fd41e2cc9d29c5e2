/* SPDX-License-Identifier: GPL-2.0-only */
/* Principals come and go, and their queues are filed where their tags say; under tix_lock. */
#ifndef TIX_FILE_BPF_H
#define TIX_FILE_BPF_H

/*
 * How many threads wait in queue `q`, which has just been unlinked, not read before others can see that: who puts one there
 * counts it first, and then looks whether the queue is linked.
 */
static __always_inline u32 nr_after(u32 q)
{
	return __sync_fetch_and_add(&QUEUES[q].nr, (u32)tix_forget(0));	/* 0 as such would become an operation that an arena has not */
}

/*
 * The threads of queue `q` come, or went, with `lead` in virtual time. What those who are
 * active have had more or less than their due is nothing, all in all, and V is the mean of
 * their tags: who comes or leaves ahead of it or behind takes it along (Stoica and
 * Abdel-Wahab 1995), and so it is in each currency. Else V runs away from the hogs beside one
 * who sleeps often, who wakes up starts behind them all, and a currency whose principals
 * sleep gets less than its tickets say, or more.
 *
 * One with most of the tickets takes V far. It must not go so far that what the others are
 * ahead of it and behind is forgotten (`behind`, `ahead`), for that is what their shares hang
 * on.
 */
static __noinline void bear_locked(u32 q, s64 lead, bool came)
{
	struct tix_queue *queue = &QUEUES[q];

	GRAPH->now = now_v;
	GRAPH->most = behind_most(queue) / 2;
	fund_bear(GRAPH, FUNDS, queue->node, unweighed(queue, lead), came);
	now_v = GRAPH->now;
	queue->tag = now_v + lead;
	queue->seen_v = now_v;
	queue->seen_due = self_due(queue->node);
}

/* Whether share, slice and group of `queue`, of principal `n`, are those of `nr` threads of nice weight `load`, or nearly. */
static __always_inline bool fits_locked(const struct tix_queue *queue, const struct tix_node *n, u32 nr, u32 load)
{
	u32 total = n->load;

	if (queue->vt == VT_ANY) {
		nr = n->nr_runnable;
		load = total = 1;	/* all of it */
	}
	return queue->seen_epoch == GRAPH->epoch &&
	       GRAPH->rate - queue->seen_rate <= queue->seen_rates &&
	       queue->seen_total == total && queue->seen_load == load && nr - queue->seen_nr <= queue->seen_nrs;
}

/* At most nothing, without a branch, which the verifier would follow to the end twice. */
static __always_inline s64 not_above_0(s64 x)
{
	s64 y = tix_forget(x);

	return y & (y >> 63);
}

/* At least nothing, likewise. */
static __always_inline s64 not_below_0(s64 x)
{
	s64 y = tix_forget(x);

	return y & ~(y >> 63);
}

/*
 * How far ahead of V the tag of queue `queue` may be, at most nothing, if somebody wakes up there
 * who owes nothing. A CPU that is behind would get to V's present only after all that waits there
 * has caught up, tens of ms: not for who is due every ms. It begins `after` where its CPU is.
 */
static __always_inline s64 latest_locked(const struct tix_queue *queue, s64 after)
{
	if (nr_online > 1 && queue->vt != VT_ANY)
		return not_above_0(cpu_ctx(VT_CPU(queue->vt))->lead + after);
	return 0;
}

/*
 * Bring queue `q` up to date for `nr` threads of nice weight `load`, and if its principal was not
 * active until now let it in: a slice before V or where it was, whichever is later (Nieh eq. 8).
 * Returns whether it came in.
 */
static __noinline bool update_locked(u32 q, u32 nr, u32 load, bool wake)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];
	bool joins = !n->self_active;
	u32 many = nr, total = n->load;
	s64 lead = 0, after;

	if (joins) {
		to_used_locked();
		lead = owes_locked(q);
		turned_locked(queue->node);
	}
	if (!fits_locked(queue, n, nr, load)) {
		/* One call: the verifier walks all of funding for each. */
		if (queue->vt == VT_ANY) {
			many = n->nr_runnable;
			load = total = 1;
		}
		compute_locked(q, tix_forget(many), tix_forget(load), tix_forget(total), joins);
	}
	if (!joins)
		return false;
	lead = weighed(lead, queue->inverse);
	queue->brief = 0;
	if (lead > ahead_most(queue)) {
		lead = ahead_most(queue);
	} else if (lead < -(s64)v_granted) {
		queue->brief = wake && nr <= 1;
		lead = -v_granted;
	}
	bear_locked(q, lead, true);
	/* A queue that is owed service starts before its CPU, as far as it would before V on one CPU. */
	after = queue->brief ? lead : (s64)(LAG_PERIODS * queue->period);
	queue->tag += not_above_0(latest_locked(queue, after) - not_above_0(lead));
	open_account_locked(q, unweighed(queue, lead));
	to_granted_locked();
	return true;
}

/* The same, where mostly there is nothing to be done. */
static __always_inline bool enter_locked(u32 q, u32 nr, u32 load, bool wake)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];

	if (n->self_active && fits_locked(queue, n, nr, load))
		return false;
	return update_locked(q, nr, load, wake);
}

/*
 * A thread uses one CPU at most. What the principal of queue `q`, which has run, is due beyond what its threads can use is for others; not each time, for its
 * funders are to be looked at for that.
 */
static __noinline void cap_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];

	if (now_ns - NODES[queue->node].seen_at < CAP_EVERY_NS || queue->forced)
		return;
	GRAPH->now = now_v;
	fund_walk(GRAPH, FUNDS, queue->node, false);
	run_over_locked(q);
	queue->tag = weighed(lead_locked(q, false), queue->inverse);
	queue->tag += now_v;
}

/*
 * A tag that is too far behind V or ahead of it (compute_locked) is forgotten as far as it
 * is, but on one CPU only of a principal that was away: another thread of one that runs or waits
 * may wake up at any time, and neither clears what it owes nor loses what it is owed. `fresh`: who wakes up is alone there, and nobody of it runs.
 */
static __noinline void bound_locked(u32 q, bool fresh)
{
	struct tix_queue *queue = &QUEUES[q];
	s64 was = queue->tag - now_v, lead = was;

	if (fresh) {
		lead = latest_locked(queue, LAG_PERIODS * queue->period);	/* it brings nothing: its principal has it (emptied_locked) */
	} else {
		if (lead > ahead_most(queue))
			lead = ahead_most(queue);
		if (lead < -behind_most(queue))
			lead = -behind_most(queue);
		if (lead != was)
			forgive_locked(q, unweighed(queue, lead - was));
	}
	queue->tag = now_v + lead;
}

/*
 * File queue `q`, which entered just now if `joined`, where its tag says. `wake`: somebody woke up.
 *
 * Who is owed service when it wakes up has MIN_SLICE_NS of that at once, before who is not late:
 * audio, an editor, a server that answers. It is charged like all others, and who has just had
 * that is not owed any.
 */
static __noinline void link_locked(u32 q, u32 nr, bool wake, bool joined)
{
	struct tix_queue *queue = &QUEUES[q];
	bool alone = wake && nr <= 1, fresh;
	u32 group = queue->group;
	u64 tag;

	if (CLIENTS[q].linked)
		return;

	if (!joined) {
		fresh = alone && nr_cpu_ids > 1 && nr_online > 1 && !runs_locked(queue, q);
		if (nr_cpu_ids > 1 && nr_online > 1)
			bound_locked(q, fresh);
		queue->brief = alone && !fresh && (s64)(queue->tag - now_v) < -(s64)v_granted;
	}
	tag = queue->tag;
	if (queue->brief) {
		tag = now_v - BRIEF_LEAD;
		group = BRIEF_GROUP;
		wake = false;
	}
	vtrr_link(VT(queue->vt), CLIENTS, q, tag, group, wake, now_ns);
}

/*
 * Principal `idx`, whose last thread ran from queue `q`, or from none that is known, is perhaps
 * active no longer: what it is owed, or owes, is settled. A holder of a lock may have run and
 * gone without ever having been filed.
 */
static __noinline void gone_locked(u32 idx, u32 q)
{
	struct tix_node *n = &NODES[idx];
	bool was = n->self_active;
	struct tix_queue *queue;
	s64 lead;

	if (!was || (n->nr_runnable && !is_held(n)))
		return;
	to_used_locked();
	turned_locked(idx);
	if (q >= TIX_QUEUES_MAX || QUEUES[q].node != idx)
		q = n->homes < TIX_QUEUES_MAX ? n->homes : idx;
	queue = &QUEUES[q];
	lead = weighed(account_locked(idx), queue->inverse);
	if (lead > ahead_most(queue))
		lead = ahead_most(queue);
	if (lead < -behind_most(queue))
		lead = -behind_most(queue);
	bear_locked(q, lead, false);
	/* Who is due more than a CPU is not behind for want of its turn, and V would be set back for that each time it wakes up. */
	if (nr_cpu_ids > 1 && lead < 0 && n->budget > ROUND_NS) {
		FUNDS[fund_asleep(GRAPH, FUNDS, idx)].lead = 0;
		queue->tag = now_v;
	}
	to_granted_locked();
}

/* Whether queue `q`, which is to be filed, has to wait for a limit's next period; it counts no longer, then. */
static __always_inline bool kept_out_locked(u32 q)
{
	if (!hold_locked(q))
		return false;
	gone_locked(QUEUES[q].node, q);
	return true;
}

/* Both, for the threads that wait there, and have since before. */
static __always_inline void file_again_locked(u32 q, bool wake)
{
	u32 nr = QUEUES[q].nr;

	if (!nr || CLIENTS[q].linked)
		return;
	if (nr_limits && kept_out_locked(q))
		return;
	link_locked(q, nr, wake, enter_locked(q, nr, QUEUES[q].load, wake));
}

/* The same, of threads that have just come. */
static __always_inline void file_locked(u32 q, bool wake)
{
	if (nr_limits && !CLIENTS[q].linked && !QUEUES[q].held)
		come_locked(q);
	file_again_locked(q, wake);
}

/*
 * The tag of queue `q` tells how far it is ahead or behind now. What ran over to it from siblings below an issuer since it was looked at
 * last, for which no V passed, would be lost to a thread that another CPU has taken over: from when it was picked there to the end of that run.
 */
static __noinline void tell_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];

	if (!NODES[queue->node].self_active || !queue->seen_v)
		return;
	GRAPH->now = now_v;
	fund_walk(GRAPH, FUNDS, queue->node, false);
	if (fund_size(self_due(queue->node) - queue->seen_due) >> 62)
		return;		/* 20 hours of CPU since: more than lead_locked() can tell */
	queue->tag = weighed(lead_locked(q, false), queue->inverse);
	queue->tag += now_v;
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
	if (nr_cpu_ids > 1 && from < TIX_QUEUES_MAX && !QUEUES[from].nr)
		close_locked(from);
	moved = from >= TIX_QUEUES_MAX || QUEUES[from].node != t->node;
	if (!moved && nr_cpu_ids > 1) {
		tell_locked(from);
		if (others)
			tell_locked(q);		/* the two tags are of one time, then */
	}
	if (!moved && (!wake || (s64)(QUEUES[from].tag - tag) > 0))
		tag = QUEUES[from].tag;
	else if (others)
		return;
	else if (moved && (s64)(QUEUES[q].tag - tag) > 0)
		return;		/* what its new principal owes */
	if (!others) {
		QUEUES[q].tag = tag;
		QUEUES[q].seen_v = 0;
	} else if ((s64)(tag - QUEUES[q].tag) >= 0) {
		QUEUES[q].tag += (tag - QUEUES[q].tag) / (others + 1);
	} else {
		QUEUES[q].tag -= (QUEUES[q].tag - tag) / (others + 1);
	}
}

/* A thread was put into queue `q`. A global function, as the others named tix_, so that the verifier looks at it once. */
__noinline int tix_file(u32 q, bool wake, struct task_ctx *t)
{
	u64 now = scx_bpf_now();
	struct run run = {};

	USES_ARENA();
	if (!t || q >= TIX_QUEUES_MAX)
		return 0;
	if (nr_cpu_ids == 1 && nr_limits)
		look_at_run(&run, now);
	bpf_spin_lock(&tix_lock);
	begin_run_locked(&run);
	advance_locked(now);
	move_locked(t, q, QUEUES[q].nr - 1, wake);
	file_locked(q, wake);
	end_run_locked(&run);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* The last thread of `q` went without having run. */
__noinline int tix_unfile(u32 q)
{
	USES_ARENA();
	if (q >= TIX_QUEUES_MAX)
		return 0;
	bpf_spin_lock(&tix_lock);
	if (!QUEUES[q].nr && CLIENTS[q].linked) {
		vtrr_unlink(VT(QUEUES[q].vt), CLIENTS, q);
		/* Another CPU may have put a thread there and seen it linked. Who picks it brings it up to date. */
		if (nr_after(q))
			link_locked(q, 1, false, false);
	}
	bpf_spin_unlock(&tix_lock);
	return 0;
}

#endif
