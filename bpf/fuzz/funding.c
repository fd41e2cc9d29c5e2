/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz target for funding.h and exchange.h: threads become runnable and sleep, nodes are
 * funded, exchange and are used again for somebody else, as nodes.bpf.h and control.bpf.h
 * have it; now and then somebody's value is looked at.
 *
 * What the ledger refuses is not asked for: cycles, more ancestors than can be walked, two
 * tickets of a kind between the same two. More hard tickets than there are and exchange
 * tickets without their counterpart may come: for a moment, when changes arrive one by one.
 */
#include "check_funding.h"

struct world {
	struct graph g, a, b;	/* the one under test, and copies for the checker */
	struct model m;
	struct before before;
	struct kept kept[NODES];
	bool follow_total;	/* tell it after each change, as tixd does */
	bool wild;		/* hard tickets without limit */
	bool watched;		/* everybody is looked at all the time: what is kept is never old */
	bool settled;		/* base's rate belongs to its present state */
	u64 ops;
};

static void check(struct world *w)
{
	model_follow(&w->m);
	check_sums(&w->g, &w->m);
	check_rate(&w->g, &w->a, w->settled);
	check_versions(&w->g, &w->before);
	check_values(&w->g, &w->m, &w->a, &w->b, w->ops++);
}

static void set_total(struct world *w, u64 total)
{
	begin("total", total, 0, 0, 0);
	w->m.total = total;
	w->g.gr->total = total;
	fund_rate(w->g.gr, w->g.nodes);
}

/* Soft tickets of base, active or not. */
static u64 all_of_base(const struct model *m)
{
	u64 sum = FUND_SELF;

	for (u32 n = 0; n < m->nr; n++)
		for (u32 i = 0; i < m->told[n].nr_edges; i++)
			if (m->told[n].edge[i].issuer == FUND_BASE && !is_hard(&m->told[n], i))
				sum += m->told[n].edge[i].amount;
	return sum;
}

static bool has_holders(const struct model *m, u32 issuer)
{
	for (u32 n = 0; n < m->nr; n++)
		for (u32 i = 0; i < m->told[n].nr_edges; i++)
			if (m->told[n].edge[i].issuer == issuer)
				return true;
	return false;
}

static void write_node(struct world *w, u32 n)
{
	const struct told *t = &w->m.told[n];
	struct fund_node *node = &w->g.nodes[n];

	memcpy(node->edge, t->edge, sizeof(node->edge));
	memcpy(node->part, t->part, sizeof(node->part));
	node->nr_edges = t->nr_edges;
	node->hard = t->hard;
	node->delta = t->delta * (1ll << FUND_DELTA_LOG);
}

/* fund_locked(), or, for a node that has nothing yet, node_mirror(). */
static void back(struct world *w, u32 n, bool fresh)
{
	const struct told *t = &w->m.told[n];

	if (w->follow_total)
		set_total(w, all_of_base(&w->m));
	begin(fresh ? "mirror" : "back", n, t->nr_edges, t->hard, t->delta);
	for (u32 i = 0; doing.trace && i < t->nr_edges; i++)
		fprintf(stderr, "\t%s %u of node %u, part %u\n", is_hard(t, i) ? "hard" : "soft",
			t->edge[i].amount, t->edge[i].issuer, t->part[i]);
	if (!fresh)
		fund_detach(w->g.gr, w->g.nodes, n);
	write_node(w, n);
	fund_attach(w->g.gr, w->g.nodes, n);
	w->settled = true;
}

/* Unless exchange tickets are too many for their sum (tix_funding()). */
static void set_delta(struct world *w, u32 n, s64 delta)
{
	u64 left = FUND_DELTAS_MAX >> FUND_DELTA_LOG;

	for (u32 i = 0; i < w->m.nr; i++)
		left -= i == n ? 0 : fund_size(w->m.told[i].delta);
	if (!n || fund_size(delta) > left)
		return;
	w->m.told[n].delta = delta;
	back(w, n, false);
	check(w);
}

