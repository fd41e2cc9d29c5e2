/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every invariant of funding.h and exchange.h, against model_funding.h.
 *
 * What is kept as sums equals the sums; what is kept as values equals what a graph that
 * never looked at one before would compute, bit for bit, and the model's values as closely
 * as model.md §3 promises. Look-ups for the checker's sake happen in copies: in the graph
 * itself only what an input looks at is fresh.
 */
#ifndef TIX_CHECK_FUNDING_H
#define TIX_CHECK_FUNDING_H

#include "model_funding.h"

struct graph {
	struct fund_graph *gr;
	struct fund_node *nodes;	/* as many as there are, not one more */
	u32 nr;
};

/* What the scheduler keeps from its last look at a node (tix_update_value()). */
struct kept {
	u64 ver, issued, value;
	bool any;
};

/* What only moves on. */
struct before {
	u64 epoch, unit, ver[NODES];
};

static struct graph graph_new(u32 nr)
{
	return (struct graph){ zeroed(sizeof(struct fund_graph)),
			       zeroed(nr * sizeof(struct fund_node)), nr };
}

static void graph_free(struct graph *g)
{
	free(g->gr);
	free(g->nodes);
}

static void graph_copy(struct graph *to, const struct graph *from)
{
	*to->gr = *from->gr;
	memcpy(to->nodes, from->nodes, from->nr * sizeof(*from->nodes));
}

/* What follows from who is funded by whom and who is active, and what was written. */
static void check_sums(const struct graph *g, const struct model *m)
{
	const struct fund_graph *gr = g->gr;
	s64 resting = g->nodes[FUND_BASE].rest + g->nodes[FUND_BASE].soft_rest, given = 0;

	for (u32 n = 0; n < g->nr; n++) {
		const struct fund_node *node = &g->nodes[n];
		const struct follows *f = &m->of[n];
		const struct told *t = &m->told[n];

		EQUAL(node->nr_active, f->nr_active, "active tickets of node %u", n);
		EQUAL(node->issued, f->issued, "sum of the active soft tickets of node %u", n);
		EQUAL(node->hard_issued, f->hard_issued, "hard tickets of node %u", n);
		EQUAL(node->hard_active, f->hard_active, "active hard tickets of node %u", n);
		EQUAL(node->rest, f->rest, "what rests with node %u", n);
		EQUAL(node->soft_rest, f->soft_rest, "what rests with the soft tickets of node %u", n);
		EQUAL(node->gave, f->gave, "what node %u gave to its funders", n);
		EQUAL(node->delta, t->delta * (1ll << FUND_DELTA_LOG), "exchange tickets of node %u", n);
		EQUAL(node->nr_edges, t->nr_edges, "tickets of node %u", n);
		EQUAL(node->hard, t->hard, "which tickets of node %u are hard", n);
		for (u32 i = 0; i < t->nr_edges; i++) {
			EQUAL(node->edge[i].issuer, t->edge[i].issuer, "issuer %u of node %u", i, n);
			EQUAL(node->edge[i].amount, t->edge[i].amount, "amount %u of node %u", i, n);
			EQUAL(node->part[i], t->part[i], "part %u of node %u", i, n);
		}
		given += node->delta;
		if (f->active && n != FUND_BASE)
			resting += node->delta + node->rest + node->soft_rest;
	}
	EQUAL(gr->deltas, m->deltas, "exchange tickets of all nodes");
	EQUAL(resting, given, "exchange tickets of active nodes and what rests with them are all there are");
	EQUAL(gr->moved, 0, "changes of base are settled");
	EQUAL(gr->depth, 0, "depth of the stack");
}

