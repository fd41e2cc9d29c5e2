/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every invariant of vtrr.h, against a plain record of what was filed where.
 *
 * The record keeps no ring and no bitmap: which slot a tag belongs in follows from the
 * slots of those that are filed, what comes next from a look at everybody. How the
 * structure is laid out is known to the functions at the top, and to nothing else here.
 */
#ifndef TIX_CHECK_VTRR_H
#define TIX_CHECK_VTRR_H

#include "../core/vtrr.h"
#include "fuzz.h"

static bool q_has_group(const struct vtrr *v, u32 group)
{
	return v->map >> group & 1;
}

static bool q_has_slot(const struct vtrr *v, u32 group, u32 slot)
{
	return v->g[group].map >> slot & 1;
}

static bool q_is_empty(const struct vtrr *v, u32 group)
{
	return !v->g[group].map;
}

/*
 * What the record and the input say is virtual time since this one; tags wrap around. A
 * multiple of a turn of any group's ring, so that slots are the same.
 */
static u64 origin;

static u64 q_lo(const struct vtrr *v, u32 group)
{
	return (v->due[group].head - origin) >> vtrr_shift(group);
}

static u32 q_head(const struct vtrr *v, u32 group, u32 slot)
{
	return v->g[group].head[slot];
}

static u32 q_tail(const struct vtrr *v, u32 group, u32 slot)
{
	return v->g[group].tail[slot];
}

#define CLIENTS 48u
#define QUEUES 2u
#define NOWHERE QUEUES
#define LAST (VTRR_SLOTS - 1ull)

/* What a client was filed as. */
struct filed {
	u64 tag, since;
	u64 no;		/* of its slot, not reduced */
	s64 order;	/* within its slot */
	s64 age;	/* of all clients of all queues: the smaller the older */
	u32 queue;	/* NOWHERE: not filed */
	u32 group;
};

struct record {
	struct filed filed[CLIENTS];
	s64 order;	/* the last one */
	s64 age, aged;	/* likewise, of who came last and of who had waited before */
};

static void record_init(struct record *r)
{
	memset(r, 0, sizeof(*r));
	for (u32 c = 0; c < CLIENTS; c++)
		r->filed[c].queue = NOWHERE;
}

/* Lowest and highest slot of a group; empty as long as lo > hi. */
struct span {
	u64 lo, hi;
};

static void widen(struct span *span, u64 no)
{
	span->lo = no < span->lo ? no : span->lo;
	span->hi = no > span->hi ? no : span->hi;
}

static struct span record_span(const struct record *r, u32 queue, u32 group)
{
	struct span span = { ~0ull, 0 };

	for (u32 c = 0; c < CLIENTS; c++)
		if (r->filed[c].queue == queue && r->filed[c].group == group)
			widen(&span, r->filed[c].no);
	return span;
}

/* Those of all groups in one go. */
static void record_spans(const struct record *r, u32 queue, struct span *spans)
{
	for (u32 group = 0; group < VTRR_GROUPS; group++)
		spans[group] = (struct span){ ~0ull, 0 };
	for (u32 c = 0; c < CLIENTS; c++)
		if (r->filed[c].queue == queue)
			widen(&spans[r->filed[c].group], r->filed[c].no);
}

/*
 * Where a tag goes: its own group as far as the ring reaches, the last slot of that where it is
 * later, the nearest shorter group that is empty where it is so much earlier, if there is one.
 */
static void record_put(struct record *r, u32 queue, u32 c, u64 tag, u32 group)
{
	struct filed *f = &r->filed[c];
	struct span span = record_span(r, queue, group), shorter;
	u64 no = tag >> vtrr_shift(group);
	u32 to = group;

	if (span.lo <= span.hi && no > span.lo + LAST) {
		no = span.lo + LAST;
	} else if (span.lo <= span.hi && no + LAST < span.hi) {
		no = span.hi - LAST;
		for (u32 each = group; each-- && to == group;) {
			shorter = record_span(r, queue, each);
			if (shorter.lo <= shorter.hi)
				continue;
			to = each;
			no = tag >> vtrr_shift(to);
		}
	}
	f->tag = tag;
	f->no = no;
	f->queue = queue;
	f->group = to;
	f->order = ++r->order;
}

static void record_link(struct record *r, u32 queue, u32 c, u64 tag, u32 group, u64 since,
			bool is_oldest)
{
	record_put(r, queue, c, tag, group);
	r->filed[c].since = since;
	r->filed[c].age = is_oldest ? --r->aged : r->age++;
}

/* The same again, elsewhere; its age stays. */
static void record_refile(struct record *r, u32 c, u64 tag, u32 group)
{
	u32 queue = r->filed[c].queue;

	r->filed[c].queue = NOWHERE;
	record_put(r, queue, c, tag, group);
}