/* reap() */
static void retire(struct world *w, u32 n)
{
	struct told *t = &w->m.told[n];
	struct fund_node *node = &w->g.nodes[n];

	if (!n || t->running || has_holders(&w->m, n))
		return;
	begin("retire", n, 0, 0, 0);
	fund_detach(w->g.gr, w->g.nodes, n);
	node->nr_edges = 0;
	node->hard = 0;
	node->delta = 0;
	node->seen = 0;
	node->value = 0;
	node->ver++;
	t->nr_edges = 0;
	t->hard = 0;
	/* The last exchange ticket is gone, but nobody reckons without until there is a reason. */
	if (t->delta)
		w->settled = false;
	t->delta = 0;
}

static void look(struct world *w, u32 n)
{
	if (!w->m.of[n].active)
		return;
	begin("look", n, 0, 0, 0);
	fund_refresh(w->g.gr, w->g.nodes, n);
	check_kept(&w->g, &w->m, n, &w->kept[n]);
}

static void look_at_all(struct world *w, bool forwards)
{
	for (u32 i = 0; i < w->m.nr; i++)
		look(w, forwards ? i : w->m.nr - 1 - i);
}

static u32 take_node(struct world *w, struct input *in)
{
	return take(in, 1) % w->m.nr;
}

static u32 take_amount(struct input *in)
{
	u32 x = take(in, 1);

	if (x < 128)
		return 1 + x * x;	/* like cpu.weight */
	return x == 255 ? 1u << 31 : 1 + take_number(in, 31);
}

static u32 hard_left(const struct model *m, u32 issuer)
{
	u32 most = issuer == FUND_BASE ? FUND_HARD - FUND_SOFT_MIN : FUND_HARD - 1, sum = 0;

	for (u32 n = 0; n < m->nr; n++)
		for (u32 i = 0; i < m->told[n].nr_edges; i++)
			if (m->told[n].edge[i].issuer == issuer && is_hard(&m->told[n], i))
				sum += m->told[n].edge[i].amount;
	return sum < most ? most - sum : 0;
}

/* One ticket more for node `n` in the model, unless the ledger would refuse it. */
static void take_ticket(struct world *w, struct input *in, u32 n)
{
	struct told *t = &w->m.told[n];
	u32 issuer = take_node(w, in), kind = take(in, 1), i = t->nr_edges, left, amount;
	bool hard = kind & 1;

	amount = hard ? 1 + take(in, 2) % (FUND_HARD - 1) : take_amount(in);
	if (hard && !w->wild) {
		left = hard_left(&w->m, issuer);
		if (!left)
			return;
		amount = 1 + amount % left;
	}
	for (u32 j = 0; j < t->nr_edges; j++)
		if (t->edge[j].issuer == issuer && is_hard(t, j) == hard)
			return;
	if (i >= FUND_FUNDERS)
		return;
	t->edge[i] = (struct fund_edge){ issuer, amount };
	t->part[i] = kind & 2 ? 0xffff : kind & 4 ? 0 : take(in, 2);
	t->hard |= (u32)hard << i;
	t->nr_edges++;
	if (!model_admits(&w->m)) {
		t->nr_edges--;
		t->hard &= ~(1u << i);
	}
}

static void fund(struct world *w, struct input *in, u32 n, u32 most)
{
	struct told *t = &w->m.told[n];
	bool fresh = !t->nr_edges && !t->delta && !t->running && !has_holders(&w->m, n);

	if (!n)
		return;
	t->nr_edges = 0;
	t->hard = 0;
	for (u32 i = 0; i < most; i++)
		take_ticket(w, in, n);
	back(w, n, fresh && most == 1);
}

/* Exchange tickets, in thousandths: a part of T, or any number. */
static u64 take_delta(struct world *w, struct input *in)
{
	u32 how = take(in, 1);
	u64 total = w->m.total ? w->m.total : all_of_base(&w->m);

	if (how >= 224)
		return take_number(in, 46);
	return ((unsigned __int128)total * FUND_HARD * (how + 1) / 448) >> (how & 3) * 4;
}

