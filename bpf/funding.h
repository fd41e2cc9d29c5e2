/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activity and values of the funding graph in fixed point (Sullivan §2.2, §4.3).
 *
 * A node is a currency. Its value is kept as a fraction of the machine: V / T in Q62
 * (2^62 is everything base has issued). A ticket counts while its holder is active; a
 * node is active while a ticket it issued is, or while threads directly in it are
 * runnable: those form the hidden leaf `.self`, which holds FUND_SELF tickets.
 *
 *     value(ticket) = value(issuer) * amount / sum of the issuer's active amounts
 *     value(node)   = sum of its tickets' values
 *
 * Values are recomputed only when looked at. A change of activity moves on the `ver`
 * of the issuers concerned and the graph's epoch; a look-up in the same epoch costs
 * one comparison, a later one walks the node's own ancestors (at most FUND_EDGES_MAX
 * edges, whatever the size of the graph) and recomputes those whose funders moved on.
 *
 * Example: base issues 300 to alice and 100 to bob. Both active: alice 3/4. Bob
 * sleeps: base's active sum becomes 300, alice is worth everything. In a currency
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
	u64 value;		/* V / T, Q62; valid when epoch is the graph's */
	u64 epoch;
	u64 ver;		/* moves on when value or issued changes */
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
	u32 depth;			/* entries on the stack */
	u32 pad;
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
 * The tickets that back `n` became active, or ceased to be; goes on upwards as far as
 * that changes somebody's activity.
 */
TIX_FN void fund_cascade(struct fund_graph *gr, struct fund_node *nodes, u32 n, bool active)
{
	gr->epoch++;
	gr->depth = 0;
	fund_push(gr, n);
	while (gr->depth && can_loop) {
		u32 at = (gr->depth - 1) & (FUND_EDGES_MAX - 1), i = gr->cursor[at];
		struct fund_node *node = &nodes[gr->stack[at]], *issuer;
		u64 amount;

		if (i >= node->nr_edges || i >= FUND_FUNDERS) {
			gr->depth--;
			continue;
		}
		gr->cursor[at] = i + 1;
		amount = node->edge[i].amount;
		issuer = &nodes[node->edge[i].issuer];
		issuer->ver++;
		if (active) {
			issuer->issued += amount;
			if (!issuer->nr_active++)
				fund_push(gr, node->edge[i].issuer);
		} else {
			issuer->issued -= amount;
			if (!--issuer->nr_active)
				fund_push(gr, node->edge[i].issuer);
		}
	}
}

/* Threads directly in `n` became runnable, or none is any longer. */
TIX_FN void fund_self(struct fund_graph *gr, struct fund_node *nodes, u32 n,
		      bool active)
{
	struct fund_node *node = &nodes[n];

	gr->epoch++;
	node->ver++;
	if (active) {
		node->issued += FUND_SELF;
		if (!node->nr_active++)
			fund_cascade(gr, nodes, n, true);
	} else {
		node->issued -= FUND_SELF;
		if (!--node->nr_active)
			fund_cascade(gr, nodes, n, false);
	}
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
		struct fund_node *issuer = &nodes[node->edge[i].issuer];

		value += tix_mul_q62(issuer->value, fund_ratio(node->edge[i].amount, issuer->issued));
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

/* The share of the threads directly in `n`, Q62, after fund_refresh(). */
TIX_INLINE u64 fund_self_value(struct fund_node *node)
{
	if (node->issued == FUND_SELF)
		return node->value;
	return tix_mul_q62(node->value, fund_ratio(FUND_SELF, node->issued));
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