/* One group: the map of its slots, their lists, and which is the earliest. Returns how many are in it. */
static u32 check_group(const struct vtrr *v, const struct vtrr_client *clients,
		       const struct record *r, u32 queue, u32 group, const struct span *span,
		       bool *seen)
{
	u32 nr = 0;

	EQUAL(q_has_group(v, group), !q_is_empty(v, group),
	      "queue %u: the map of groups says whether group %u has slots", queue, group);
	EQUAL(q_has_group(v, group), span->lo <= span->hi,
	      "queue %u: the map of groups says whether group %u has clients", queue, group);
	if (q_is_empty(v, group))
		return 0;
	EQUAL(q_lo(v, group), span->lo, "queue %u, group %u: lo is the earliest slot", queue, group);
	HOLDS(span->hi - span->lo <= LAST,
	      "queue %u, group %u: slots %#llx ... %#llx fit into the ring", queue, group,
	      (unsigned long long)span->lo, (unsigned long long)span->hi);

	for (u32 slot = 0; slot < VTRR_SLOTS; slot++) {
		u32 prev = VTRR_NONE, c;

		if (!q_has_slot(v, group, slot))
			continue;
		c = q_head(v, group, slot);
		HOLDS(c != VTRR_NONE, "queue %u, group %u: slot %u is in the map and has a head",
		      queue, group, slot);
		for (; c != VTRR_NONE; prev = c, c = clients[c].next) {
			const struct filed *f = &r->filed[c < CLIENTS ? c : 0];

			HOLDS(c < CLIENTS, "queue %u, group %u, slot %u: %#x is a client", queue,
			      group, slot, c);
			HOLDS(!seen[c], "queue %u, group %u, slot %u: client %u is in one list, once",
			      queue, group, slot, c);
			seen[c] = true;
			nr++;
			EQUAL(f->queue, queue, "client %u is in the queue it was filed in", c);
			EQUAL(f->group, group, "client %u is in the group it was filed in", c);
			EQUAL(slot, (u32)(f->no & LAST),
			      "queue %u, group %u: client %u, tag %#llx, is in the slot of its tag or "
			      "at the ring's end", queue, group, c, (unsigned long long)f->tag);
			EQUAL(clients[c].group, group, "client %u knows its group", c);
			EQUAL(clients[c].slot, slot, "client %u knows its slot", c);
			EQUAL(clients[c].prev, prev, "queue %u, group %u, slot %u: prev of client %u",
			      queue, group, slot, c);
			HOLDS(prev == VTRR_NONE || r->filed[prev].order < f->order,
			      "queue %u, group %u, slot %u: client %u comes after client %u", queue,
			      group, slot, prev, c);
		}
		EQUAL(q_tail(v, group, slot), prev, "queue %u, group %u: tail of slot %u", queue,
		      group, slot);
	}
	return nr;
}

/* The list by age: complete, in order, and the same in both directions. */
static void check_ages(const struct vtrr *v, const struct vtrr_client *clients,
		       const struct record *r, u32 queue)
{
	u32 older = VTRR_NONE, c = v->nr ? v->oldest : VTRR_NONE, nr = 0;

	for (; c != VTRR_NONE; older = c, c = clients[c].newer) {
		HOLDS(c < CLIENTS && r->filed[c].queue == queue && nr < v->nr,
		      "queue %u: place %u by age is taken by one of its own, not %#x", queue, nr, c);
		nr++;
		EQUAL(clients[c].older, older, "queue %u: older than client %u", queue, c);
		HOLDS(older == VTRR_NONE || r->filed[older].age < r->filed[c].age,
		      "queue %u: client %u was filed before client %u", queue, older, c);
	}
	EQUAL(nr, v->nr, "queue %u: number of clients by age", queue);
	if (nr)
		EQUAL(v->newest, older, "queue %u: newest", queue);
}

static void check_vtrr(const struct vtrr *v, const struct vtrr_client *clients,
		       const struct record *r, u32 queue)
{
	struct span spans[VTRR_GROUPS];
	bool seen[CLIENTS] = { false };
	u32 nr = 0, filed = 0;

	record_spans(r, queue, spans);
	for (u32 group = 0; group < VTRR_GROUPS; group++)
		nr += check_group(v, clients, r, queue, group, &spans[group], seen);
	for (u32 c = 0; c < CLIENTS; c++) {
		const struct filed *f = &r->filed[c];

		if (f->queue != queue)
			continue;
		filed++;
		HOLDS(seen[c], "queue %u: client %u is in a list", queue, c);
		EQUAL(clients[c].linked, 1, "client %u is linked", c);
		EQUAL(clients[c].tag, f->tag + origin, "tag of client %u", c);
		EQUAL(clients[c].since, f->since, "when client %u was filed", c);
	}
	EQUAL(nr, filed, "queue %u: clients in its lists", queue);
	EQUAL(v->nr, filed, "queue %u: nr", queue);
	check_ages(v, clients, r, queue);
}

