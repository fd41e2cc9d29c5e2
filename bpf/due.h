/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tickets are due as time goes by. Part of funding.h.
 *
 * Who looks at its share only now and then must not work out what it was due since from what
 * it is worth now: siblings slept and woke up meanwhile. So each issuer keeps what one of
 * its active tickets has been due, an integral, and who held `amount` of them all the time
 * was due amount * what that has grown by.
 *
 *     what n's tickets have been due      due = sum of amount * per_ticket(issuer)
 *     what one of n's own has been due    per_ticket grows by (what due grew by) / active ones
 *
 * Of base per_ticket is V by another unit. An issuer is brought up to date before its active
 * tickets change and when somebody looks, its funders first: a walk over its own ancestors.
 * All of this is modulo 2^64: only differences count. While no ticket of an issuer is active
 * its holders' debts pass as if the last one still were.
 *
 * Who comes or goes has had more or less than its due. That is for those who go on sharing
 * with it, its siblings, and for its issuer's only when it has none (model.md §2). It comes
 * back with what is left of that.
 *
 * Limits: hard tickets and exchange tickets are parts of the machine, and the soft tickets of
 * an issuer of hard ones what those leave: of these what is due is worked out from the present
 * value after all. Where several issuers back one whose siblings sleep, what it owes is for the
 * holders of that one by which it is worth most; and if another of them is among those, what comes
 * back by that one is known, but not what does by issuers of that one in turn.
 */
#ifndef TIX_DUE_H
#define TIX_DUE_H

/* Up to now (V) something worth `value` was due this, since `at`. V goes back, too, where less was used than it had passed for. */
TIX_INLINE u64 fund_flat(const struct fund_graph *gr, u64 value, u64 at)
{
	s64 passed = gr->now - at;

	return fund_like(passed, tix_mul_q62(value, fund_size(passed) & (FUND_ONE - 1)) << FUND_DUE_LOG);
}

/* Whether what `node` is due is worked out from its present value. */
TIX_INLINE bool fund_is_flat(const struct fund_node *node)
{
	return node->hard || node->delta || node->rest || node->soft_rest || node->hard_issued;
}

