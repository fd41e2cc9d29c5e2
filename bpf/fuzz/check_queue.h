/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every invariant of core/queue.h, against the record of vtrr.h (check_vtrr.h) and what each client
 * counted as when it was filed.
 *
 * The mean is that of a sum from scratch, in 128 bits; who is next follows from the record, V, and
 * what runs.
 */
#ifndef TIX_CHECK_QUEUE_H
#define TIX_CHECK_QUEUE_H

#include "../intf.h"
#include "../core/queue.h"
#include "check_vtrr.h"

#define SLICE_NS (1u << 18)
/* So far, in periods, a tag is from V at most: no account is further away (AHEAD_NS). */
#define REACH_LOG 17u

/* What a client counts as in its queue's mean. */
struct counts {
	u64 counted;
	u32 weight;
	bool is_far;
};

static struct counts counts_of[CLIENTS];

/* What thread `t` counts as beside a weight of `others`, that of what was picked last included. */
static struct counts model_counts(const struct tix_queue *q, const struct tix_thread *t, u64 others)
{
	__int128 off = (s64)(t->tag - q->zero), period = t->period;
	__int128 last = period * FAR_PERIODS, least = -period * COUNTED_PERIODS;
	struct counts c = { .is_far = off > last && (u64)t->share * FAR_PART < others };

	if (least < -(1ll << 61))
		least = -(1ll << 61);
	off = off > last ? last : off < least ? least : off;
	c.counted = q->zero + (u64)off;
	c.weight = c.is_far ? 0 : t->share;
	return c;
}

/* Weight and moment of what is filed, from scratch; `exact` is without what is cut off. */
struct sums {
	u64 weight;
	__int128 moment, exact;
};

static void add_to(struct sums *s, const struct tix_queue *q, const struct counts *c)
{
	__int128 off = (s64)(c->counted - q->zero);

	s->weight += c->weight;
	s->moment += (off >> MOMENT_LOG) * c->weight;
	s->exact += off * c->weight;
}

static struct sums model_sums(const struct tix_queue *q, const struct record *r, u32 queue)
{
	struct sums s = { 0 };

	for (u32 c = 0; c < CLIENTS; c++)
		if (r->filed[c].queue == queue)
			add_to(&s, q, &counts_of[c]);
	return s;
}

/* V with `running`, or NULL: within what is cut off of each and of their mean. */
static void check_mean(const struct tix_queue *q, const struct record *r, u32 queue,
		       const struct tix_thread *running)
{
	struct sums s = model_sums(q, r, queue);
	u64 mean = queue_mean(q, running, 0);
	struct counts own;
	__int128 off, most;

	if (running) {
		own = model_counts(q, running, s.weight + q->running_share);
		if (!own.is_far)
			add_to(&s, q, &own);
	}
	if (!s.weight || (running && !q->vt.nr)) {
		EQUAL(mean, running ? running->tag : q->clock, "queue %u: V where nothing counts",
		      queue);
		return;
	}
	off = (__int128)(s64)(mean - q->zero) * s.weight - s.exact;
	most = (__int128)s.weight << MOMENT_LOG;
	HOLDS(off <= most && off >= -2 * most, "queue %u: V is the mean, not %lld from it", queue,
	      (long long)(off / s.weight));
}

static void check_queue(const struct tix_queue *q, const struct vtrr_client *clients,
			const struct record *r, u32 queue, const struct tix_thread *running)
{
	struct sums s = model_sums(q, r, queue);

	EQUAL(q->weight, s.weight, "queue %u: weight of what is linked", queue);
	if (q->vt.nr) {
		HOLDS(s.moment == (s64)s.moment, "queue %u: its moment has room", queue);
		EQUAL(q->moment, (s64)s.moment, "queue %u: moment of what is linked", queue);
		HOLDS(q->review == VTRR_NONE ||
			      (q->review < CLIENTS && r->filed[q->review].queue == queue),
		      "queue %u: client %#x, which is reviewed next, is linked", queue, q->review);
	}
	for (u32 c = 0; c < CLIENTS; c++) {
		if (r->filed[c].queue != queue)
			continue;
		EQUAL(clients[c].counted, counts_of[c].counted, "where client %u counts", c);
		EQUAL(clients[c].weight, counts_of[c].weight, "as what client %u counts", c);
	}
	check_mean(q, r, queue, NULL);
	if (running)
		check_mean(q, r, queue, running);
}