static void check_fractions(struct input *in)
{
	u64 b = take_number(in, 49), a = take_number(in, 51), sum = take_number(in, 62);
	u64 amount = sum ? take_number(in, 62) % (sum + 1) : 0, got, exact, most;

	begin("fractions", a, b, amount, sum);
	if (b && a < 4 * b && b < 1ull << 49)
		EQUAL(fund_quotient(a, b), (u64)(((unsigned __int128)a << 62) / b), "a quotient in Q62");
	if (!sum)
		return;
	got = fund_ratio(amount, sum);
	exact = ((unsigned __int128)amount << 62) / sum;
	most = sum >> 32 ? 1ull << 32 : 0;
	HOLDS(got <= FUND_ONE && (got > exact ? got - exact : exact - got) <= most,
	      "a ratio in Q62: expected %#llx, got %#llx", (unsigned long long)exact,
	      (unsigned long long)got);
	EQUAL(tix_mul_q32(sum, amount), (u64)((unsigned __int128)sum * amount >> 32),
	      "a product in Q32");
	EQUAL(tix_fls64(sum), 63u - __builtin_clzll(sum), "highest bit");
	EQUAL(tix_ctz64(sum), (u32)__builtin_ctzll(sum), "lowest bit");
}

static void step(struct world *w, struct input *in)
{
	u32 op = take(in, 1), n = take_node(w, in), other;
	u64 x;

	switch (op % 12) {
	case 0:
	case 1:
	case 2:
		w->m.told[n].running = !w->m.told[n].running;
		begin("self", n, w->m.told[n].running, 0, 0);
		fund_self(w->g.gr, w->g.nodes, n, w->m.told[n].running);
		break;
	case 3:
		fund(w, in, n, 1);
		break;
	case 4:
		fund(w, in, n, op >> 6);
		break;
	case 5:
		fund(w, in, n, FUND_FUNDERS + 2);
		break;
	case 6:	/* node_weight() */
		if (!w->m.told[n].nr_edges || is_hard(&w->m.told[n], 0))
			break;
		w->m.told[n].edge[0].amount = take_amount(in);
		back(w, n, false);
		break;
	case 7:	/* one gives, the other gets */
		other = take_node(w, in);
		x = take_delta(w, in);
		if (!n || !other || n == other)
			break;
		set_delta(w, n, w->m.told[n].delta - x);
		set_delta(w, other, w->m.told[other].delta + x);
		break;
	case 8:	/* what is given is given back, or there is no counterpart yet */
		set_delta(w, n, op & 32 ? 0 : op & 64 ? take_delta(w, in) : -take_delta(w, in));
		break;
	case 9:
		look(w, n);
		break;
	case 10:
		look_at_all(w, op & 16);
		break;
	default:
		if (op & 16)
			retire(w, n);
		else if (op & 32)
			set_total(w, op & 64 ? all_of_base(&w->m) : take_number(in, 48));
		else
			check_fractions(in);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, data + size };
	struct world w = { .settled = true };
	u32 how = take(&in, 1);

	w.follow_total = how & 1;
	w.wild = how & 2;
	w.watched = how & 4;
	w.m.nr = 2 + take(&in, 1) % (how & 8 ? 5 : NODES - 1);	/* few meet more often */
	w.g = graph_new(w.m.nr);
	w.a = graph_new(w.m.nr);
	w.b = graph_new(w.m.nr);
	fund_init(w.g.gr, w.g.nodes);
	doing.nr = 0;
	begin("start", w.m.nr, how, 0, 0);
	check(&w);
	while (more(&in)) {
		step(&w, &in);
		check(&w);
		if (w.watched)
			look_at_all(&w, true);
	}

	graph_free(&w.g);
	graph_free(&w.a);
	graph_free(&w.b);
	return 0;
}
