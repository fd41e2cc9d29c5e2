/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Charging and filing, under tix_lock; picking is in pick.bpf.h.
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
		slice = (round << 18) / ((inverse >> 14) * nr);
		if (slice < MIN_SLICE_NS) {
			slice = MIN_SLICE_NS;
			share = inverse >> 16;
			inverse = ((round << 18) / (nr * MIN_SLICE_NS)) << 14;
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
		lead = weighed(lead, inverse);
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
	if (forced)
		queue->ahead = LEAD_PERIODS * period;
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
	GRAPH->most = QUEUES[q].behind / 2;
	fund_walk(GRAPH, FUNDS, node, false);
	due = fund_self_due(&FUNDS[node]);
	fund_late(GRAPH, FUNDS, node, ns);
	QUEUES[q].seen_due += fund_self_due(&FUNDS[node]) - due;	/* that is for the others */
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
	u64 used = sum - t->sum;
	u32 q = t->ran_from;
	s64 more;

	t->sum = sum;
	if (used > 0xffffffff)
		used = 0xffffffff;
	if (q >= TIX_QUEUES_MAX || QUEUES[q].node != t->node)
		q = n->homes < TIX_QUEUES_MAX ? n->homes : t->node;	/* moved while it ran */
	if (t->payer < TIX_QUEUES_MAX) {
		q = t->payer;
		t->payer = VTRR_NONE;
		if (QUEUES[q].node != t->node)
			stats.lent_ns += used;
	}
	more = used - t->grant;
	now_v += weighed(more, t->rate ?: GRAPH->rate);
	had_locked(q, more);
	t->grant = t->rate = 0;
	n->used_ns += used;
	t->vtime += per_weight(used, weight);
	n->vtime += per_weight(used, n->load);
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
 * lock that a crowd waits for would come last. So does one that others wait for
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

/*
 * On one CPU V has passed for all of the slice of who runs, or for too little where nobody ended it, and at the rate that
 * there was. Who comes or goes meanwhile has nothing to do with what was used before. So V is set back to where it was when
 * that much was used, and what is left passes at the new rate. On several CPUs the same would have to be done for each.
 *
 * It is done where there are limits, where all below one come and go at once, each period, and V would go further and further.
 */
#define TICK_MOST_NS 10000000ll		/* sum_exec_runtime is brought up to date once a tick */

struct run {
	struct task_ctx *t;	/* who runs and will be charged for it, or nobody */
	s64 left;		/* of its grant, ns; less than nothing if nobody ended it */
};

static s64 run_left;		/* that, while somebody may come or go; else nothing */
static u64 run_rate;
static u32 run_forced;

/* Without the lock. */
static __always_inline void look_at_run(struct run *r, u64 now)
{
	struct task_struct *p = bpf_get_current_task_btf();
	s64 by_time = cpu_ctx(0)->slice_end - now;

	r->left = 0;
	r->t = task_ctx(p);
	if (!r->t || !r->t->grant) {	/* of another class */
		r->t = NULL;
		return;
	}
	r->left = r->t->grant - (p->se.sum_exec_runtime - r->t->sum);
	if (by_time < r->left)
		r->left = by_time > r->left - TICK_MOST_NS ? by_time : r->left - TICK_MOST_NS;
}

static __always_inline void begin_run_locked(const struct run *r)
{
	if (!r->t)
		return;
	run_left = r->left;
	run_rate = r->t->rate;
	run_forced = r->t->ran_from < TIX_QUEUES_MAX && QUEUES[r->t->ran_from].forced;
}

static __always_inline void end_run_locked(const struct run *r)
{
	if (!r->t)
		return;
	r->t->rate = run_rate;
	run_left = 0;
}

static __always_inline void to_used_locked(void)
{
	now_v -= weighed(run_left, run_rate);
}

static __always_inline void to_granted_locked(void)
{
	if (!run_forced)
		run_rate = GRAPH->rate;
	now_v += weighed(run_left, run_rate);
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
	GRAPH->most = queue->behind / 2;
	fund_bear(GRAPH, FUNDS, queue->node, unweighed(queue, lead), came);
	now_v = GRAPH->now;
	queue->tag = now_v + lead;
	queue->seen_v = now_v;
	queue->seen_due = fund_self_due(&FUNDS[queue->node]);
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
	s64 lead = 0;

	if (joins) {
		to_used_locked();
		lead = owes_locked(q);
		turned_locked(queue->node);
	}
	if (!fits_locked(queue, n, nr, load)) {
		if (queue->vt == VT_ANY)
			compute_locked(q, n->nr_runnable, 1, 1, joins);
		else
			compute_locked(q, nr, load, n->load, joins);
	}
	if (!joins)
		return false;
	lead = weighed(lead, queue->inverse);
	queue->brief = 0;
	if (lead > (s64)queue->ahead) {
		lead = queue->ahead;
	} else if (lead < -(s64)v_granted) {
		queue->brief = wake && nr <= 1;
		lead = -v_granted;
	}
	bear_locked(q, lead, true);
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
 * A thread uses one CPU at most. What queue `q`, which has no other, is due beyond that cannot be
 * given to it, and goes to its siblings first (model.md §2), as water that runs over. `woke`: it
 * slept since it was here last. The slack is for CPUs that charge each at its own time, which moves
 * V to and fro.
 */
static __noinline void cap_locked(u32 q, bool woke)
{
	struct tix_queue *queue = &QUEUES[q];
	s64 due = now_v - queue->cap_v, lead = queue->tag - now_v, lost, slack;
	u64 passed = now_ns - queue->cap_at;
	u32 node = queue->node;

	woke |= !queue->cap_at;
	queue->cap_at = now_ns;
	queue->cap_v = now_v;
	if (woke) {
		queue->excess = 0;
		return;
	}
	queue->excess += due - (s64)tix_mul_q32(passed, queue->inverse);
	if (queue->excess <= 0) {
		queue->excess = 0;
		return;
	}
	slack = CAP_SLICES * (v_slack / (SLACK_NS / slice_ns));
	lost = queue->excess - slack;
	if (lost <= 0)
		return;
	queue->excess = slack;
	if (queue->forced)
		return;
	GRAPH->now = now_v;
	GRAPH->most = queue->behind / 2;
	fund_walk(GRAPH, FUNDS, node, false);
	NODES[node].was_due -= fund_self_due(&FUNDS[node]);
	NODES[node].lead += unweighed(queue, lost);
	fund_bear(GRAPH, FUNDS, node, unweighed(queue, lost), true);
	now_v = GRAPH->now;
	queue->tag = now_v + lead + lost;
	queue->cap_v = now_v;
	queue->seen_v = now_v;
	queue->seen_due = fund_self_due(&FUNDS[node]);
	NODES[node].was_due += queue->seen_due;
}

/*
 * A tag that is too far behind V or ahead of it (compute_locked) is forgotten as far as it
 * is, but on one CPU only of a principal that was away: another thread of one that runs or waits
 * may wake up at any time, and neither clears what it owes nor loses what it is owed.
 */
static __noinline void bound_locked(u32 q, bool alone)
{
	struct tix_queue *queue = &QUEUES[q];
	s64 was = queue->tag - now_v, lead = was;

	if (alone && !runs_locked(queue, q)) {
		lead = 0;	/* it brings nothing: its principal has it (emptied_locked) */
	} else {
		if (lead > (s64)queue->ahead)
			lead = queue->ahead;
		if (lead < -(s64)queue->behind)
			lead = -queue->behind;
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
	bool alone = wake && nr <= 1;
	u32 group = queue->group;
	u64 tag;

	if (CLIENTS[q].linked)
		return;

	if (!joined) {
		if (nr_cpu_ids > 1 && nr_online > 1)
			bound_locked(q, alone);
		queue->brief = alone && (s64)(queue->tag - now_v) < -(s64)v_granted;
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
	if (lead > (s64)queue->ahead)
		lead = queue->ahead;
	if (lead < -(s64)queue->behind)
		lead = -queue->behind;
	bear_locked(q, lead, false);
	to_granted_locked();
}

/* Whether queue `q`, which is to be filed, has to wait for a limit's next period; it counts no longer, then. */
static __noinline bool kept_out_locked(u32 q)
{
	if (!hold_locked(q))
		return false;
	gone_locked(QUEUES[q].node, q);
	return true;
}

/* Both, for the threads that wait there. */
static __always_inline void file_locked(u32 q, bool wake)
{
	u32 nr = QUEUES[q].nr;

	if (!nr || CLIENTS[q].linked)
		return;
	if (nr_limits) {
		if (!QUEUES[q].held)
			CLIENTS[q].since = now_ns;
		if (kept_out_locked(q))
			return;
	}
	if (wake)
		QUEUES[q].cap_at = 0;
	link_locked(q, nr, wake, enter_locked(q, nr, QUEUES[q].load, wake));
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
	if (!moved && (!wake || (s64)(QUEUES[from].tag - tag) > 0))
		tag = QUEUES[from].tag;
	else if (others)
		return;
	else if (moved && (s64)(QUEUES[q].tag - tag) > 0)
		return;		/* what its new principal owes */
	if (!others) {
		QUEUES[q].tag = tag;
		QUEUES[q].seen_v = 0;
		QUEUES[q].cap_at = 0;
	} else if ((s64)(tag - QUEUES[q].tag) >= 0) {
		QUEUES[q].tag += (tag - QUEUES[q].tag) / (others + 1);
	} else {
		QUEUES[q].tag -= (QUEUES[q].tag - tag) / (others + 1);
	}
}

static void file(u32 q, bool wake, struct task_ctx *t)
{
	u64 now = scx_bpf_now();
	struct run run = {};

	if (nr_cpu_ids == 1 && nr_limits)
		look_at_run(&run, now);
	bpf_spin_lock(&tix_lock);
	begin_run_locked(&run);
	advance_locked(now);
	move_locked(t, q, QUEUES[q].nr - 1, wake);
	file_locked(q, wake);
	end_run_locked(&run);
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

#endif
