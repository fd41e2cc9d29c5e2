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

/*
 * The tickets of its currency with which member `n` counts there: those that back active members of its
 * own. The rest backs nodes that have accounts of their own.
 */
static __always_inline u64 counted_tickets(u32 n)
{
	u64 amount = FUNDS[n].edge[0].amount, tickets = ACCOUNTS[n].tickets, issued = FUNDS[n].issued;

	if (!tickets || tickets >= issued)
		return tickets ? amount : 0;
	return tix_divide(amount * tickets, issued) ?: 1;
}

/* What the active members of node `n` are worth, its own threads included. */
static __always_inline u64 value_of_all(u32 n)
{
	struct tix_account *a = &ACCOUNTS[n];
	u64 value = FUNDS[n].value;

	if (!n || (!a->above && !a->tickets))
		return fund_self_value(GRAPH, FUNDS, n);
	if (!a->above)
		value = fund_soft_value(GRAPH, &FUNDS[n]);
	return a->tickets && a->tickets < FUNDS[n].issued ?
		       tix_mul_q62(value, fund_ratio(a->tickets, FUNDS[n].issued)) : value;
}

/*
 * Bring up to date what node `n`, whose value is fresh, is worth with its members. If it has an
 * account of its own, that is as far ahead in ns as before. What it is owed never grows, in ns or in
 * virtual time: clock and value are a little old, and the error would grow with the value.
 */
