/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What queues and principals have had more than their due, under tix_lock.
 *
 * On one CPU a principal is one queue, and its tag tells all. On several it has a queue on each
 * CPU where it has threads, and they share what it is due by the nice weights of their threads. As
 * threads sleep and wake up those parts change, and each queue learns of that only when somebody
 * looks at it: a little is due to none of them, or to two. And what a queue is ahead or behind when
 * its last thread goes to sleep belongs to those that stay. So the principal has an account of its
 * own, which is exact (had_ns, and what is due to all of it), and the queues take over, little by
 * little, what their own sum lacks of it. Not where they are given more than the principal is due
 * (forced): there its account would say that they are ahead for ever, and whoever holds a lock in such
 * a crowd would wait for nothing (the guest tests locks::).
 *
 * What a principal could not use because it has fewer threads than CPUs' worth of tickets is not
 * owed to it (model.md §2).
 */
#ifndef TIX_ACCOUNT_BPF_H
#define TIX_ACCOUNT_BPF_H

#define LEAD_MAX ((s64)1 << 32)	/* ns: so that it can be weighed */
#define EVEN_LOG 5u		/* each look at a queue evens out 2^-this of what is lacking */
#define PACE_LOG 4u		/* what is due lately falls by 2^-this each CAP_EVERY_NS */

/* CPU time `ns`, which may be negative, weighed. */
static __always_inline u64 weighed(s64 ns, u64 inverse)
{
	return fund_like(ns, tix_mul_q32(fund_size(ns), inverse));
}

/* The CPU time that queue `queue` is charged virtual time `v` for, ns; likewise. V may pass by 2^47 in seconds. */
static __always_inline s64 unweighed(const struct tix_queue *queue, s64 v)
{
	u64 size = fund_size(v), inverse = (queue->inverse >> 16) ?: 1, whole = size / inverse;

	return fund_like(v, (whole << 16) + ((size - whole * inverse) << 16) / inverse);
}

static __always_inline s64 bounded(s64 lead)
{
	if (lead > LEAD_MAX)
		return LEAD_MAX;
	return lead < -LEAD_MAX ? -LEAD_MAX : lead;
}

/* What the threads directly in `idx`, whose funding is up to date, have been due and have not given to others, as of due.h. */
static __always_inline u64 self_due(u32 idx)
{
	return fund_self_due(&FUNDS[idx]) - NODES[idx].not_due;
}

/*
 * What queue `q` has had more than it was due, ns of CPU; fund_refresh() brought that up to
 * date. Its tag tells what that was the last time, and what it has been charged for since;
 * V tells what it was due since only as long as siblings neither come nor go (due.h).
 * `away`: it was not there since.
 */
static __noinline s64 lead_locked(u32 q, bool away)
{
	struct tix_queue *queue = &QUEUES[q];
	u64 due = self_due(queue->node), more = due - queue->seen_due, size;
	s64 lead;

	if (away)
		more = fund_stayed(more, FUND_SELF, FUNDS[queue->node].issued);
	size = fund_size(more);
	if (!queue->seen_v || queue->forced) {	/* no account of what it is due */
		lead = unweighed(queue, queue->tag - now_v);
	} else {
		lead = unweighed(queue, queue->tag - queue->seen_v);
		due -= fund_like(more, size & ((1u << FUND_DUE_LOG) - 1));	/* for next time */
		size >>= FUND_DUE_LOG;
		if (queue->seen_load && queue->seen_load < queue->seen_total)
			size = size / queue->seen_total * queue->seen_load;
		lead -= fund_like(more, size);
	}
	queue->seen_v = now_v;
	queue->seen_due = due;
	return bounded(lead);
}

/* What the threads of queue `q`, who come back, have had more than they were due. */
static __noinline s64 owes_locked(u32 q)
{
	u32 node = QUEUES[q].node;

	GRAPH->now = now_v;
	fund_walk(GRAPH, FUNDS, node, false);
	return FUNDS[node].nr_active ? lead_locked(q, true) : bounded(fund_owes(GRAPH, FUNDS, node));
}

/* ns from `since` to `due`, both as of due.h. */
static __always_inline s64 due_ns(u64 due, u64 since)
{
	return fund_like(due - since, fund_size(due - since) >> FUND_DUE_LOG);
}

/* What principal `idx` has had more than its due since it became active, ns; its funding is up to date. */
static s64 account_locked(u32 idx)
{
	struct tix_node *n = &NODES[idx];

	return bounded(n->lead + (s64)(n->had_ns - n->was_had) -
		       due_ns(self_due(idx), n->was_due));
}

/* Queue `q` brings its principal back, which has had `lead` ns more than its due. */
static __always_inline void open_account_locked(u32 q, s64 lead)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];

	n->lead = n->sum_lead = queue->was_lead = lead;
	queue->stint = ++n->stint;
	n->was_had = n->seen_had = n->had_ns;
	n->was_due = n->seen_due = queue->seen_due;
	n->seen_at = now_ns;
	n->excess = 0;
}

/* Queue `q` counts no longer for what its principal's queues are ahead or behind. */
static __always_inline void close_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];

	if (queue->stint == n->stint)
		n->sum_lead -= queue->was_lead;
	queue->was_lead = 0;
}

/* `t` has gone to sleep, and perhaps was the last of its queue. */
static __always_inline void emptied_locked(struct task_ctx *t)
{
	u32 q = t->ran_from;

	if (nr_cpu_ids == 1 || q >= TIX_QUEUES_MAX || QUEUES[q].node != t->node || QUEUES[q].nr)
		return;
	close_locked(q);
}