/* Bring what `n` and its tickets have been due up to date, after its funders. */
TIX_INLINE void fund_accrue(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	struct fund_node *node = &nodes[n];
	u64 due = tix_forget(0), among = node->among ? node->among : 1, more, each;
	u32 i;

	if (n == FUND_BASE)
		return;
	for (i = tix_forget(0); i < node->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		due += nodes[node->edge[i].issuer].per_ticket * node->edge[i].amount;
	more = due - node->due;
	if (fund_is_flat(node))
		more = fund_flat(gr, fund_soft_value(gr, node), node->at);
	each = fund_size(more) / among;
	node->per_ticket += fund_like(more, each);
	/* What is left over is for next time. */
	node->due = due - fund_like(more, fund_size(more) - each * among);
	node->at = gr->now;
}

/* Bring what `n` and all it depends on are due up to date, and if `values` what they are worth. */
TIX_FN void fund_walk(struct fund_graph *gr, struct fund_node *nodes, u32 n, bool values)
{
	fund_tick(gr, &nodes[FUND_BASE]);
	gr->depth = 0;
	fund_push(gr, n);
	while (gr->depth && can_loop) {
		u32 at = (gr->depth - 1) & (FUND_EDGES_MAX - 1), i = gr->cursor[at];
		u32 me = gr->stack[at], up;

		if (i >= nodes[me].nr_edges || i >= FUND_FUNDERS) {
			fund_accrue(gr, nodes, me);
			if (values)
				fund_compute(gr, nodes, me);
			gr->depth--;
			continue;
		}
		gr->cursor[at] = i + 1;
		up = nodes[me].edge[i].issuer;
		if (up != FUND_BASE &&
		    (nodes[up].at != gr->now || (values && nodes[up].epoch != gr->epoch)))
			fund_push(gr, up);
	}
}

/* What the threads directly in `n` have been due, after fund_refresh(): ns / 2^FUND_DUE_LOG. */
TIX_INLINE u64 fund_self_due(const struct fund_node *node)
{
	return node->per_ticket * FUND_SELF;
}

/*
 * Who holds `amount` tickets was away while what they are due grew by `more`, beside
 * `others` that alone were active: by how much it would have grown had it stayed.
 */
TIX_INLINE s64 fund_stayed(s64 more, u64 amount, u64 others)
{
	u64 part = others ? fund_ratio(others, others + amount) : FUND_ONE;

	return fund_like(more, tix_mul_q62(fund_size(more) & (FUND_ONE - 1), part));
}

/*
 * The highest of `n`, which is inactive, and its issuers, of which nothing is active either. What
 * was had more than its due below that is owed by whoever comes back first.
 */
TIX_FN u32 fund_asleep(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	u32 up;

	for (gr->steps = 0; gr->steps < FUND_EDGES_MAX && can_loop; gr->steps++) {
		up = nodes[n].above;
		if (up == FUND_BASE || nodes[up].nr_active)
			break;
		n = up;
	}
	gr->steps = 0;
	return n;
}

/* What `n`, which is inactive, has had more than its due until now, ns. */
TIX_FN s64 fund_owes(struct fund_graph *gr, struct fund_node *nodes, u32 n)
{
	struct fund_node *node = &nodes[fund_asleep(gr, nodes, n)];
	s64 more = fund_stayed(node->due - node->due_then, node->above_amount,
			       nodes[node->above_of].issued);

	return node->lead - (s64)fund_like(more, fund_size(more) >> FUND_DUE_LOG);
}

/*
 * What others bear is not due to who caused it: `each` of the `amount` tickets that it holds, and of those
 * that it holds through others.
 */
TIX_INLINE void fund_except(struct fund_node *holder, u64 each, u64 amount, u64 through)
{
	u64 due = each * amount + fund_like(each, fund_size(each) * through >> 8);

	holder->due += due;
	holder->due_then += due;
}

/*
 * Of tickets of `up`: how many `holder` has by those of others that hold some themselves, in 1/256. What
 * `up`'s holders bear comes back to it by these, which are to be looked at again.
 */
TIX_FN u64 fund_through(struct fund_node *nodes, u32 holder, u32 up)
{
	u64 sum = tix_forget(0), each;
	u32 i, j;

	for (i = tix_forget(0); i < nodes[holder].nr_edges && i < FUND_FUNDERS && can_loop; i++) {
		u32 by = nodes[holder].edge[i].issuer;
		struct fund_node *node = &nodes[by];

		if (by == up || by == FUND_BASE || !node->among || fund_is_flat(node))
			continue;
		each = ((u64)nodes[holder].edge[i].amount << 24) / node->among;
		if (each >> 40)		/* as nothing else of it is active, whatever that is */
			each = 1ull << 40;
		for (j = tix_forget(0); j < node->nr_edges && j < FUND_FUNDERS && can_loop; j++)
			if (node->edge[j].issuer == up)
				sum += tix_mul_q32((u64)node->edge[j].amount << 16, each);
		node->at--;
	}
	return sum;
}

/*
 * The threads directly in `n` came (`came`; they are active already) or went (they no longer
 * are), having had `lead` ns more than their due: that much more is due to those with whom
 * they share, or less. V (`now`) moves if those are base's holders, by the graph's `most` at most.
 */
TIX_FN void fund_bear(struct fund_graph *gr, struct fund_node *nodes, u32 n, s64 lead, bool came)
{
	u64 size = fund_size(lead), amount = FUND_SELF, through = 0, others, each;
	s64 shift = came ? lead : -lead;
	u32 holder = FUND_BASE;	/* none */

	for (gr->steps = 0; gr->steps < FUND_EDGES_MAX && can_loop; gr->steps++) {
		struct fund_node *node = &nodes[n];

		/* In 1/256. What came back, too, is for the others. */
		others = (node->issued - (came ? amount : 0)) << 8;
		through = holder && nodes[holder].nr_edges > 1 ? fund_through(nodes, holder, n) : 0;
		if (came)
			others = others > through ? others - through : 0;
		if (n == FUND_BASE)
			break;
		if (others) {
			each = fund_like(shift, (size << (FUND_DUE_LOG + 8)) / others);
			node->per_ticket += each;
			if (holder)
				fund_except(&nodes[holder], each, amount, through);
			gr->steps = 0;
			return;
		}
		if (!came) {
			if (holder)
				nodes[holder].lead = 0;
			node->lead = lead;
			node->due_then = node->due;
		}
		holder = n;
		amount = node->above_amount;
		n = node->above;
	}
	gr->steps = 0;
	if (!others || others >> 8 > nodes[FUND_BASE].issued)
		return;
	each = nodes[FUND_BASE].per_ticket;
	size = (tix_mul_q32(size, gr->rate) << 8) / others * nodes[FUND_BASE].issued;
	gr->now += fund_like(shift, size < gr->most ? size : gr->most);
	fund_tick(gr, &nodes[FUND_BASE]);
	if (holder && nodes[holder].above_of == FUND_BASE)
		fund_except(&nodes[holder], nodes[FUND_BASE].per_ticket - each, amount, through);
}

/*
 * The threads directly in `n`, which are not active, have had `ns` of CPU after all, while V passed
 * as for everybody: as if they had come for that. After fund_walk().
 */
TIX_FN void fund_late(struct fund_graph *gr, struct fund_node *nodes, u32 n, s64 ns)
{
	s64 owes = 0;
	u32 top;

	top = nodes[n].nr_active ? FUND_BASE : fund_asleep(gr, nodes, n);
	if (top)
		owes = fund_owes(gr, nodes, n);
	fund_bear(gr, nodes, n, ns, false);
	if (top)
		nodes[top].lead = owes + ns;
}

#endif