/* The thread that has waited longest, if too long and if one may be picked for that; or VTRR_NONE. */
static u32 model_overdue(const struct tix_queue *q, const struct record *r, u32 queue, u64 now)
{
	u32 oldest = VTRR_NONE;

	for (u32 c = 0; c < CLIENTS; c++)
		if (r->filed[c].queue == queue &&
		    (oldest == VTRR_NONE || r->filed[c].age < r->filed[oldest].age))
			oldest = c;
	if (oldest == VTRR_NONE || (s64)(now - q->overdue_ns) < 0 ||
	    (s64)(now - r->filed[oldest].since) <= (s64)OVERDUE_NS)
		return VTRR_NONE;
	return oldest;
}

/* The one filed next after client `c`, VTRR_NONE: the oldest of all; or VTRR_NONE. */
static u32 model_newer(const struct record *r, u32 queue, u32 c)
{
	u32 next = VTRR_NONE;

	for (u32 i = 0; i < CLIENTS; i++)
		if (r->filed[i].queue == queue && (c == VTRR_NONE || r->filed[i].age > r->filed[c].age) &&
		    (next == VTRR_NONE || r->filed[i].age < r->filed[next].age))
			next = i;
	return next;
}

/* The thread that is reviewed comes after the last one, or is the oldest: at the latest after as many as waited then. */
static u32 check_review(struct tix_queue *q, struct vtrr_client *clients, const struct record *r,
			u32 queue)
{
	bool is_new = q->review == VTRR_NONE || !q->review_left;
	u32 expected = is_new ? model_newer(r, queue, VTRR_NONE) : q->review;
	u32 left = (is_new ? q->vt.nr : q->review_left) - 1;
	u32 c = queue_review(q, clients);

	EQUAL(c, expected, "queue %u: who is reviewed", queue);
	EQUAL(q->review, model_newer(r, queue, c), "queue %u: who is reviewed next", queue);
	EQUAL(q->review_left, left, "queue %u: reviews before the oldest's", queue);
	return c;
}

/* A pick is who has to be next: the result is what it said. */
static u32 check_pick(struct tix_queue *q, struct vtrr_client *clients,
		      const struct tix_thread *threads, const struct record *r, u32 queue, u32 running,
		      u64 now, bool may)
{
	const struct tix_thread *own = running == VTRR_NONE ? NULL : &threads[running];
	u64 v = queue_mean(q, own, 0), clock = v;
	u32 expected = model_overdue(q, r, queue, now), c, early = VTRR_NONE, first;
	bool by_tag = expected == VTRR_NONE, is_early = false;
	u64 overdue_ns = q->overdue_ns;
	struct vtrr_choice mine;

	if (by_tag) {
		first = expected = vtrr_peek(&q->vt, v);
		check_peek(&q->vt, r, queue, v - origin, first);
		if (first != VTRR_NONE) {
			s64 by = threads[first].tag - v;
			u32 group = r->filed[first].group;

			is_early = may && by > 0 &&
				   (group != threads[first].group ||
				    (q->vt.choice.eligible && by >= 1ll << vtrr_shift(group)));
		}
		if (own && first != VTRR_NONE) {
			mine = (struct vtrr_choice){ own->tag, own->tag + vtrr_period(own->group),
						     (s64)(own->tag - v) <= 0, own->group };
			if (!vtrr_before(&q->vt.choice, &mine))
				expected = VTRR_NONE;
		}
	}
	if (by_tag && expected != VTRR_NONE && (s64)(threads[expected].tag - clock) > 0)
		clock = threads[expected].tag;
	if (by_tag && expected == VTRR_NONE && own && (s64)(own->tag - clock) > 0)
		clock = own->tag;
	if (!by_tag) {
		if ((s64)(now - overdue_ns) > (s64)OVERDUE_ROW_NS)
			overdue_ns = now - OVERDUE_ROW_NS;
		overdue_ns += MIN_SLICE_NS * OVERDUE_PART;
	}
	c = queue_pick(q, clients, threads, own, now, may, &early);
	EQUAL(q->overdue_ns, overdue_ns, "queue %u: when somebody may be picked for that again", queue);
	if (is_early) {
		EQUAL(c, QUEUE_AGAIN, "queue %u: client %u came up too early", queue, first);
		EQUAL(early, first, "queue %u: which came up too early", queue);
		return c;
	}
	EQUAL(c, expected, "queue %u at %#llx: who is next", queue, (unsigned long long)v);
	EQUAL(q->clock, clock, "queue %u: its clock", queue);
	EQUAL(q->running_share, c != VTRR_NONE ? threads[c].share : own ? own->share : 0,
	      "queue %u: weight of what runs", queue);
	HOLDS(q->clock - q->zero < 1ull << MOMENT_LOG,
	      "queue %u: the mean is counted from where it is", queue);
	return c;
}

#endif
