/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activity and values of the funding graph in fixed point (Sullivan §2.2, §4.3; model.md
 * §2, §3, §5).
 *
 * A node is a currency. A ticket counts while its holder is active; a node is active
 * while a ticket it issued is, or while threads directly in it are runnable: those form
 * the hidden leaf `.self`, which holds FUND_SELF tickets.
 *
 *     value(soft ticket) = value(issuer) * amount / sum of the issuer's active amounts
 *     value(node)        = sum of its tickets' values
 *
 * A hard ticket is thousandths of its issuer (Sullivan §2.4). The soft tickets of an issuer
 * of hard ones share what those leave, s = 1000 - all hard ones, active or not: beside active
 * hard tickets of `hard` together the soft ones are worth value(issuer) * s / D, a hard one
 * value(issuer) * h / D, with D = hard + s, or hard if no soft one is active. So what an
 * idle hard share leaves goes to the others, and is back as soon as its holder is.
 *
 * Values are kept in Q62 of `scale` base tickets, a power of two at or above the active
 * ones: they stay as they are when base's holders come and go, and what changes is the
 * `rate`, scale / active tickets of base. The share of the machine is value * rate. Virtual
 * time is counted in that unit, too, so the scale moves as seldom as can be: where all tags
 * that are ahead of V or behind were suddenly worth something else, shares would be.
 * Hard tickets of base and exchange tickets (exchange.h) are parts of the machine, and
 * worth something else in that unit whenever the rate moves; `unit` counts how often.
 *
 * Values are recomputed only when looked at. A change of activity that moves shares of an
 * issuer moves on its `ver` and the graph's epoch; a look-up in the same epoch costs
 * one comparison, a later one walks the node's own ancestors (at most FUND_EDGES_MAX
 * edges, whatever the size of the graph) and recomputes those whose funders moved on.
 *
 * Example: base issues 300 to alice and 100 to bob. Both active: alice 3/4. Bob
 * sleeps: base's active sum becomes 300, alice gets everything; her value is 300/scale all
 * the time, the rate went from scale/400 to scale/300. In a currency
 * that issued 1 and 2 tickets to its two jobs, each gets a third and two thirds of
 * whatever the currency is worth at that moment. Base issues 250 thousandths to carol: she
 * gets 1/4, alice 3/4 * 3/4. Bob sleeps: carol 1/4, alice 3/4.
 *
 * Limits: FUND_FUNDERS tickets per node, and the caller refuses cycles (a cycle would
 * end the walk at its bound, with a wrong value, not with a loop).
 *
 * The caller serialises all calls.
 */
#ifndef TIX_FUNDING_H
#define TIX_FUNDING_H

#include "arch.h"

/* In BPF a function of its own, which the verifier looks at once: not where a lock of BPF's is held. */
#ifdef __bpf__
#define FUND_FN __attribute__((noinline))
#define FUND_ARENA __arg_arena	/* it is told so anew: */
#define FUND_HERE(p) asm("%0 = addr_space_cast(%0, 0x0, 0x1)" : "+r"(p))
#else
#define FUND_FN static __attribute__((unused))
#define FUND_ARENA
#define FUND_HERE(p) ((void)0)
#endif

#define FUND_ONE (1ull << 62)
#define FUND_FUNDERS 16u
#define FUND_EDGES_MAX 256u
#define FUND_SELF 100u		/* tickets of the hidden leaf, as cpu.weight's default */
#define FUND_BASE 0u		/* index of the base currency */
#define FUND_HARD 1000u		/* hard tickets of this many are all of their issuer */
#define FUND_SOFT_MIN 50u	/* of these the soft tickets of base keep at least (model.md §3) */
/*
 * The scale is at most 2^this times what is active, that rounded up to a power of two. A
 * larger gap would leave fewer bits to small shares (INVERSE_MAX).
 */
#define FUND_GAP_LOG 16u

struct fund_edge {
	u32 issuer;
	u32 amount;		/* soft: 1 ... 2^31; hard: thousandths of the issuer, 1 ... 999 */
};

struct fund_node {
	u64 value;		/* in Q62 of scale; valid when epoch is the graph's */
	u64 epoch;
	u64 ver;		/* moves on when the value of what it issued changes */
	u64 seen;		/* sum of the funders' ver that value was computed from */
	u64 issued;		/* sum of the amounts of the active soft tickets it issued */
	u32 nr_active;		/* number of active ones; the node is active while > 0 */
	u32 nr_edges;
	u32 hard_issued;	/* thousandths it issued as hard tickets, active or not */
	u32 hard_active;	/* of those, the active ones */
	/* exchange.h, in 2^-16 thousandths of a base ticket */
	s64 delta;		/* exchange tickets it holds */
	s64 rest;		/* those of inactive parties that rest with it */
	s64 soft_rest;		/* and with its soft tickets */
	s64 gave;		/* what of these rests with its funders, while it is inactive */
	struct fund_edge edge[FUND_FUNDERS];
	u16 part[FUND_FUNDERS];	/* in which proportion what it gives rests with them */
	u16 hard;		/* bit i: edge[i] is a hard ticket */
};

