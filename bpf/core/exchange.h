/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exchange tickets, and what parts of the machine are worth in base tickets (model.md §3,
 * §5; Sullivan §3.2.2). Part of funding.h.
 *
 * An exchange ticket is issued by base and worth exactly its amount, positive or negative:
 * of T, all soft tickets that base has issued, active or not. A node's add up to its delta.
 *
 *     value(node) = sum of its tickets' values + delta, at least 0, + rest, at least 0
 *
 * What a party holds rests with its funders while it is inactive, further up if they are
 * inactive too, at last with base: so nobody else notices that it sleeps. When it wakes up
 * exactly that is taken back: not what it was given is kept, but how much it gave, and
 * one function, fund_give(), divides it both times.
 *
 * The soft tickets of an issuer of hard ones are backed by a currency of their own (model.md
 * §3), and with that rests what holders of soft tickets leave: who has a hard ticket is
 * guaranteed a part of the rest. Where no soft ticket is active it goes on to the issuer.
 *
 * Base's tickets divide P = T + what rests with base, in place of T; R is what rests with the
 * soft ones. With a soft active sum of A, thousandths s for the soft ones and the divisor D
 * (funding.h) a soft ticket is worth amount / A * f of the machine, f = P / T * s / D + R / T.
 * So one base ticket of the scale is worth 1 / E of it, E = A / f, and scale and rate are
 * those of E active tickets.
 *
 * Example: of 400 tickets alice holds 300 and bob 100. Alice gives bob 100: delta -100 and
 * +100, they have 200 and 200. Bob sleeps: his +100 rests with base, P = 500, alice's
 * tickets are worth all of it and she gets 500 - 100, the machine. Nobody else was there.
 *
 * Limits: an exchange ticket counts for T at most, P for 1/128 ... 2 times T, and f for
 * 1/128 of what it is without R at least. The ledger admits nothing that comes near them,
 * except that nearly all is given away.
 */
#ifndef TIX_EXCHANGE_H
#define TIX_EXCHANGE_H

#define FUND_DELTA_LOG 16u		/* delta is kept in thousandths / 2^this */
#define FUND_DELTAS_MAX (1ull << 62)	/* of all nodes together, so that no sum overflows */
#define FUND_REST_LOG 7u		/* base's tickets keep 2^-this of the machine, its soft ones of their part */

/* a / b in Q62, rounded down, for a < 4 b, b < 2^49. */
TIX_INLINE u64 fund_divide(u64 a, u64 b)
{
	u64 q = a / b;

	a = (a - q * b) << 15;		/* digits of 15 bits: what is left of a has 49 */
	q = q << 15 | a / b;
	a = a % b << 15;
	q = q << 15 | a / b;
	a = a % b << 15;
	q = q << 15 | a / b;
	a = a % b << 15;
	q = q << 15 | a / b;
	return q << 2 | (a % b << 2) / b;
}

FUND_FN u64 fund_quotient(u64 a, u64 b)
{
	return fund_divide(a, b);
}

/* x with its highest bit at 47; `e` goes the other way. x != 0. */
TIX_INLINE u64 fund_normal(u64 x, s32 *e)
{
	u32 log = tix_fls64(x);

	*e += (s32)log - 47;
	return x << (63 - log) >> 16;
}

/* The size of exchange tickets as a part of T, Q62; all of it at most. */
TIX_INLINE u64 fund_part_of_whole(const struct fund_graph *gr, u64 whole, s64 x)
{
	u64 size = fund_size(x) >> gr->whole_by;

	if (size >= whole)
		return FUND_ONE;
	return fund_divide(size >> gr->whole_more, whole >> gr->whole_more);
}

/* The pool of base's soft tickets with what rests there: parts of T, the second with the sign of x. */
TIX_INLINE u64 fund_pool(u64 pool, u64 rest, s64 x)
{
	u64 least = pool >> FUND_REST_LOG;

	if (x >= 0)
		return pool + rest;
	return pool > rest + least ? pool - rest : least;
}

/*
 * Scale and rate where base's active tickets are not all that is divided: E of the head
 * comment, as m * 2^e with 48 bits of m, in place of the sum of the active tickets.
 */
