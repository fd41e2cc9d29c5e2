/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a funding graph has to be, from scratch: nothing is kept here but who is funded by
 * whom, who holds which exchange tickets and who has runnable threads. All else follows
 * (model.md §2, §3, §5): integers exactly, values in floating point of 64 bits or more.
 */
#ifndef TIX_MODEL_FUNDING_H
#define TIX_MODEL_FUNDING_H

#include "../core/arch.h"
#include "fuzz.h"

/* Products are looked at, too: whether they are what arch.h says, and whether they fit. */
static bool overflowed;

static u64 checked_mul_q62(u64 a, u64 b)
{
	unsigned __int128 exact = (unsigned __int128)a * b >> 62;
	u64 got = tix_mul_q62(a, b);

	if (exact >> 64)
		overflowed = true;
	else
		EQUAL(got, (u64)exact, "%#llx * %#llx in Q62", (unsigned long long)a,
		      (unsigned long long)b);
	return got;
}

#define tix_mul_q62(a, b) checked_mul_q62(a, b)
#include "../core/funding.h"

#define NODES 32u

/* What is told. */
struct told {
	struct fund_edge edge[FUND_FUNDERS];
	u16 part[FUND_FUNDERS];
	u32 nr_edges;
	u32 hard;
	s64 delta;	/* thousandths of a base ticket */
	bool running;
};

/* What follows from it. */
struct follows {
	bool active;
	u32 nr_active, hard_issued, hard_active;
	u64 issued;
	s64 rest, soft_rest, gave;	/* as in struct fund_node */
	long double whole;		/* what its tickets divide, as a part of T */
	long double pool;		/* and what its soft ones and its threads do */
};

struct model {
	u32 nr;
	u64 total;			/* as told; 0: not */
	struct told told[NODES];
	struct follows of[NODES];
	u32 order[NODES];		/* issuers before holders */
	u64 deltas;
	bool bounded;			/* a limit of exchange.h was met */
	bool there_is;			/* nobody is worth more than there is */
};

static bool is_hard(const struct told *t, u32 i)
{
	return t->hard >> i & 1;
}

/* Nodes that `n` depends on, itself included, appended to the order; false: a cycle. */
static bool visit(struct model *m, u32 n, u64 *above, u64 *on_path, u32 *done)
{
	const struct told *t = &m->told[n];

	if (above[n])
		return true;
	if (*on_path >> n & 1)
		return false;
	*on_path |= 1ull << n;
	for (u32 i = 0; i < t->nr_edges; i++)
		if (!visit(m, t->edge[i].issuer, above, on_path, done))
			return false;
	*on_path &= ~(1ull << n);
	above[n] = 1ull << n;
	for (u32 i = 0; i < t->nr_edges; i++)
		above[n] |= above[t->edge[i].issuer];
	m->order[(*done)++] = n;
	return true;
}

/* Whether the caller may ask for this: no cycles, no more ancestors than can be walked. */
static bool model_admits(struct model *m)
{
	u64 above[NODES] = { 0 }, on_path = 0;
	u32 done = 0;

	for (u32 n = 0; n < m->nr; n++) {
		u32 edges = 0;

		if (!visit(m, n, above, &on_path, &done))
			return false;
		for (u32 up = 0; up < m->nr; up++)
			edges += above[n] >> up & 1 ? m->told[up].nr_edges : 0;
		if (edges > FUND_EDGES_MAX)
			return false;
	}
	return true;
}

/* model.md §2 */
static void model_activity(struct model *m)
{
	for (u32 n = 0; n < m->nr; n++) {
		m->of[n] = (struct follows){ 0 };
		if (m->told[n].running) {
			m->of[n].active = true;
			m->of[n].nr_active = 1;
			m->of[n].issued = FUND_SELF;
		}
	}
	for (u32 at = m->nr; at--;) {
		u32 n = m->order[at];
		const struct told *t = &m->told[n];

		for (u32 i = 0; i < t->nr_edges; i++) {
			struct follows *up = &m->of[t->edge[i].issuer];
			u32 amount = t->edge[i].amount;

			if (is_hard(t, i))
				up->hard_issued += amount;
			if (!m->of[n].active)
				continue;
			up->active = true;
			up->nr_active++;
			if (is_hard(t, i))
				up->hard_active += amount;
			else
				up->issued += amount;
		}
	}
}