/*
 * The state of a walk is kept in memory, not in registers: so the BPF verifier sees one
 * loop over values that it does not know, instead of one path per depth.
 */
struct fund_graph {
	u64 epoch;
	u64 rate;			/* scale / active tickets of base, Q32.32 */
	u64 unit;			/* moves on when what parts of the machine are worth changes */
	u64 machine;			/* all there is, 1 / rate, in Q62 of scale */
	u64 whole;			/* what a party with exchange tickets for all of it would hold ... */
	u32 whole_by;			/* ... shifted right by this, to fit */
	u32 whole_more;			/* by how much more, to be divided by */
	u32 scale_log;			/* scale = 2^this: the base tickets that values are counted against */
	u64 total;			/* soft tickets of base, active or not; 0: not told */
	u64 deltas;			/* exchange tickets of all nodes, without their signs */
	u32 divisor;			/* of base */
	u32 moved;			/* base's tickets or what rests with it did */
	u32 locked;			/* the environment's */
	u32 depth;			/* entries on the stack */
	u32 stack[FUND_EDGES_MAX];	/* nodes on the way */
	u32 cursor[FUND_EDGES_MAX];	/* the next edge of each to look at */
};

TIX_INLINE u64 fund_size(s64 x)
{
	return x < 0 ? -(u64)x : (u64)x;
}

/* `size` with the sign of x. */
TIX_INLINE u64 fund_like(s64 x, u64 size)
{
	u64 mask = x >> 63;

	return (size ^ mask) - mask;
}

/* amount / sum in Q62, rounded down; amount <= sum. */
FUND_FN u64 fund_ratio(u64 amount, u64 sum)
{
	u64 hi, rem, ratio = 0;

	if (sum >> 32) {
		u32 by = tix_fls64(sum) - 31;

		sum >>= by;
		amount >>= by;
	}
	if (sum) {
		ratio = FUND_ONE;
		if (amount < sum) {
			hi = (amount << 31) / sum;
			rem = (amount << 31) - hi * sum;
			ratio = (hi << 31) | ((rem << 31) / sum);
		}
	}
	return ratio;
}

TIX_INLINE void fund_push(struct fund_graph *gr, u32 n)
{
	u32 at = gr->depth & (FUND_EDGES_MAX - 1);

	gr->stack[at] = n;
	gr->cursor[at] = 0;
	gr->depth++;
}

/* What the soft tickets of an issuer are worth together, in thousandths. */
TIX_INLINE u32 fund_soft(const struct fund_node *node, u32 least)
{
	return node->hard_issued + least < FUND_HARD ? FUND_HARD - node->hard_issued : least;
}

/* By how many thousandths an issuer is divided: all that is active. */
TIX_INLINE u32 fund_divisor(const struct fund_node *node, u32 soft)
{
	return node->hard_active + (node->issued ? soft : 0);
}

/*
 * Move the scale no further than to where it is 2^log ... 2^(log + FUND_GAP_LOG). A holder that
 * comes and goes again and again moves it the first time, unless it has 2^FUND_GAP_LOG
 * times as many tickets as all the others.
 */
TIX_INLINE void fund_rescale(struct fund_graph *gr, struct fund_node *base, u32 log)
{
	if (gr->scale_log >= log && gr->scale_log <= log + FUND_GAP_LOG)
		return;
	gr->scale_log = gr->scale_log < log ? log : log + FUND_GAP_LOG;
	base->ver++;
	gr->epoch++;
}

#include "exchange.h"

/* Base's active tickets are others now. */
FUND_FN int fund_rate(struct fund_graph *gr FUND_ARENA, struct fund_node *base FUND_ARENA)
{
	FUND_HERE(gr);
	FUND_HERE(base);
	u64 active = base->issued, m;
	u32 log;
	s32 e = 0;

	if (base->hard_active || gr->deltas) {
		return fund_rate_of_parts(gr, base);
	}
	base->value = FUND_ONE;	/* or more: what counts is amounts */
	if (!active)
		return 0;
	log = tix_fls64(active);
	fund_rescale(gr, base, log + (1ull << log < active));
	m = fund_normal(active, &e);
	gr->rate = fund_quotient(1ull << 48, m) >> (78 + e - (s32)gr->scale_log);
	return 0;
}