/* Scale and rate: in bounds, and what they would be computed as now. */
static void check_rate(const struct graph *g, struct graph *copy, bool settled)
{
	struct fund_graph *gr = copy->gr;
	struct fund_node *base = &copy->nodes[FUND_BASE];

	HOLDS(g->gr->scale_log <= 60, "scale_log %u leaves room for values", g->gr->scale_log);
	HOLDS(g->gr->rate >= 1ull << 32 && g->gr->rate <= 2ull << (32 + FUND_GAP_LOG),
	      "rate %#llx: the scale is 1 ... 2^17 times what is active", (unsigned long long)g->gr->rate);
	if (!settled)
		return;
	graph_copy(copy, g);
	fund_rate(gr, base);
	EQUAL(gr->rate, g->gr->rate, "the rate is up to date");
	EQUAL(gr->scale_log, g->gr->scale_log, "the scale is up to date");
	EQUAL(gr->machine, g->gr->machine, "machine is up to date");
	EQUAL(gr->whole, g->gr->whole, "whole is up to date");
	EQUAL(gr->whole_by, g->gr->whole_by, "whole_by is up to date");
	EQUAL(gr->whole_more, g->gr->whole_more, "whole_more is up to date");
	EQUAL(gr->unit, g->gr->unit, "unit is up to date");
	EQUAL(gr->epoch, g->gr->epoch, "the epoch is that of the last change of base");
	EQUAL(base->value, g->nodes[FUND_BASE].value, "value of base is up to date");
	EQUAL(base->ver, g->nodes[FUND_BASE].ver, "ver of base is up to date");
}

/* Versions move on, and nothing claims to be newer than the graph. */
static void check_versions(const struct graph *g, struct before *before)
{
	HOLDS(g->gr->epoch >= before->epoch, "the epoch moves on");
	HOLDS(g->gr->unit >= before->unit, "unit moves on");
	before->epoch = g->gr->epoch;
	before->unit = g->gr->unit;
	for (u32 n = 0; n < g->nr; n++) {
		struct fund_node *node = &g->nodes[n];
		u64 origin = fund_origin(g->gr, g->nodes, node);

		HOLDS(node->ver >= before->ver[n], "ver of node %u moves on", n);
		HOLDS(node->epoch <= g->gr->epoch, "epoch of node %u, %llu, is not beyond the graph's", n,
		      (unsigned long long)node->epoch);
		HOLDS(node->seen == ~0ull || node->seen <= origin,
		      "node %u saw funders of versions %llu that are of %llu", n,
		      (unsigned long long)node->seen, (unsigned long long)origin);
		before->ver[n] = node->ver;
	}
}

/* Within 10^-6 of itself or 10^-9 of the whole. */
static void check_close(u64 got, long double exact, const char *what, u32 n)
{
	long double x = (long double)got / FUND_ONE, e;

	if (exact > 1)
		exact = 1;
	e = x > exact ? x - exact : exact - x;
	HOLDS(e <= 1e-9L || e <= exact * 1e-6L, "%s node %u: expected %.12Lg of the machine, got %.12Lg",
	      what, n, exact, x);
}

/* model.md §3, 4: what an issuer's tickets are worth is no more than the issuer. */
static void check_upper_limit(struct graph *g, const struct model *m, u32 issuer)
{
	struct fund_node *node = &g->nodes[issuer];
	u64 soft = m->told[issuer].running ? fund_self_value(g->gr, g->nodes, issuer) : 0, hard = 0;
	u64 pool = fund_soft_value(g->gr, node), whole = fund_whole(g->gr, g->nodes, issuer);

	for (u32 n = 0; n < g->nr; n++) {
		struct fund_node *holder = &g->nodes[n];

		for (u32 i = 0; m->of[n].active && i < holder->nr_edges; i++) {
			if (holder->edge[i].issuer != issuer)
				continue;
			if (is_hard(&m->told[n], i))
				hard += fund_ticket_value(g->gr, g->nodes, holder, i);
			else
				soft += fund_ticket_value(g->gr, g->nodes, holder, i);
		}
	}
	if (node->issued) {
		HOLDS(soft <= pool, "soft tickets of node %u are worth %#llx of %#llx", issuer,
		      (unsigned long long)soft, (unsigned long long)pool);
		hard += pool;
		if (node->soft_rest > 0)
			whole += fund_of_machine(g->gr, node->soft_rest);
	}
	HOLDS(hard <= whole, "tickets of node %u are worth %#llx of %#llx", issuer,
	      (unsigned long long)hard, (unsigned long long)whole);
}

