/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activity and values of the funding graph in fixed point (Sullivan §2.2, §4.3).
 *
 * A node is a currency. A ticket counts while its holder is active; a node is active
 * while a ticket it issued is, or while threads directly in it are runnable: those form
 * the hidden leaf `.self`, which holds FUND_SELF tickets.
 *
 *     value(ticket) = value(issuer) * amount / sum of the issuer's active amounts
 *     value(node)   = sum of its tickets' values
 *
 * Values are kept in Q62 of `scale` base tickets, a power of two at or above the active
 * ones: they stay as they are when base's holders come and go, and what changes is the
 * `rate`, scale / active tickets of base. The share of the machine is value * rate.
 *
 * Values are recomputed only when looked at. A change of activity that moves shares of an
 * issuer moves on its `ver` and the graph's epoch; a look-up in the same epoch costs
 * one comparison, a later one walks the node's own ancestors (at most FUND_EDGES_MAX
 * edges, whatever the size of the graph) and recomputes those whose funders moved on.
 *
 * Example: base issues 300 to alice and 100 to bob. Both active: alice 3/4. Bob
 * sleeps: base's active sum becomes 300, alice gets everything; her value is 300/512 all
 * the time, the rate went from 512/400 to 512/300. In a currency
 * that issued 1 and 2 tickets to its two jobs, each gets a third and two thirds of
 * whatever the currency is worth at that moment.
 *
 * Limits: FUND_FUNDERS tickets per node, and the caller refuses cycles (a cycle would
 * end the walk at its bound, with a wrong value, not with a loop).
 *
 * The caller serialises all calls.
 */
#ifndef TIX_FUNDING_H
#define TIX_FUNDING_H

#include "arch.h"

#define FUND_ONE (1ull << 62)
#define FUND_FUNDERS 16u
#define FUND_EDGES_MAX 256u
#define FUND_SELF 100u		/* tickets of the hidden leaf, as cpu.weight's default */
#define FUND_BASE 0u		/* index of the base currency */

struct fund_edge {
	u32 issuer;
	u32 amount;
};

struct fund_node {
	u64 value;		/* in Q62 of scale; valid when epoch is the graph's */
	u64 epoch;
	u64 ver;		/* moves on when the value of what it issued changes */
	u64 seen;		/* sum of the funders' ver that value was computed from */
	u64 issued;		/* sum of the amounts of the active tickets it issued */
	u32 nr_active;		/* number of those; the node is active while > 0 */
	u32 nr_edges;
	struct fund_edge edge[FUND_FUNDERS];
};

/*
 * The state of a walk is kept in memory, not in registers: so the BPF verifier sees one
 * loop over values that it does not know, instead of one path per depth.
 */
struct fund_graph {
	u64 epoch;
	u64 rate;			/* scale / active tickets of base, Q32.32 */
	u32 scale_log;			/* scale = 2^this: the base tickets that values are counted against */
	u32 depth;			/* entries on the stack */
	u32 stack[FUND_EDGES_MAX];	/* nodes on the way */
	u32 cursor[FUND_EDGES_MAX];	/* the next edge of each to look at */
};

/* amount / sum in Q62, rounded down; amount <= sum. */
TIX_INLINE u64 fund_ratio(u64 amount, u64 sum)
{
	u64 hi, rem;

	if (sum >> 32) {
		u32 by = tix_fls64(sum) - 31;

		sum >>= by;
		amount >>= by;
	}
	if (!sum)
		return 0;
	if (amount >= sum)
		return FUND_ONE;
	hi = (amount << 31) / sum;
	rem = (amount << 31) - hi * sum;
	return (hi << 31) | ((rem << 31) / sum);
}

TIX_INLINE void fund_push(struct fund_graph *gr, u32 n)
{
	u32 at = gr->depth & (FUND_EDGES_MAX - 1);

	gr->stack[at] = n;
	gr->cursor[at] = 0;
	gr->depth++;
}

/*
 * Base's active tickets are others now. The scale follows them with a gap, 1 ... 8 times:
 * a holder that comes and goes should not move it.
 */
TIX_FN void fund_rate(struct fund_graph *gr, struct fund_node *base)
{
	u64 active = base->issued;
	u32 by = 0;

	if (!active)
		return;
	if (active > 1ull << gr->scale_log || active << 3 < 1ull << gr->scale_log) {
		gr->scale_log = tix_fls64(active);
		if (1ull << gr->scale_log < active)
			gr->scale_log++;
		base->ver++;
		gr->epoch++;
	}
	if (gr->scale_log > 31)
		by = gr->scale_log - 31;
	gr->rate = (1ull << (gr->scale_log - by + 32)) /
		   ((active + (1ull << by) - 1) >> by);
}

/*
 * An issuer has one active ticket more, or less, of `amount`. Returns whether it became
 * active or ceased to be. Beside no other a ticket is worth all that the issuer is; so
 * values move only where there are others.
 */
