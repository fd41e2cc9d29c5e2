/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares, and charging by them, under tix_lock; filing is in file.bpf.h, picking in pick.bpf.h.
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

/* inverse * total / load, for total >= load > 0; at most INVERSE_MAX. */
static u64 part(u64 inverse, u32 total, u32 load)
{
	u64 ratio = ((u64)total << 16) / load;

	inverse >>= 16;
	return inverse > INVERSE_MAX / ratio ? INVERSE_MAX : inverse * ratio;
}

/*
 * Bring what passes of V in some time up to date. What is slack does not become less because
 * somebody with most of the tickets works for a moment, as the kernel's own threads do, and V is
 * slow meanwhile: it is of the highest rate that there was lately.
 */
static __always_inline void units_locked(void)
{
	u64 rate = GRAPH->rate, top;

	if (now_ns - rate_at >= SLACK_NS) {
		rate_at = now_ns;
		rate_before = rate_top;
		rate_top = rate;
	} else if (rate == v_rate && nr_online == v_online) {
		return;
	}
	if (rate_top < rate)
		rate_top = rate;
	top = rate_top > rate_before ? rate_top : rate_before;
	v_rate = rate;
	v_online = nr_online;
	v_round = tix_mul_q32(ROUND_NS * v_online, rate);
	v_slack = tix_mul_q32(SLACK_NS * v_online, top);
	if (v_slack > v_round)
		v_slack = v_round;
	v_steal = v_slack / (SLACK_NS / STEAL_NS);
	v_granted = tix_mul_q32(slice_ns * v_online, rate);
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
 * A tag may be behind V by what a busy CPU owes until others take it over (SLACK_NS), and
 * ahead by as much and by what runs at the same time, by a round at most in both directions.
 */
static __noinline void compute_locked(u32 q, u32 nr, u32 load, u32 total, bool joins)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];
	struct fund_node *f = &FUNDS[queue->node];
	u64 value, inverse, share, slice, round, period, most;
	u32 up, forced = 0, was_load = queue->seen_load, was_total = queue->seen_total;
	u32 was_forced = queue->forced;
	bool told = queue->seen_v;
	s64 lead, was_lead;

	units_locked();
	round = v_round;
	GRAPH->now = now_v;
	fund_refresh(GRAPH, FUNDS, queue->node);
	lead = lead_locked(q, false);
	if (nr_cpu_ids > 1 && told && !joins)
		lead = evened_locked(q, lead, load, total);
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
		/* For half as many: a slice that is short enough for a pair will do for the one of it that does not sleep. */
		queue->seen_nr = nr > 2 ? nr / 2 + 1 : 1;
		queue->seen_nrs = nr - queue->seen_nr;
		up = nr;
	}
	if (period * nr > round) {
		slice = (round << 10) / ((inverse >> 22) * nr);
		if (slice < MIN_SLICE_NS) {
			slice = MIN_SLICE_NS;
			share = inverse >> 16;
			inverse = ((round << 10) / (nr * MIN_SLICE_NS)) << 22;
			forced = inverse / share ?: 1;
			queue->seen_nr = nr;
			queue->seen_nrs = 0;
			/* That part of a round is more of the machine once others sleep, and V is faster. */
			queue->seen_rate = GRAPH->rate - GRAPH->rate / 64;
			queue->seen_rates = GRAPH->rate / 32;
			stats.forced++;
		}
		period = tix_mul_q32(slice, inverse);
	}
	queue->slice = slice;
	queue->inverse = inverse;
	queue->forced = forced;
	queue->period = period;
	/* Of what the queue is ahead or behind, threads that come or go take their part along (move_locked). */
	inverse = n->inverse;
	if (was_load && was_load < was_total)
		inverse = part(inverse, was_total, was_load);
	if (told && !(was_forced && forced)) {
		was_lead = queue->tag - now_v;
		/* What it is owed it has once it has run for so long, and it is charged less than by its share. */
		lead = weighed(lead, forced && lead < 0 ? queue->inverse : inverse);
		/* By its share that is much more than what it was charged; it would wait for a round or more. */
		if (was_forced && fund_size(lead) > fund_size(was_lead))
			lead = was_lead;
		queue->tag = now_v + lead;
	}
	queue->group = vtrr_group_of(period) ?: BRIEF_GROUP + 1;
	most = (LAG_PERIODS + up) * period;
	queue->behind = (most < round ? most : round) + 2 * v_slack;
	most = (LEAD_PERIODS + up) * period;
	queue->ahead = (most < round + period ? most : round + period) + 2 * v_slack;
	/*
	 * What forced runs gave beyond its share adds up to all of that, and a principal with a limit brings it
	 * along whenever it comes back: its threads would have one run a round between them, not one each.
	 */
	if (!forced)
		return;
	most = LEAD_PERIODS * period;
	queue->ahead = most;
	/*
	 * Nor is more owed to it, or than what a busy CPU may owe: it has more than its share. It falls behind when threads of its own run for a lock and
	 * others pay, and all who came after that would wait until it had caught up.
	 */
	if (most < 2 * v_slack)
		most = 2 * v_slack;
	lead = queue->tag - now_v;
	if (told && lead < -(s64)most) {
		forgive_locked(q, unweighed(queue, -(s64)most - lead));
		queue->tag = now_v - most;
	}
}