FUND_FN int fund_rate_of_parts(struct fund_graph *gr FUND_ARENA, struct fund_node *base FUND_ARENA)
{
	FUND_HERE(gr);
	FUND_HERE(base);
	u64 total = gr->total ? gr->total : base->issued, whole, p, ratio, m, machine, value;
	s32 e = 0, by = 0;
	u32 soft = fund_soft(base, FUND_SOFT_MIN), d = fund_divisor(base, soft), log;
	s64 rest;

	if (!total)
		total = 1;
	gr->whole_by = total >> 36 ? tix_fls64(total) - 35 : 0;
	whole = (total >> gr->whole_by) * FUND_HARD << FUND_DELTA_LOG;
	gr->whole_more = whole >> 48 ? tix_fls64(whole) - 47 : 0;
	ratio = FUND_ONE;
	rest = base->rest;
	if (!base->issued)
		rest += base->soft_rest;
	if (rest) {
		p = fund_size(rest) >> gr->whole_by;
		if (rest > 0)
			p = whole + (p < whole ? p : whole);
		else
			p = p < whole - (whole >> FUND_REST_LOG) ? whole - p : whole >> FUND_REST_LOG;
		ratio = fund_quotient(p >> gr->whole_more, whole >> gr->whole_more);
	}
	/* With nothing active but who lives on exchange tickets and hard ones, any scale will do. */
	m = fund_normal(base->issued ? base->issued : FUND_HARD, &e);
	if (base->issued) {
		p = tix_mul_q62(ratio, fund_ratio(soft, d));
		p = fund_pool(p, fund_part_of_whole(gr, whole, base->soft_rest), base->soft_rest);
		m = fund_quotient(m, fund_normal(p, &by));
		e -= by;
		m = fund_normal(m, &e);
	}
	if (e > 12)
		e = 12;		/* a scale above 2^60 has no room for values */
	if (e < -48)
		e = -48;	/* nor is there one below a ticket */

	log = 48 + e;
	fund_rescale(gr, base, log);
	by = gr->scale_log - log;
	gr->rate = fund_quotient(1ull << 48, m) >> (30 - by);
	machine = m << 14 >> by;
	value = tix_mul_q62(machine, ratio);
	if (machine != gr->machine || value != base->value || whole != gr->whole ||
	    d != gr->divisor) {
		gr->divisor = d;
		gr->machine = machine;
		gr->whole = whole;
		base->value = value;
		gr->unit++;
		gr->epoch++;
	}
	return 0;
}

/* The size of exchange tickets in Q62 of scale; all of the machine at most. */
TIX_INLINE u64 fund_of_machine(const struct fund_graph *gr, s64 x)
{
	return tix_mul_q62(gr->machine, fund_part_of_whole(gr, gr->whole, x));
}

FUND_FN u64 fund_plus(const struct fund_graph *gr FUND_ARENA, u64 value, s64 x)
{
	FUND_HERE(gr);
	u64 size = fund_of_machine(gr, x);

	if (x >= 0)
		return value + size;
	return value > size ? value - size : 0;
}

/* Exchange tickets and what rests with a node are worth what they say; what rests with its soft tickets is not theirs alone. */
TIX_INLINE u64 fund_exchanged(const struct fund_graph *gr, const struct fund_node *node, u64 value)
{
	if (node->delta)
		value = fund_plus(gr, value, node->delta);
	if (node->rest)
		value = fund_plus(gr, value, node->rest);
	return value;
}

/*
 * `n` gives what it holds to its funders, in proportion to part[], to base if all of that is
 * 0; or takes back what it gave. Its funders are active then, or about to become it.
 */
FUND_FN int fund_give(struct fund_graph *gr FUND_ARENA, struct fund_node *nodes FUND_ARENA, u32 n, bool give)
{
	FUND_HERE(gr);
	FUND_HERE(nodes);
	struct fund_node *node = &nodes[n];
	s64 sum;
	u64 left, x;
	u32 i, parts;

	if (n == FUND_BASE)
		return 0;
	sum = give ? node->delta + node->rest + node->soft_rest : -node->gave;
	node->gave = sum & -(s64)give;
	if (!sum)
		return 0;
	left = fund_size(sum);
	parts = 0;
	for (i = tix_unknown(0, node->issued); i < node->nr_edges && can_loop; i++)
		parts += node->part[i];
	/* A part of what is left by the parts that are left: the last one leaves nothing. */
	for (i = tix_unknown(0, node->issued); i < node->nr_edges && can_loop; i++) {
		u32 up = node->edge[i].issuer, part = node->part[i];

		if (!part)
			continue;
		x = left / parts * part + left % parts * part / parts;
		left -= x;
		parts -= part;
		if (node->hard >> i & 1)
			nodes[up].rest += fund_like(sum, x);
		else
			nodes[up].soft_rest += fund_like(sum, x);
		if (up != FUND_BASE)
			nodes[up].ver++;
		nodes[up].seen = ~0ull;
	}
	nodes[FUND_BASE].rest += fund_like(sum, left);
	gr->moved = 1;
	gr->epoch++;
	return 0;
}

#endif
