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

struct fund_graph {
	u64 epoch;
	u32 stack[FUND_EDGES_MAX];	/* scratch */
	u32 old[FUND_FUNDERS];		/* scratch of who replaces funders */
};

/* amount / sum in Q62, rounded down; amount <= sum. */
TIX_INLINE u64 fund_ratio(u64 amount, u64 sum)
{
	u64 hi, rem;

	while (sum >> 32 && can_loop) {
		sum >>= 1;
		amount >>= 1;
	}
	if (!sum)
		return 0;
	if (amount >= sum)
		return FUND_ONE;
	hi = (amount << 31) / sum;
	rem = (amount << 31) - hi * sum;
	return (hi << 31) | ((rem << 31) / sum);
}

/*
 * `delta` is +1 or -1: one ticket of `amount` that `n` issued became active or ceased
 * to be; goes up as far as somebody's activity changes.
 */
TIX_INLINE void fund_shift(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes,
			   u32 n, u64 amount, bool active)
{
	u32 sp = 0, i;
	struct fund_node TIX_MEM *node = &nodes[n];

	gr->epoch++;
	node->ver++;
	node->issued += active ? amount : -amount;
	node->nr_active += active ? 1 : -1;
	if (node->nr_active != (active ? 1 : 0))
		return;
	gr->stack[sp++] = n;
	while (sp && can_loop) {
		node = &nodes[gr->stack[--sp]];
		for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++) {
			u32 up = node->edge[i].issuer;
			struct fund_node TIX_MEM *issuer = &nodes[up];

			issuer->ver++;
			issuer->issued += active ? (u64)node->edge[i].amount
						 : -(u64)node->edge[i].amount;
			issuer->nr_active += active ? 1 : -1;
			if (issuer->nr_active == (active ? 1 : 0) && sp < FUND_EDGES_MAX)
				gr->stack[sp++] = up;
		}
	}
}

/* Threads directly in `n` became runnable, or none is any longer. */
TIX_FN void fund_self(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes, u32 n,
		      bool active)
{
	fund_shift(gr, nodes, n, FUND_SELF, active);
}

/* Recompute `n` from funders that are fresh. */
TIX_INLINE void fund_compute(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes, u32 n)
{
	struct fund_node TIX_MEM *node = &nodes[n];
	u64 seen = 0, value = 0;
	u32 i;

	node->epoch = gr->epoch;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		seen += nodes[node->edge[i].issuer].ver;
	if (seen == node->seen)
		return;
	node->seen = seen;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++) {
		struct fund_node TIX_MEM *issuer = &nodes[node->edge[i].issuer];

		value += tix_mul_q62(issuer->value, fund_ratio(node->edge[i].amount, issuer->issued));
	}
	if (value != node->value) {
		node->value = value;
		node->ver++;
	}
}

/* Make the value of `n` and of all it depends on fresh; `n` must be active. */
TIX_FN void fund_refresh(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes, u32 n)
{
	u32 sp = 0, i, top, up;

	if (nodes[n].epoch == gr->epoch)
		return;
	gr->stack[sp++] = n;
	while (sp && can_loop) {
		bool pushed = false;

		top = gr->stack[(sp - 1) & (FUND_EDGES_MAX - 1)];
		for (i = 0; i < nodes[top].nr_edges && i < FUND_FUNDERS && can_loop; i++) {
			up = nodes[top].edge[i].issuer;
			if (up == FUND_BASE || nodes[up].epoch == gr->epoch)
				continue;
			if (sp < FUND_EDGES_MAX) {
				gr->stack[sp++] = up;
				pushed = true;
				break;
			}
		}
		if (pushed)
			continue;
		fund_compute(gr, nodes, top);
		sp--;
	}
}

/* The share of the threads directly in `n`, Q62, after fund_refresh(). */
TIX_INLINE u64 fund_self_value(struct fund_node TIX_MEM *node)
{
	if (node->issued == FUND_SELF)
		return node->value;
	return tix_mul_q62(node->value, fund_ratio(FUND_SELF, node->issued));
}

/*
 * Replace the tickets that back `n`. Whatever is active moves from the old issuers to
 * the new ones. `ver` of holders below is reached through `n` itself.
 */
TIX_INLINE void fund_detach(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes, u32 n)
{
	struct fund_node TIX_MEM *node = &nodes[n];
	u32 i;

	gr->epoch++;
	if (!node->nr_active)
		return;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		fund_shift(gr, nodes, node->edge[i].issuer, node->edge[i].amount, false);
}

/* The second half: `n` has its new edges. `seen` is spoilt so that the value follows. */
TIX_INLINE void fund_attach(struct fund_graph TIX_MEM *gr, struct fund_node TIX_MEM *nodes, u32 n)
{
	struct fund_node TIX_MEM *node = &nodes[n];
	u32 i;

	gr->epoch++;
	node->seen = ~0ull;
	if (!node->nr_active)
		return;
	for (i = 0; i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		fund_shift(gr, nodes, node->edge[i].issuer, node->edge[i].amount, true);
}

#endif
