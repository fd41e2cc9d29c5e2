/* SPDX-License-Identifier: GPL-2.0-only */
/* Members of currencies, and which of them count in a mean (core/account.h). Changes are under the graph's lock. */
#ifndef TIX_MEMBERS_BPF_H
#define TIX_MEMBERS_BPF_H

/*
 * The graph's lock. Decisions alone take it: interrupts are off there, so that whoever has it is never kept from going
 * on, and functions may be called under it. false: it was not to be had, and nothing is done.
 */
static __noinline bool lock_graph(void)
{
	while (__sync_lock_test_and_set(&GRAPH->locked, 1))
		if (!can_loop)
			return false;
	return true;
}

static __always_inline void unlock_graph(void)
{
	__sync_lock_test_and_set(&GRAPH->locked, 0);
}

/* A member with that many tickets of currency `of` is active now, or no longer. */
__noinline int tix_change_member(struct tix_account *of __arg_arena, u64 *served __arg_arena, u64 tickets, bool active)
{
	USES_ARENA();
	FUND_HERE(of);
	FUND_HERE(served);
	if (active) {
		join_mean(served, &of->mean, of->tickets, tickets, slice_ns);
		of->tickets += tickets;
	} else {
		of->tickets -= tickets;
		leave_mean(*served, &of->mean, of->tickets, tickets);
	}
	return 0;
}

/* Members are counted where they are active, from node `n` upwards. */
__noinline int tix_count_members(u32 n)
{
	struct tix_account *a;
	u32 active;

	USES_ARENA();
	BEGIN_LOOPS();
	if (n >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[n];
	active = NODES[n].self_active;
	if (active != a->own_is_counted) {
		a->own_is_counted = active;
		tix_change_member(a, &a->own_served, FUND_SELF, active);
	}
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		active = FUNDS[n].nr_active > 0;
		if (active == a->is_counted)
			break;
		a->is_counted = active;
		tix_change_member(&ACCOUNTS[a->above], &a->served, a->amount, active);
		n = a->above;
		a = &ACCOUNTS[n];
	}
	return 0;
}

/* The account in virtual time that `node` uses from. */
static __noinline struct tix_account *top_of(u32 node)
{
	struct tix_account *a = &ACCOUNTS[node < TIX_NODES_MAX ? node : 0];

	while (a->above && a->above < TIX_NODES_MAX && can_loop)
		a = &ACCOUNTS[a->above];
	return a;
}

/* The tickets of `n` are about to change. */
static __always_inline void leave_above(u32 n)
{
	struct tix_account *a = &ACCOUNTS[n];

	if (a->is_counted && a->above < TIX_NODES_MAX) {
		a->is_counted = 0;
		tix_change_member(&ACCOUNTS[a->above], &a->served, a->amount, false);
	}
}

/*
 * `a`, which is busy, is a member of `above` now, or of nothing: it counts as busy there, and no longer where it did.
 * Should it fall asleep in this moment, on another CPU, one of both may be taken for busy for ever.
 */
static __always_inline void move_busy(struct tix_account *a, u32 above)
{
	u32 was = a->busy_in;

	a->busy_in = above;
	while (above && above < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[above];
		if (__sync_fetch_and_add(&a->nr_busy, 1))
			break;
		a->busy_in = above = a->above;
		if (!above)
			a->vtime = CPU(0)->queue.clock;
	}
	while (was && was < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[was];
		if (__sync_fetch_and_add(&a->nr_busy, -1) != 1)
			break;
		was = a->busy_in;
	}
}

/*
 * They have: one that holds a soft ticket of one currency, and nothing else, is a member of that. Who was no
 * member before, or is none any longer, is where it was as far as can be told.
 */
static __always_inline void join_above(u32 n)
{
	struct tix_account *a = &ACCOUNTS[n];
	struct fund_node *f = &FUNDS[n];
	u32 was = a->above, above = 0;

	if (f->nr_edges == 1 && !f->hard && !f->delta)
		above = f->edge[0].issuer;
	if (above >= TIX_NODES_MAX)
		return;
	if (above != was) {
		if (above)
			a->served = ACCOUNTS[above].mean;
		else
			a->vtime = CPU(0)->queue.clock;
		a->inverse_all = 0;
		a->above = above;
		if (a->nr_busy)
			move_busy(a, above);
		END_BRANCHES();
		if (was)
			tix_count_members(was);
	}
	END_BRANCHES();
	a->amount = f->edge[0].amount;
	tix_count_members(n);
}

#endif
