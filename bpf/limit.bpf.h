/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max: how much CPU a cgroup and all below it may have in a period (the kernel's
 * admin-guide/cgroup-v2.rst). Under tix_lock.
 *
 * A currency's limit (Banga §4.3) is a node of its own, the cap of those cgroups that the currency
 * funds; what is below them has it from them. A cgroup that is funded through several limited
 * currencies has the first of them, which has the next. So what counts for a cgroup are its own
 * cpu.max and caps, then those of the cgroups above. The same cap may count for several of these:
 * what is used is taken from it once.
 *
 * What a cgroup had more than its quota, because several of its threads were running or one held
 * a lock that others wait for, comes off the next periods'. What it left of a period is kept as
 * far as cpu.max.burst says.
 *
 * No quota is so small that a thread is not run for 10 s: those that wait have MIN_SLICE_NS each
 * in CROWD_NS, who is overdue runs all the same, and nothing is owed for longer than OWED_NS.
 */
#ifndef TIX_LIMIT_BPF_H
#define TIX_LIMIT_BPF_H

#define CROWD_NS 5000000000ull
#define OWED_NS (OVERDUE_NS / 2)
#define HELD (TIX_CPUS_MAX + 1)

static STATE u32 nr_limits;		/* how many there are; 0: none of this is looked at */
static STATE u32 limits_epoch = 1;	/* limits come and go */
static STATE u64 limit_walks;
static STATE u64 now_ns;		/* the latest that any CPU told, under tix_lock */

static __always_inline void advance_locked(u64 now)
{
	if ((s64)(now - now_ns) > 0)	/* CPUs' clocks differ a little */
		now_ns = now;
}

static __always_inline bool is_limited(u32 idx)
{
	return NODES[idx].quota || NODES[idx].cap;
}

/*
 * The nearest of `idx` and the cgroups above it that has a limit or a cap, or 0. Looked for when limits have come or gone
 * since, up to where somebody else has been.
 */
static __noinline u32 limit_of(u32 idx)
{
	struct tix_node *n;
	u32 at = idx;

	if (idx >= TIX_NODES_MAX)
		return 0;
	n = &NODES[idx];
	if (n->limit_seen == limits_epoch)
		return n->limit;
	while (at && at < TIX_NODES_MAX && !is_limited(at) && can_loop) {
		at = NODES[at].parent;
		if (at < TIX_NODES_MAX && NODES[at].limit_seen == limits_epoch) {
			at = NODES[at].limit;
			break;
		}
	}
	if (at >= TIX_NODES_MAX || !is_limited(at))
		at = 0;
	n->limit = at;
	n->limit_seen = limits_epoch;
	return at;
}

/* After `l`, cgroup `*at` itself or one of its caps: the next that counts, which may be a cgroup above, then `*at`; or 0. */
static __always_inline u32 limit_after(u32 *at, u32 l)
{
	u32 cap = NODES[l].cap;

	if (cap)
		return cap;
	END_BRANCHES();
	*at = limit_of(NODES[*at].parent);
	return *at;
}

/* Begin the periods of limit `l` that are due. */
static __noinline void refill_locked(u32 l)
{
	struct tix_node *n = &NODES[l];
	u64 late = now_ns - n->next_at, periods, more;
	s64 least, most;

	if (!n->quota) {	/* it has just been lifted */
		n->left = 1;
		return;
	}
	if ((s64)late < 0)
		return;
	periods = late / n->every + 1;
	n->next_at += periods * n->every;
	n->nr_periods += periods;
	if (periods > OWED_NS / n->every)
		periods = OWED_NS / n->every + 1;
	more = n->crowd * MIN_SLICE_NS / (CROWD_NS / n->every);
	if (more < n->quota)
		more = n->quota;
	least = -(s64)(more * (OWED_NS / n->every));
	most = more + n->burst;
	if (n->left < least)
		n->left = least;
	n->left += more * periods;
	if (n->left > most)
		n->left = most;
	n->each = n->left > 0 ? n->left / (n->crowd ?: 1) : 0;
	if (n->each < MIN_SLICE_NS)
		n->each = MIN_SLICE_NS;
}

/* The threads of `idx` have used `ns`. A global function, as the next one, so that the verifier looks at it once. */
__noinline int tix_debit(u32 idx, u64 ns, u64 now)
{
	u32 at, l;

	USES_ARENA();
	BEGIN_LOOPS();
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	limit_walks++;
	at = l = limit_of(idx);
	while (l && l < TIX_NODES_MAX && can_loop) {
		if (NODES[l].quota && NODES[l].walked != limit_walks) {
			NODES[l].walked = limit_walks;
			END_BRANCHES();
			refill_locked(l);
			NODES[l].left -= ns;
		}
		l = limit_after(&at, l);
	}
	bpf_spin_unlock(&tix_lock);
	return 0;
}