static void check_against_model(struct graph *g, const struct model *m, u32 n)
{
	u64 value = fund_whole(g->gr, g->nodes, n);

	if (n != FUND_BASE) {
		check_close(fund_share(g->gr, value), m->of[n].whole, "value of", n);
		check_upper_limit(g, m, n);
	}
	if (m->told[n].running)
		check_close(fund_share(g->gr, fund_self_value(g->gr, g->nodes, n)),
			    m->of[n].pool * FUND_SELF / m->of[n].issued, "threads of", n);
}

/* model.md §3, 1: all there is, and nothing else, is given to those who run. */
static void check_conserved(struct graph *g, const struct model *m)
{
	long double sum = 0, due = 1, e;
	u64 total = m->total ? m->total : m->of[FUND_BASE].issued;

	if (m->bounded || !m->of[FUND_BASE].active)
		return;
	for (u32 n = 0; n < g->nr; n++) {
		due += (long double)m->told[n].delta / FUND_HARD / (total ? total : 1);
		if (m->told[n].running)
			sum += (long double)fund_share(g->gr, fund_self_value(g->gr, g->nodes, n)) /
			       FUND_ONE;
	}
	if (due > 1 + 1e-9L)
		return;		/* a positive ticket whose counterpart is not there */
	e = sum > due ? sum - due : due - sum;
	HOLDS(e <= 1e-6L, "the values of who runs: expected %.12Lg together, got %.12Lg", due, sum);
}

/* Values are the same whether they were looked at before or not, and right. */
static void check_values(const struct graph *g, const struct model *m, struct graph *a,
			 struct graph *b, u32 from)
{
	graph_copy(a, g);
	graph_copy(b, g);
	for (u32 n = 1; n < g->nr; n++) {
		b->nodes[n].epoch = 0;
		b->nodes[n].seen = ~0ull;
		b->nodes[n].value = ~0ull;
	}
	overflowed = false;
	for (u32 at = 0; at < g->nr; at++) {
		u32 n = (at + from) % g->nr, root = m->order[at];
		u64 value;

		if (m->of[n].active) {
			fund_refresh(a->gr, a->nodes, n);
			EQUAL(a->nodes[n].epoch, a->gr->epoch, "node %u is fresh", n);
			value = a->nodes[n].value;
			fund_refresh(a->gr, a->nodes, n);
			EQUAL(a->nodes[n].value, value, "a second look at node %u", n);
		}
		if (m->of[root].active)
			fund_refresh(b->gr, b->nodes, root);
	}
	for (u32 n = 0; n < g->nr; n++) {
		if (!m->of[n].active)
			continue;
		EQUAL(a->nodes[n].value, b->nodes[n].value,
		      "the kept value of node %u is what would be computed now", n);
		HOLDS(fund_share(a->gr, a->nodes[n].value) <= FUND_ONE, "share of node %u", n);
		if (m->there_is)
			check_against_model(b, m, n);
	}
	if (m->there_is) {
		check_conserved(b, m);
		HOLDS(!overflowed, "no product is too large");
	}
}

/* The scheduler computes a share again when ver or issued is another one, and at no other time. */
static void check_kept(struct graph *g, const struct model *m, u32 n, struct kept *kept)
{
	struct fund_node *node = &g->nodes[n];
	u64 value;

	if (!m->told[n].running)
		return;
	value = fund_self_value(g->gr, g->nodes, n);
	if (kept->any && kept->ver == node->ver && kept->issued == node->issued)
		EQUAL(value, kept->value, "threads of node %u, of the same ver and issued", n);
	*kept = (struct kept){ node->ver, node->issued, value, true };
}

#endif