TIX_INLINE bool fund_count(struct fund_graph *gr, struct fund_node *nodes, u32 n, u64 amount,
			   bool active)
{
	struct fund_node *node = &nodes[n];
	bool turned;

	if (active) {
		node->issued += amount;
		turned = !node->nr_active++;
	} else {
		node->issued -= amount;
		turned = !--node->nr_active;
	}
	if (n == FUND_BASE) {
		fund_rate(gr, node);
	} else if (!turned) {
		node->ver++;
		gr->epoch++;
	}
	return turned;
}

/*
 * The tickets that back `n` became active, or ceased to be; goes on upwards as far as
 * that changes somebody's activity.
 */
TIX_FN void fund_cascade(struct fund_graph *gr, struct fund_node *nodes, u32 n, bool active)
{
	gr->depth = 0;
	fund_push(gr, n);
	while (gr->depth && can_loop) {
		u32 at = (gr->depth - 1) & (FUND_EDGES_MAX - 1), i = gr->cursor[at];
		struct fund_node *node = &nodes[gr->stack[at]];
		u32 issuer;

		if (i >= node->nr_edges || i >= FUND_FUNDERS) {
			gr->depth--;
			continue;
		}
		gr->cursor[at] = i + 1;
		issuer = node->edge[i].issuer;
		if (fund_count(gr, nodes, issuer, node->edge[i].amount, active))
			fund_push(gr, issuer);
	}
}

/* Threads directly in `n` became runnable, or none is any longer. */
TIX_FN void fund_self(struct fund_graph *gr, struct fund_node *nodes, u32 n,
		      bool active)
{
	if (fund_count(gr, nodes, n, FUND_SELF, active))
		fund_cascade(gr, nodes, n, active);
}

/* The value of base tickets. */
TIX_INLINE u64 fund_of_base(const struct fund_graph *gr, u64 amount)
{
	return amount << (62 - gr->scale_log);
}

/* Recompute `n` from funders that are fresh. */
TIX_INLINE void fund_compute(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	struct fund_node *node = &nodes[n];
	u64 seen = 0, value = 0;
	u32 i;

	node->epoch = gr->epoch;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		seen += nodes[node->edge[i].issuer].ver;
	if (seen == node->seen)
		return;
	node->seen = seen;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++) {
		u32 up = node->edge[i].issuer;
		u64 amount = node->edge[i].amount;

		if (up == FUND_BASE)
			value += fund_of_base(gr, amount);
		else
			value += tix_mul_q62(nodes[up].value, fund_ratio(amount, nodes[up].issued));
	}
	if (value != node->value) {
		node->value = value;
		node->ver++;
	}
}

/* Make the value of `n` and of all it depends on fresh; `n` must be active. */
TIX_FN void fund_refresh(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	if (nodes[n].epoch == gr->epoch)
		return;
	gr->depth = 0;
	fund_push(gr, n);
	while (gr->depth && can_loop) {
		u32 at = (gr->depth - 1) & (FUND_EDGES_MAX - 1), i = gr->cursor[at];
		u32 me = gr->stack[at], up;

		if (i >= nodes[me].nr_edges || i >= FUND_FUNDERS) {
			fund_compute(gr, nodes, me);
			gr->depth--;
			continue;
		}
		gr->cursor[at] = i + 1;
		up = nodes[me].edge[i].issuer;
		if (up != FUND_BASE && nodes[up].epoch != gr->epoch)
			fund_push(gr, up);
	}
}

/* The value of the threads directly in `n`, after fund_refresh(). */
TIX_INLINE u64 fund_self_value(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	struct fund_node *node = &nodes[n];

	if (n == FUND_BASE)
		return fund_of_base(gr, FUND_SELF);
	if (node->issued == FUND_SELF)
		return node->value;
	return tix_mul_q62(node->value, fund_ratio(FUND_SELF, node->issued));
}

/* The part of the machine that a value stands for, Q62. */
TIX_INLINE u64 fund_share(struct fund_graph *gr, u64 value)
{
	u64 share = tix_mul_q62(value, gr->rate << 26);

	return share > FUND_ONE >> 4 ? FUND_ONE : share << 4;
}

/* The graph with nothing but base in it. */
TIX_INLINE void fund_init(struct fund_graph *gr, struct fund_node *base)
{
	base->value = FUND_ONE;
	gr->epoch = 1;
	gr->scale_log = 7;
	gr->rate = 1ull << 32;
}

/*
 * To replace the tickets that back `n`: detach, write its edges, attach. What is active
 * moves from the old issuers to the new ones.
 */
TIX_INLINE void fund_detach(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	if (nodes[n].nr_active)
		fund_cascade(gr, nodes, n, false);
}

TIX_INLINE void fund_attach(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	gr->epoch++;
	nodes[n].seen = ~0ull;	/* computed from funders that it no longer has */
	if (nodes[n].nr_active)
		fund_cascade(gr, nodes, n, true);
}

#endif