static void check_unlinked(const struct vtrr_client *clients, const struct record *r)
{
	for (u32 c = 0; c < CLIENTS; c++)
		EQUAL(clients[c].linked, r->filed[c].queue != NOWHERE, "whether client %u is linked", c);
}

/*
 * The choice is as good as any other: eligible ones by finish; while there is none, by
 * head. Who of equals goes first is not promised.
 */
static void check_peek(const struct vtrr *v, const struct record *r, u32 queue, u64 now, u32 c)
{
	const struct vtrr_choice *got = &v->choice;
	u32 first = VTRR_NONE;
	bool eligible = false, any = false;
	u64 head = ~0ull, finish = ~0ull;
	struct span spans[VTRR_GROUPS];

	record_spans(r, queue, spans);
	for (u32 group = 0; group < VTRR_GROUPS; group++) {
		u64 h, f;

		if (spans[group].lo > spans[group].hi)
			continue;
		any = true;
		h = spans[group].lo << vtrr_shift(group);
		f = h + vtrr_period(group);
		if (h <= now ? !eligible || f < finish : !eligible && h < head) {
			eligible = h <= now;
			head = h;
			finish = f;
		}
	}
	if (!any) {
		EQUAL(got->group, VTRR_NONE, "queue %u: nobody is linked", queue);
		EQUAL(c, VTRR_NONE, "queue %u: nobody is linked, so nobody is first", queue);
		return;
	}
	EQUAL(got->eligible, eligible, "queue %u at %#llx: whether anybody is eligible", queue,
	      (unsigned long long)now);
	if (eligible)
		EQUAL(got->finish - origin, finish, "queue %u at %#llx: finish of the choice", queue,
		      (unsigned long long)now);
	HOLDS(got->group < VTRR_GROUPS && q_has_group(v, got->group),
	      "queue %u: group %#x was chosen and is not empty", queue, got->group);
	if (!eligible)
		EQUAL(got->head - origin, head, "queue %u at %#llx: the earliest head", queue,
		      (unsigned long long)now);
	EQUAL(got->head - origin, q_lo(v, got->group) << vtrr_shift(got->group),
	      "queue %u: head of the chosen group %u", queue, got->group);
	EQUAL(got->finish, got->head + vtrr_period(got->group), "queue %u: finish of group %u", queue,
	      got->group);

	for (u32 i = 0; i < CLIENTS; i++) {
		const struct filed *f = &r->filed[i];

		if (f->queue == queue && f->group == got->group &&
		    f->no << vtrr_shift(f->group) == got->head - origin &&
		    (first == VTRR_NONE || f->order < r->filed[first].order))
			first = i;
	}
	EQUAL(c, first, "queue %u at %#llx: client at the head of group %u", queue,
	      (unsigned long long)now, got->group);
}

/* The oldest thread, if it has waited longer than `limit`, by a look at all. */
static void check_overdue(const struct vtrr *v, const struct vtrr_client *clients,
			  const struct record *r, u32 queue, u64 now, u64 limit)
{
	u32 oldest = VTRR_NONE;

	for (u32 c = 0; c < CLIENTS; c++)
		if (r->filed[c].queue == queue &&
		    (oldest == VTRR_NONE || r->filed[c].age < r->filed[oldest].age))
			oldest = c;
	if (oldest != VTRR_NONE && (s64)(now - r->filed[oldest].since) <= (s64)limit)
		oldest = VTRR_NONE;
	EQUAL(vtrr_overdue(v, clients, now, limit), oldest,
	      "queue %u at %#llx: who has waited longer than %llu", queue, (unsigned long long)now,
	      (unsigned long long)limit);
}

/* model.md §7: groups follow each other without a gap, and the slots are fine enough. */
static void check_groups(u64 period)
{
	u32 group = vtrr_group_of(period);

	HOLDS(group < VTRR_GROUPS, "period %#llx has a group, not %u", (unsigned long long)period,
	      group);
	HOLDS(group == VTRR_GROUPS - 1 || period < vtrr_period(group),
	      "group %u stands for its longest period, beyond %#llx", group,
	      (unsigned long long)period);
	HOLDS(!group || period >= vtrr_period(group - 1), "period %#llx is beyond group %u",
	      (unsigned long long)period, group - 1);
	HOLDS(vtrr_period(group) >> vtrr_shift(group) >= 1ull << VTRR_SLOT_BITS &&
		      vtrr_period(group) >> vtrr_shift(group) <= 2ull << VTRR_SLOT_BITS,
	      "group %u: slots to a period", group);
}

#endif