/*
 * An issuer has one active ticket more, or less, of `amount`. Returns whether it became
 * active or ceased to be. Beside no other a ticket is worth all that the issuer is; so
 * values move only where there are others.
 */
TIX_INLINE bool fund_count(struct fund_graph *gr, struct fund_node *nodes, u32 n, u64 amount,
			   bool hard, bool active)
{
	struct fund_node *node = &nodes[n];
	u32 was = node->nr_active;
	bool turned = was == !active;

	amount = tix_signed(amount, active);
	if (hard)
		node->hard_active += amount;
	else
		node->issued += amount;
	node->nr_active = was + tix_signed(1, active);
	if (n == FUND_BASE) {
		gr->moved = 1;
	} else if (!turned) {
		node->ver++;
		gr->epoch++;
	}
	return turned;
}

/*
 * The tickets that back `n` became active, or ceased to be; goes on upwards as far as
 * that changes somebody's activity. What rests with the funders of `n` is the caller's
 * business.
 */
FUND_FN int fund_cascade(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n, bool active)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
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
		if (fund_count(gr, nodes, issuer, node->edge[i].amount, node->hard >> i & 1,
			       active)) {
			if (gr->deltas)
				fund_give(gr, nodes, issuer, !active);
			fund_push(gr, issuer);
		}
	}
	return 0;
}

/* After a change: bring the rate up to date. */
TIX_INLINE int fund_settle(struct fund_graph *gr, struct fund_node *nodes)
{
	if (!gr->moved)
		return 0;
	gr->moved = 0;
	return fund_rate(gr, &nodes[FUND_BASE]);
}

/* The value of base tickets. */
TIX_INLINE u64 fund_of_base(const struct fund_graph *gr, u64 amount)
{
	return amount << (62 - gr->scale_log);
}

/* What an issuer's active hard tickets leave to its soft ones. */
FUND_FN u64 fund_soft_value(const struct fund_graph *gr FUND_ARENA, const struct fund_node *node FUND_ARENA)
{
	FUND_HERE(gr);
	FUND_HERE(node);
	u64 value = node->value;
	u32 soft;

	if (node->hard_active) {
		soft = fund_soft(node, 1);
		value = tix_mul_q62(value, fund_ratio(soft, fund_divisor(node, soft)));
	}
	if (node->soft_rest)
		value = fund_plus(gr, value, node->soft_rest);
	return value;
}

/* What the hard tickets of node `n` divide with the soft ones: what rests with those, too, if none is active. */
TIX_INLINE u64 fund_whole(const struct fund_graph *gr, const struct fund_node *nodes, u32 n)
{
	const struct fund_node *node = &nodes[n];

	if (!node->soft_rest || node->issued || n == FUND_BASE)	/* base's value has it already */
		return node->value;
	return fund_plus(gr, node->value, node->soft_rest);
}

/* Value of an active hard ticket of node `n`. */
TIX_INLINE u64 fund_hard_value(const struct fund_graph *gr, const struct fund_node *nodes, u32 n,
			       u32 amount)
{
	const struct fund_node *node = &nodes[n];
	u32 soft = fund_soft(node, n == FUND_BASE ? FUND_SOFT_MIN : 1);

	return tix_mul_q62(fund_whole(gr, nodes, n), fund_ratio(amount, fund_divisor(node, soft)));
}

/* Value of active ticket `i` of `node`. */
FUND_FN u64 fund_ticket_value(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA,
			     struct fund_node *node FUND_ARENA, u32 i)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	FUND_HERE(node);
	u32 up = node->edge[i & (FUND_FUNDERS - 1)].issuer;
	u64 amount = node->edge[i & (FUND_FUNDERS - 1)].amount;

	if (node->hard >> i & 1)
		return fund_hard_value(gr, nodes, up, amount);
	if (up == FUND_BASE)
		return fund_of_base(gr, amount);
	return tix_mul_q62(fund_soft_value(gr, &nodes[up]), fund_ratio(amount, nodes[up].issued));
}

/* Moves on whenever the value of `node` may be another one. */
FUND_FN u64 fund_origin(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, struct fund_node *node FUND_ARENA)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	FUND_HERE(node);
	u64 seen = 0;
	u32 i;

	for (i = tix_unknown(0, node->issued); i < node->nr_edges && can_loop; i++)
		seen += nodes[node->edge[i].issuer].ver;
	if (node->hard || node->delta || node->rest || node->soft_rest)
		seen += gr->unit;
	return seen;
}

