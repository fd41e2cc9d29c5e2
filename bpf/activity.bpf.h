/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which principals are active, and what that makes each worth.
 *
 * A principal is active while a thread of it is runnable, and for LINGER_NS after: one that
 * sleeps and wakes up between two slices touches nothing that is shared. Those that went to
 * sleep on a CPU are on its list, first come, first served; its decisions, and its timer while
 * it is idle, see to those whose time is over.
 */
#ifndef TIX_ACTIVITY_BPF_H
#define TIX_ACTIVITY_BPF_H

/* The threads directly in `node` became runnable, or none is any longer, by its count. */
__noinline int tix_update_active(u32 node)
{
	u32 active;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX || !lock_graph())
		return 0;
	active = ACCOUNTS[node].nr_runnable > 0;
	/* A thread that wakes up meanwhile counts first and looks then: in order with the look here. */
	if (!active && __sync_lock_test_and_set(&NODES[node].self_active, 0) && ACCOUNTS[node].nr_runnable) {
		active = NODES[node].self_active = 1;
	} else if (ACCOUNTS[node].own_is_counted != active) {
		fund_self(GRAPH, FUNDS, node, active);
		NODES[node].self_active = active;
		tix_count_members(node);
	}
	unlock_graph();
	if (!active)
		release(node);
	return 0;
}

/* Bring what an active principal is worth up to date. */
__noinline int tix_update_value(u32 node)
{
	u32 up = node;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	if (!lock_graph())
		return 0;
	fund_refresh(GRAPH, FUNDS, node);
	ACCOUNTS[node].inverse = account_inverse(fund_self_value(GRAPH, FUNDS, node));
	ACCOUNTS[node].epoch = GRAPH->epoch;
	do {
		END_BRANCHES();
		tix_revalue(up);
		up = ACCOUNTS[up].above;
	} while (up && up < TIX_NODES_MAX && can_loop);
	unlock_graph();
	return 0;
}

/* Principal `node`, with runnable threads, is active from now on, and its value is known. In a decision. */
static __always_inline void make_known(u32 node)
{
	if (node >= TIX_NODES_MAX)
		return;
	if (!NODES[node].self_active) {
		END_BRANCHES();
		tix_update_active(node);
	}
	if (ACCOUNTS[node].epoch != GRAPH->epoch) {
		END_BRANCHES();
		tix_update_value(node);
	}
}

/* Virtual time that passes in `ns` on a busy machine. */
static __always_inline u64 passes(u64 ns)
{
	return account_vtime(ns, GRAPH->rate, nr_online);
}

/* What has passed since `then`, by CPUs' clocks that may differ a little; no more than a minute counts. */
static __always_inline u64 passed_since(u64 then, u64 now)
{
	u64 ns = (s64)(now - then) > 0 ? now - then : 0;

	return passes(ns >> 36 ? 1ull << 36 : ns);
}

/* The clock of CPU `c` as of its last decision. That of one with nothing to run goes on as time does, up to another's. */
static __always_inline u64 clock_of(const struct tix_cpu *c, u64 now)
{
	u64 clock = c->queue.clock, most = c->queue.clock_most;

	if (!c->idle_ns)
		return clock;
	clock += passed_since(c->idle_ns, now);
	return most && (s64)(clock - most) > 0 ? most : clock;
}

/* Whether what principal `node`, which sleeps, is charged to is ahead of its due yet: it is active until that is paid. */
static __always_inline bool owes(u32 node, const struct tix_cpu *c, u64 now)
{
	struct tix_account *a = top_of(node);

	return !a->nr_busy && account_lag(a, clock_of(c, now), now) > 0;
}

/* Put `node` at the end of this CPU's list. */
static __always_inline void append_lingering(struct tix_cpu *c, u32 node)
{
	NODES[node].next_lingering = 0;
	if (c->first_lingering)
		NODES[c->last_lingering - 1].next_lingering = node + 1;
	else
		c->first_lingering = node + 1;
	c->last_lingering = node + 1;
}

/* The last runnable thread of `node` went to sleep on this CPU. */
static __always_inline void linger(struct tix_cpu *c, u32 node, u64 now)
{
	NODES[node].idle_since_ns = now;
	if (NODES[node].self_active && !__sync_lock_test_and_set(&NODES[node].lingering, 1))
		append_lingering(c, node);
}

/* Whether the time is over for which `node`, which sleeps, counts as active. */
static __always_inline bool is_over(u32 node, u64 now)
{
	return node < TIX_NODES_MAX && now - NODES[node].idle_since_ns >= LINGER_NS;
}

#define LINGERING_MOST 4u	/* that are seen to in one decision */

/* See to those on `cpu`'s list, which is this one's, whose time is over. In a decision. */
__noinline int tix_end_lingering(u32 cpu, u64 now)
{
	struct tix_cpu *c = CPU(cpu);
	u32 node, i;

	USES_ARENA();
	bpf_for(i, 0, LINGERING_MOST) {
		node = c->first_lingering - 1;
		if (node >= TIX_NODES_MAX || !is_over(node, now))
			break;
		c->first_lingering = NODES[node].next_lingering;
		if (!ACCOUNTS[node].nr_runnable && owes(node, c, now)) {
			append_lingering(c, node);
			continue;
		}
		NODES[node].lingering = 0;
		END_BRANCHES();
		if (!ACCOUNTS[node].nr_runnable)
			tix_update_active(node);
	}
	return 0;
}

__noinline u32 tix_count_runnable(u32 i, u32 weight)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	struct tix_account *own = &ACCOUNTS[t->node];
	u32 others;

	USES_ARENA();
	t->weight = weight;
	others = __sync_fetch_and_add(&own->load, weight);
	join_mean(&t->served, &own->thread_mean, others, weight, slice_ns);
	return !__sync_fetch_and_add(&own->nr_runnable, 1);
}

/* Thread `i`, whose task is `p`, counts as runnable from now on; true: it is its principal's first. */
static __always_inline u32 count_runnable(const struct task_struct *p, u32 i)
{
	return THREADS[i & (TIX_THREADS_MAX - 1)].weight ? 0 : tix_count_runnable(i, p->scx.weight);
}

#endif