__noinline int tix_revalue(u32 n)
{
	u64 clock = CPU(bpf_get_smp_processor_id())->queue.clock, inverse;
	struct tix_account *a;
	s64 lag, off;

	USES_ARENA();
	if (n >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[n];
	inverse = account_inverse(value_of_all(n));
	if (!a->above && a->inverse_all && a->inverse_all != inverse && a->nr_busy) {
		lag = a->vtime - clock;
		off = in_vtime(unweighed(lag, a->inverse_all), inverse) - lag;
		if (lag > 0 || off > 0)
			account_add(&a->vtime, off);
	}
	a->inverse_all = inverse;
	return 0;
}

/* Members are counted, from node `n` upwards. The result: the node at the top. */
__noinline u32 tix_count_up(u32 n)
{
	struct tix_account *a, *up;
	u64 amount;

	USES_ARENA();
	BEGIN_LOOPS();
	if (n >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[n];
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		up = &ACCOUNTS[a->above];
		amount = counted_tickets(n);
		n = a->above;
		if (amount == (a->is_counted ? a->amount : 0)) {
			a = up;
			continue;
		}
		END_BRANCHES();
		if (a->is_counted && amount)
			up->tickets += amount - a->amount;
		else if (a->is_counted)
			tix_change_member(up, &a->served, a->amount, false);
		/* The lead over its siblings, in ns, stays. */
		if (amount) {
			a->served = up->mean + scaled(a->served - up->mean, a->amount, amount);
			a->amount = amount;
		}
		END_BRANCHES();
		if (!a->is_counted)
			tix_change_member(up, &a->served, amount, true);
		a->is_counted = amount > 0;
		a = up;
	}
	return n;
}

/*
 * The same, and the account at the top is worth something else from this moment on, if it is worth anything. (Not in
 * tix_count_up: before 7.2 no more than eight calls may be nested.)
 */
static __always_inline u32 count_up(u32 n)
{
	n = tix_count_up(n);
	if (n < TIX_NODES_MAX && ACCOUNTS[n].inverse_all && ACCOUNTS[n].tickets) {
		fund_refresh(GRAPH, FUNDS, n);
		tix_revalue(n);
	}
	return n;
}

/* Members are counted where they are active: from node `n` upwards, or from what funds it. */
__noinline int tix_count_members(u32 n)
{
	struct tix_account *a;
	u32 active, i;

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
	END_BRANCHES();
	n = count_up(n);
	if (n >= TIX_NODES_MAX)
		return 0;
	for (i = tix_unknown(0, n); i < FUNDS[n].nr_edges && i < FUND_FUNDERS && can_loop; i++) {
		END_BRANCHES();
		count_up(FUNDS[n].edge[i].issuer);
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

/* How far a member of currency `up` is ahead of its siblings, in virtual time. */
static __always_inline s64 lead_of_member(const struct tix_account *a, const struct tix_account *up)
{
	return in_vtime(ahead_ns(a->served, up->mean, a->amount), a->inverse_all);
}

/* Where node `n` is in virtual time. */
static __noinline u64 place_of(u32 n)
{
	struct tix_account *a = &ACCOUNTS[n < TIX_NODES_MAX ? n : 0];
	u64 at = 0;

	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		at += lead_of_member(a, &ACCOUNTS[a->above]);
		a = &ACCOUNTS[a->above];
	}
	return at + a->vtime;
}

/* The account that node `n` uses from has used `ns` more, or less. */
static __noinline void shift_top(u32 n, s64 ns)
{
	struct tix_account *top = top_of(n);

	if (top->inverse_all)
		account_add(&top->vtime, in_vtime(ns, top->inverse_all));
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
static __always_inline void move_busy(struct tix_account *a, u32 above, u64 clock)
{
	u32 was = a->busy_in;

	a->busy_in = above;
	while (above && above < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[above];
		if (__sync_fetch_and_add(&a->nr_busy, 1))
			break;
		a->busy_in = above = a->above;
		if (!above && (s64)(a->vtime - clock) < 0)
			a->vtime = clock;
	}
	while (was && was < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[was];
		if (__sync_fetch_and_add(&a->nr_busy, -1) != 1)
			break;
		was = a->busy_in;
	}
}

/*
 * The tickets of node `n` have changed. One that holds a soft ticket of one currency, and nothing else,
 * is a member of that, and begins at its siblings' mean. Any other stays at `place`. What it is ahead
 * there by an account of its own is its currency's from now on, or was until now; of a node that
 * `is_dead` it is currency `funder`'s, which had funded it. Else whoever changes tickets often would
 * be owed again what has been had.
 */
__noinline int tix_join(u32 n, u64 place, u32 funder, bool is_dead)
{
	u64 clock = CPU(bpf_get_smp_processor_id())->queue.clock, by;
	u32 was, above = 0;
	struct tix_account *a;
	struct fund_node *f;
	s64 lag = 0, off;

	USES_ARENA();
	BEGIN_LOOPS();
	if (n >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[n];
	f = &FUNDS[n];
	by = a->inverse_all;
	was = a->above;
	if (f->nr_edges == 1 && !f->hard && !f->delta)
		above = f->edge[0].issuer;
	if (above >= TIX_NODES_MAX)
		return 0;
	above = tix_unknown(above, place);
	if (by)
		lag = within(unweighed(place - clock, by), DEBT_NS);
	/* A node that sleeps is owed nothing, and if it is a member it has no part in what its currency owes. */
	if (!a->nr_busy && (was || lag < 0))
		lag = 0;
	lag = tix_unknown(lag, place);
	END_BRANCHES();
	if (is_dead) {
		if (!was && funder && lag > 0)
			shift_top(funder, lag);
	} else if (above != was && above) {
		a->served = ACCOUNTS[above].mean;
	} else if (above) {
		off = scaled(a->served - ACCOUNTS[above].mean, a->amount, f->edge[0].amount);
		a->served = ACCOUNTS[above].mean + off;
	} else if (was) {
		a->vtime = by ? place : clock;
	}
	END_BRANCHES();
	if (above != was) {
		a->inverse_all = above ? 0 : by;
		a->above = above;
		if (a->nr_busy)
			move_busy(a, above, clock);
		END_BRANCHES();
		if (!is_dead && !was)
			shift_top(above, lag);
		else if (!is_dead && !above)
			shift_top(was, -lag);
		END_BRANCHES();
		if (was)
			tix_count_members(was);
	}
	END_BRANCHES();
	a->amount = f->edge[0].amount;
	return tix_count_members(n);
}

#endif