/* Recompute `n` from funders that are fresh. */
TIX_INLINE void fund_compute(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	struct fund_node *node = &nodes[n];
	u64 seen = fund_origin(gr, nodes, node), value = 0;
	u32 i;

	node->epoch = gr->epoch;
	if (seen == node->seen || n == FUND_BASE)
		return;
	node->seen = seen;
	for (i = tix_unknown(0, node->issued); i < node->nr_edges && can_loop; i++) {
		value += fund_ticket_value(gr, nodes, node, i);
	}
	value = fund_exchanged(gr, node, value);
	if (value != node->value || node->soft_rest) {
		node->value = value;
		node->ver++;
	}
}

/* Recompute `n` after all that it depends on, its funders first. */
FUND_FN int fund_walk(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
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
	return 0;
}

/* Make the value of `n` and of all it depends on fresh; `n` must be active. */
TIX_INLINE void fund_refresh(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	if (nodes[n].epoch != gr->epoch)
		fund_walk(gr, nodes, n);
}

/* Threads directly in `n` became runnable, or none is any longer. */
TIX_INLINE void fund_self(struct fund_graph *gr, struct fund_node *nodes, u32 n,
		      bool active)
{
	if (fund_count(gr, nodes, n, FUND_SELF, false, active)) {
		if (gr->deltas)
			fund_give(gr, nodes, n, !active);
		fund_cascade(gr, nodes, n, active);
	}
	fund_settle(gr, nodes);
}

/* The value of the threads directly in `n`, after fund_refresh(). */
FUND_FN u64 fund_self_value(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	struct fund_node *node = &nodes[n];

	if (n == FUND_BASE)
		return fund_of_base(gr, FUND_SELF);
	if (node->issued == FUND_SELF)
		return fund_soft_value(gr, node);
	return tix_mul_q62(fund_soft_value(gr, node), fund_ratio(FUND_SELF, node->issued));
}

/* The part of the machine that a value stands for, Q62. */
TIX_INLINE u64 fund_share(struct fund_graph *gr, u64 value)
{
	u64 share = tix_mul_q62(value, gr->rate << (29 - FUND_GAP_LOG));

	return share > FUND_ONE >> (1 + FUND_GAP_LOG) ? FUND_ONE : share << (1 + FUND_GAP_LOG);
}

/* The graph with nothing but base in it. */
TIX_INLINE void fund_init(struct fund_graph *gr, struct fund_node *base)
{
	base->value = FUND_ONE;
	gr->machine = FUND_ONE;
	gr->whole = 1;
	gr->epoch = 1;
	gr->scale_log = 7 + FUND_GAP_LOG;	/* as high as may be with one cgroup active: it is seldom too low, then */
	gr->rate = 1ull << 32;
}

/* Hard tickets that back `n` are issued or withdrawn: the soft ones move. */
FUND_FN int fund_issue(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n, bool issue)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	struct fund_node *node = &nodes[n];
	u32 i;

	for (i = tix_unknown(0, node->issued); i < node->nr_edges && can_loop; i++) {
		struct fund_node *up = &nodes[node->edge[i].issuer];
		u32 amount = node->edge[i].amount;

		if (!(node->hard >> i & 1))
			continue;
		up->hard_issued += tix_signed(amount, issue);
		up->ver++;
		gr->moved = 1;
	}
	gr->epoch++;
	return 0;
}

/*
 * To replace the tickets that back `n`, exchange tickets included: detach, write them,
 * attach. What is active moves from the old issuers to the new ones. What an inactive node
 * gave rests with ancestors that are perhaps inactive as well and have passed it on: they
 * are active for the moment in which it changes.
 */
FUND_FN int fund_detach(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	struct fund_node *node = &nodes[n];
	bool counts = node->nr_active || node->gave;

	if (!node->nr_active && node->gave) {
		fund_give(gr, nodes, n, false);
		fund_cascade(gr, nodes, n, true);
	}
	if (counts)
		fund_cascade(gr, nodes, n, false);
	if (node->hard)
		fund_issue(gr, nodes, n, false);
	fund_settle(gr, nodes);
	gr->deltas -= fund_size(node->delta);
	return 0;
}

FUND_FN int fund_attach(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	struct fund_node *node = &nodes[n];
	bool gives = !node->nr_active && (node->delta || node->rest || node->soft_rest);

	gr->epoch++;
	node->seen = ~0ull;	/* computed from funders that it no longer has */
	gr->deltas += fund_size(node->delta);
	gr->moved = 1;		/* the deltas may have */
	if (node->hard)
		fund_issue(gr, nodes, n, true);
	if (node->nr_active || gives)
		fund_cascade(gr, nodes, n, true);
	if (gives) {
		fund_give(gr, nodes, n, true);
		fund_cascade(gr, nodes, n, false);
	}
	return fund_settle(gr, nodes);
}

#endif