/* The threads directly in `idx` became runnable, or none is any longer, or may run. */
static __noinline void turned_locked(u32 idx)
{
	struct tix_node *n = &NODES[idx];
	bool active = n->nr_runnable && !is_held(n);

	if (n->self_active == active)
		return;
	n->self_active = active;
	GRAPH->now = now_v;
	fund_self(GRAPH, FUNDS, idx, active);
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

/* Queue `q`, whose principal is away, has had `ns` of CPU more, or less: who waits for a lock pays for the holder. */
static __noinline void lent_locked(u32 q, s64 ns)
{
	u32 node = QUEUES[q].node;
	u64 due;

	GRAPH->now = now_v;
	GRAPH->most = behind_most(&QUEUES[q]) / 2;
	fund_walk(GRAPH, FUNDS, node, false);
	due = self_due(node);
	fund_late(GRAPH, FUNDS, node, ns);
	QUEUES[q].seen_due += self_due(node) - due;	/* that is for the others */
	now_v = GRAPH->now;
}

/* Queue `q` has had `ns` of CPU more, or less. */
static __always_inline void had_locked(u32 q, s64 ns)
{
	struct tix_queue *queue = &QUEUES[q];
	struct tix_node *n = &NODES[queue->node];

	queue->tag += weighed(ns, queue->inverse);
	n->had_ns += ns;
	if (!n->self_active)
		lent_locked(q, ns);
}

/* CPU time `ns` of nice weight `weight` in terms of nice 0. */
static __always_inline u64 per_weight(u64 ns, u32 weight)
{
	return weight == 100 || !weight ? ns : ns * 100 / weight;	/* a division is dear */
}

/* What a thread has used since it was charged last, and its grant back. */
static __always_inline void charge_locked(struct task_ctx *t, u64 sum, u32 weight, u64 now)
{
	struct tix_node *n = &NODES[t->node];
	u64 used = sum - t->sum, rate = t->rate;
	u32 q = t->ran_from;
	s64 more;

	if (used > 0xffffffff) {
		if ((s64)used < 0)
			return;		/* another CPU has charged more of it already (hand.bpf.h) */
		used = 0xffffffff;
	}
	t->sum = sum;
	if (q >= TIX_QUEUES_MAX || QUEUES[q].node != t->node)
		q = n->homes < TIX_QUEUES_MAX ? n->homes : t->node;	/* moved while it ran */
	if (t->payer < TIX_QUEUES_MAX) {
		q = t->payer;
		t->payer = VTRR_NONE;
		if (QUEUES[q].node != t->node)
			stats.lent_ns += used;
	}
	more = used - t->grant;
	/*
	 * On several CPUs at the present rate, not at the one that there was when it was granted: who wakes up with most of the tickets and
	 * interrupts somebody would be charged for it, and V be too slow, when all of the rest of that one's slice is taken back.
	 */
	if (!rate || (nr_cpu_ids > 1 && !QUEUES[q].forced))
		rate = GRAPH->rate;
	now_v += weighed(more, rate);
	had_locked(q, more);
	t->grant = t->rate = 0;
	n->used_ns += used;
	t->vtime += per_weight(used, weight);
	n->vtime += per_weight(used, n->load);
	if ((s64)(now - n->turn_at) >= (s64)TURN_NS)
		turn_locked(n, now);
}

/*
 * How far a thread of `n` may be ahead in its virtual time, ns at nice 0, where `n` has a limit; else `most`. What it may have in a
 * period, and what one run of the thread's own may take, `run`: who had a CPU for itself for seconds and shares one now would wait for as many
 * periods as it was ahead for. And no more than all of a period's, for a thread of weight `load`: others have had a whole turn each by then, and
 * of a quota of 1 ms one that ends late, in a system call, is several.
 */
static __noinline u64 most_of_limit(const struct tix_node *n, u64 most, u64 run, u32 load)
{
	u32 l = n->limit_seen == limits_epoch ? n->limit : 0, cap;
	u64 quota, more;

	if (!l || l >= TIX_NODES_MAX)
		return most;
	cap = NODES[l].cap;
	quota = NODES[l].quota;
	if (!quota && cap < TIX_NODES_MAX)
		quota = NODES[cap].quota;
	more = per_weight(quota, n->load) + per_weight(run, load);
	if (more > per_weight(quota, load))
		more = per_weight(quota, load);
	return quota && more < most ? more : most;
}

/*
 * Where a thread of queue `q` stands in its principal's virtual time. Whatever it had
 * before, it waits a round at most, and nobody waits longer for it: `most`, what the
 * principal is given in one, or has to be, divided by the weights of its threads.
 *
 * What a sleeper may catch up is one slice. When it wakes up it goes before all that wait:
 * after a turn (turn_locked) they may be further behind, and one that has been given the
 * lock that a crowd waits for would come last. So does one that others wait for, or may
 * (`waited_for`), as long as it has not had what it is given in a round.
 */
static __always_inline u64 place(u32 q, struct task_ctx *t, bool wake, bool waited_for)
{
	struct tix_node *n = &NODES[t->node];
	u64 slice = QUEUES[q].slice ?: slice_ns, most = n->nr_runnable * MIN_SLICE_NS;
	bool first = waited_for;
	struct task_struct *p;
	u64 low;

	if (most < n->budget)
		most = n->budget;
	most = per_weight(most, n->load);
	if (nr_limits)
		most = most_of_limit(n, most, slice + CALL_GRACES * MIN_SLICE_NS, t->load);
	if (slice > most)
		slice = most;
	low = n->vtime - slice;
	if ((s64)(t->vtime - low) < 0) {
		t->vtime = low;
		first |= wake;
	} else if ((s64)(t->vtime - (n->vtime + most)) > 0) {
		t->vtime = n->vtime + most;
		first = false;
	}
	p = first && QUEUES[q].nr ? __COMPAT_scx_bpf_dsq_peek(DSQ(q)) : NULL;
	if (p && (s64)(p->scx.dsq_vtime - t->vtime) < 0)
		return p->scx.dsq_vtime - 1;
	return t->vtime;
}

/*
 * `p`, which is runnable, counts in its principal from now on. Not before somebody asks: who
 * finds a CPU idle and sleeps again soon is in nobody's way.
 */
static __always_inline void count(const struct task_struct *p, struct task_ctx *t)
{
	if (t->load)
		return;
	t->load = p->scx.weight;
	__sync_fetch_and_add(&NODES[t->node].load, t->load);
	__sync_fetch_and_add(&NODES[t->node].nr_runnable, 1);
}

static void charge(struct task_struct *p, struct task_ctx *t)
{
	u64 sum = p->se.sum_exec_runtime;
	u64 now = cpu_ctx(bpf_get_smp_processor_id())->now;
	u32 weight = p->scx.weight;

	if (nr_limits)
		tix_debit(t->node, sum - t->sum, now);
	bpf_spin_lock(&tix_lock);
	charge_locked(t, sum, weight, now);
	bpf_spin_unlock(&tix_lock);
}

#endif