static STATE u64 limit_left;		/* what the limits of who was looked at last leave, ns */

/* The limit that counts for `idx` and is used up, or 0. */
static __noinline u32 spent_locked(u32 idx)
{
	u32 at, l;

	BEGIN_LOOPS();
	at = l = limit_of(idx);
	limit_left = ~0ull;
	while (l && l < TIX_NODES_MAX && can_loop) {
		if (NODES[l].quota) {
			END_BRANCHES();
			refill_locked(l);
			if (NODES[l].left <= 0)
				return l;
			if (NODES[l].left < limit_left)
				limit_left = NODES[l].left;
			if (NODES[l].each && NODES[l].each < limit_left)
				limit_left = NODES[l].each;
		}
		l = limit_after(&at, l);
	}
	return 0;
}

/*
 * The same without the lock: it may be said of a period that is over, and where limits have just come or gone nothing is
 * said until somebody has looked under the lock.
 */
__noinline u32 tix_seems_spent(u32 idx)
{
	u32 at = idx, l = 0;

	USES_ARENA();
	BEGIN_LOOPS();
	while (at < TIX_NODES_MAX && can_loop) {
		if (!l && NODES[at].limit_seen == limits_epoch)
			at = l = NODES[at].limit;
		if (!l || l >= TIX_NODES_MAX)
			break;
		if (NODES[l].quota && NODES[l].left <= 0)
			return true;
		l = NODES[l].cap;
		if (!l)
			at = NODES[at].parent;
	}
	return false;
}

/* Whether a limit counts for `idx`, or one may, as far as is known without the lock. */
static __always_inline bool may_have_limit(u32 idx)
{
	return NODES[idx].limit_seen != limits_epoch || NODES[idx].limit;
}

/* The last of the limits that threads wait for, or 0; the first is NODES[0].next_spent, as base has no limit. */
static STATE u32 spent_last, nr_spent;
static STATE u64 limit_due;		/* when one of them is to be looked at; 0: the timer knows */

static __always_inline void look_again_locked(u64 at)
{
	if (!limit_due || (s64)(at - limit_due) < 0)
		limit_due = at;
}

static __always_inline void look_at_limit(u32 l)
{
	look_again_locked(NODES[l].next_at);
}

/* Threads wait for limit `l`. */
static __always_inline void note_spent(u32 l)
{
	NODES[l].next_spent = 0;
	NODES[spent_last].next_spent = l;
	spent_last = l;
	nr_spent++;
}

/*
 * The limit for whose next period thread `i` has to wait, or 0: then limit_left says for how long it may
 * run. A thread that has waited too long runs all the same, for a moment.
 */
static __always_inline u32 limit_to_wait_for(u32 i)
{
	u32 l = spent_locked(THREADS[i].node);

	if (!l || l >= TIX_NODES_MAX)
		return 0;
	if (CLIENTS[i].since && (s64)(now_ns - CLIENTS[i].since) > (s64)OVERDUE_NS) {
		limit_left = MIN_SLICE_NS;
		return 0;
	}
	return l;
}

/*
 * Thread `i` waits for the next period of limit `l` from now on; false: another CPU has meanwhile had it
 * wait, there or in a queue. One link serves both.
 */
static __noinline bool hold_locked(u32 i, u32 l)
{
	struct tix_thread *t = &THREADS[i];
	struct tix_node *n = &NODES[t->node], *of = &NODES[l];
	u32 last;

	if (__sync_val_compare_and_swap(&t->queue, 0, HELD))
		return false;
	if (!of->spent_at) {
		of->spent_at = now_ns;
		of->nr_throttled++;
		note_spent(l);
	}
	look_at_limit(l);
	n->held_by = l;
	n->nr_held++;
	of->crowd++;
	t->held_by = l;
	CLIENTS[i].since = CLIENTS[i].since ?: now_ns;
	last = of->last_held;
	CLIENTS[i].next = 0;
	CLIENTS[i].prev = last;
	if (last && last < TIX_THREADS_MAX)
		CLIENTS[last].next = i;
	else
		of->first_held = i;
	of->last_held = i;
	return true;
}

/* Thread `i` waits for a limit no longer. */
static __noinline void unhold_locked(u32 i)
{
	struct tix_thread *t = &THREADS[i];
	u32 next = CLIENTS[i].next, prev = CLIENTS[i].prev;
	struct tix_node *of;

	if (!t->held_by || t->held_by >= TIX_NODES_MAX)
		return;
	of = &NODES[t->held_by];
	if (prev && prev < TIX_THREADS_MAX)
		CLIENTS[prev].next = next;
	else
		of->first_held = next;
	if (next && next < TIX_THREADS_MAX)
		CLIENTS[next].prev = prev;
	else
		of->last_held = prev;
	of->crowd--;
	t->held_by = t->queue = 0;
	if (!--NODES[t->node].nr_held)
		NODES[t->node].held_by = 0;
}

#endif