/* model.md §5: what inactive parties hold rests with their funders, to 2^-16 thousandths. */
static void model_rests(struct model *m)
{
	m->deltas = 0;
	for (u32 at = m->nr; at--;) {
		u32 n = m->order[at], parts = 0;
		const struct told *t = &m->told[n];
		struct follows *f = &m->of[n];
		unsigned __int128 left;
		s64 sign;

		m->deltas += (t->delta < 0 ? -t->delta : t->delta) << FUND_DELTA_LOG;
		if (f->active || n == FUND_BASE)
			continue;
		f->gave = t->delta * (1ll << FUND_DELTA_LOG) + f->rest + f->soft_rest;
		sign = f->gave < 0 ? -1 : 1;
		left = sign * f->gave;
		for (u32 i = 0; i < t->nr_edges; i++)
			parts += t->part[i];
		for (u32 i = 0; i < t->nr_edges; i++) {
			struct follows *up = &m->of[t->edge[i].issuer];
			u64 x;

			if (!t->part[i])
				continue;
			x = left * t->part[i] / parts;
			left -= x;
			parts -= t->part[i];
			if (is_hard(t, i))
				up->rest += sign * (s64)x;
			else
				up->soft_rest += sign * (s64)x;
		}
		m->of[FUND_BASE].rest += sign * (s64)left;
	}
}

static long double bound(struct model *m, long double x, long double low, long double high)
{
	if (x >= low && x <= high)
		return x;
	m->bounded = true;
	return x < low ? low : high;
}

/* Exchange tickets as a part of T, all of it at most. */
static long double part_of_t(struct model *m, s64 x)
{
	u64 total = m->total ? m->total : m->of[FUND_BASE].issued;

	return bound(m, (long double)x / (FUND_HARD << FUND_DELTA_LOG) / (total ? total : 1), -1, 1);
}

/* What the soft tickets of an issuer share, in thousandths. */
static u32 thousandths(const struct model *m, u32 n)
{
	u32 least = n == FUND_BASE ? FUND_SOFT_MIN : 1, hard = m->of[n].hard_issued;

	return hard + least < FUND_HARD ? FUND_HARD - hard : least;
}

/* So many thousandths of what is active of an issuer. */
static long double share_of(const struct model *m, u32 n, u32 amount)
{
	const struct follows *f = &m->of[n];

	return (long double)amount / (f->hard_active + (f->issued ? thousandths(m, n) : 0));
}

static long double ticket_value(const struct model *m, const struct told *t, u32 i)
{
	u32 up = t->edge[i].issuer, amount = t->edge[i].amount;

	if (is_hard(t, i))
		return m->of[up].whole * share_of(m, up, amount);
	return m->of[up].pool * amount / m->of[up].issued;
}

/* model.md §3, with the limits that exchange.h names. */
static void model_values(struct model *m)
{
	m->bounded = false;
	m->there_is = true;
	for (u32 at = 0; at < m->nr; at++) {
		u32 n = m->order[at];
		const struct told *t = &m->told[n];
		struct follows *f = &m->of[n];
		bool base = n == FUND_BASE;
		long double own, most = base ? 2 : 1 + 1e-9L;

		if (!f->active)
			continue;
		if (base) {
			f->whole = 1 + part_of_t(m, f->rest + (f->issued ? 0 : f->soft_rest));
			f->whole = bound(m, f->whole, 1.0L / 128, 2);
		} else {
			for (u32 i = 0; i < t->nr_edges; i++)
				f->whole += ticket_value(m, t, i);
			f->whole = bound(m, f->whole + part_of_t(m, t->delta * (1ll << FUND_DELTA_LOG)),
					 0, 100);
			f->whole = bound(m, f->whole + part_of_t(m, f->rest), 0, 100);
			if (!f->issued)
				f->whole = bound(m, f->whole + part_of_t(m, f->soft_rest), 0, 100);
		}
		if (f->issued) {
			own = f->whole * share_of(m, n, thousandths(m, n));
			f->pool = bound(m, own + part_of_t(m, f->soft_rest), base ? own / 128 : 0, 100);
		}
		if (f->whole > most || f->pool > most)
			m->there_is = false;
	}
}

static void model_follow(struct model *m)
{
	HOLDS(model_admits(m), "the fuzzer asks for what it may");
	model_activity(m);
	model_rests(m);
	model_values(m);
}

#endif
