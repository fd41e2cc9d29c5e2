/* SPDX-License-Identifier: GPL-2.0-only */
/* Members of currencies, and which of them count in a mean (core/account.h). Changes are under tix_lock. */
#ifndef TIX_MEMBERS_BPF_H
#define TIX_MEMBERS_BPF_H

/* A member with that many tickets of currency `of` is active now, or no longer. */
static __always_inline void change_member(struct tix_account *of, u64 *served, u64 tickets, bool active)
{
	if (active) {
		join_mean(served, &of->mean, of->tickets, tickets, slice_ns);
		of->tickets += tickets;
	} else {
		of->tickets -= tickets;
		leave_mean(*served, &of->mean, of->tickets, tickets);
	}
}

/* Members are counted where they are active, from node `n` upwards. */
static __noinline void count_members_locked(u32 n)
{
	struct tix_account *a;
	u32 active;

	if (n >= TIX_NODES_MAX)
		return;
	a = &ACCOUNTS[n];
	active = NODES[n].self_active;
	if (active != a->own_is_counted) {
		a->own_is_counted = active;
		change_member(a, &a->own_served, FUND_SELF, active);
	}
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		active = FUNDS[n].nr_active > 0;
		if (active == a->is_counted)
			break;
		a->is_counted = active;
		change_member(&ACCOUNTS[a->above], &a->served, a->amount, active);
		n = a->above;
		a = &ACCOUNTS[n];
	}
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
static __always_inline void leave_above_locked(u32 n)
{
	struct tix_account *a = &ACCOUNTS[n];

	if (a->is_counted && a->above < TIX_NODES_MAX) {
		a->is_counted = 0;
		change_member(&ACCOUNTS[a->above], &a->served, a->amount, false);
	}
}

/*
 * They have: one that holds a soft ticket of one currency, and nothing else, is a member of that. Who was no
 * member before, or is none any longer, is where it was as far as can be told.
 */
static __noinline void join_above_locked(u32 n)
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
		a->lag_vtime = a->inverse_all = 0;
		a->above = above;
		if (was)
			count_members_locked(was);
	}
	a->amount = f->edge[0].amount;
	count_members_locked(n);
}

#endif