/* Queue `q` is `ns` further ahead, and so is its principal: that is forgotten. */
static __always_inline void forgive_locked(u32 q, s64 ns)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];

	n->lead += ns;
	if (queue->stint == n->stint) {
		n->sum_lead += ns;
		queue->was_lead += ns;
	}
}

/* Whether a thread of queue `queue`, whose principal has no other, has a CPU for itself. */
static __always_inline bool alone_locked(const struct tix_queue *queue)
{
	u32 cpu = VT_CPU(queue->vt) & (TIX_CPUS_MAX - 1);

	return queue->vt != VT_ANY && NODES[queue->node].nr_runnable <= 1 &&
	       !(VT(VT_HOME(cpu))->nr + VT(VT_SOME(cpu))->nr + VT(VT_BOUND(cpu))->nr);
}

/*
 * `more` ns were due to principal `n` in the last `passed`. Where others leave much to it that may be many times its share, and
 * so are what it is ahead or behind by, in virtual time, before a CPU that has more to do than others is helped (bound_locked).
 */
static __always_inline void pace_locked(struct tix_node *n, s64 more, u64 passed)
{
	u64 rate = more > 0 && passed ? ((u64)more << 16) / passed : 0, most = (u64)nr_online << 16;

	n->rate -= n->rate >> PACE_LOG;
	if (n->rate < rate)
		n->rate = rate < most ? rate : most;
	n->slack = weighed(bounded(n->rate * (SLACK_NS >> 16)), n->inverse);
}

/* By how much more than by its share a tag of queue `queue` may be ahead of V or behind. */
static __always_inline u64 slack_of(const struct tix_queue *queue)
{
	u64 slack = NODES[queue->node].slack;

	if (slack > v_round)
		slack = v_round;
	return slack > v_slack && !queue->forced ? 2 * (slack - v_slack) : 0;
}

static __always_inline s64 behind_most(const struct tix_queue *queue)
{
	return queue->behind + slack_of(queue);
}

static __always_inline s64 ahead_most(const struct tix_queue *queue)
{
	return queue->ahead + slack_of(queue);
}

/*
 * What the principal of queue `q`, whose funding is up to date, was due since this was looked at last, and its threads could not use, is not owed
 * to it: beyond a slack it goes to its siblings first (model.md §2), as water that runs over. The slack is for CPUs that charge each at its own
 * time, which moves V to and fro. While it does, a thread that has a CPU for itself cannot use either what the kernel takes of that.
 */
static __always_inline void run_over_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];
	u32 idx = queue->node;
	struct tix_node *n = &NODES[idx];
	u64 due = self_due(idx), passed = now_ns - n->seen_at;
	u32 threads = n->nr_runnable < nr_online ? n->nr_runnable : nr_online;
	s64 had = n->had_ns - n->seen_had, more = due_ns(due, n->seen_due), can = passed * threads;
	s64 slack = CAP_SLICES * slice_ns, lost, keep;

	if (fund_size(due - n->was_due) >> 62) {	/* before it is too much for due_ns() */
		n->lead = account_locked(idx);
		n->was_had = n->had_ns;
		n->was_due = due;
	}
	if (can < had)		/* there were more of them meanwhile */
		can = had;
	if (passed <= SLACK_NS) {	/* else nobody knows how many of them wanted to */
		n->excess += more - can;
		pace_locked(n, more, passed);
	}
	n->seen_had = n->had_ns;
	n->seen_at = now_ns;
	n->seen_due = due;
	if (n->excess < 0)
		n->excess = 0;
	lost = n->excess - slack;
	if (lost <= 0)
		return;
	n->excess = slack;
	if (alone_locked(queue)) {
		if (lost < more - had)
			lost = more - had;
		/* It has its CPU before others until it is behind, once, by as much as may be. */
		keep = account_locked(idx) + slack;
		if (keep > lost >> 2)
			keep = lost >> 2;
		if (keep > 0)
			lost -= keep;
	}
	GRAPH->most = v_round;
	fund_bear(GRAPH, FUNDS, idx, lost, true);
	/* Siblings below an issuer, and other queues of its own, are told when they are looked at next. */
	if (GRAPH->now == now_v || queue->seen_load != queue->seen_total)
		GRAPH->epoch++;
	now_v = GRAPH->now;
	fund_walk(GRAPH, FUNDS, idx, false);
	n->not_due += ((u64)lost << FUND_DUE_LOG) + self_due(idx) - due;	/* nor is what it was due of that itself */
	n->seen_due = self_due(idx);
}

/*
 * Queue `q` has had `lead` ns more than its due, by its own account; the same with what it takes over
 * for its principal, of whose `total` nice weights it has `load`.
 */
static __noinline s64 evened_locked(u32 q, s64 lead, u32 load, u32 total)
{
	struct tix_queue *queue = &QUEUES[q];
	u32 idx = queue->node;
	struct tix_node *n = &NODES[idx];
	s64 lacks, more;

	n->sum_lead += lead;
	if (queue->stint == n->stint)
		n->sum_lead -= queue->was_lead;
	lacks = account_locked(idx) - n->sum_lead;
	if (queue->forced) {
		n->lead -= lacks;	/* it has more than it is due */
	} else {
		more = lacks >> EVEN_LOG;
		if (load && load < total)
			more = fund_like(more, fund_size(more) / total * load);
		n->sum_lead += more;
		lead = bounded(lead + more);
	}
	queue->stint = n->stint;
	queue->was_lead = lead;
	return lead;
}

/* Whether a thread of queue `q` runs now, as far as is known. */
static __always_inline bool runs_locked(const struct tix_queue *queue, u32 q)
{
	const struct cpu_ctx *c = cpu_ctx(VT_CPU(queue->vt));

	return queue->vt == VT_ANY || c->runs == q || (c->turns && c->aside == q);
}

#endif
