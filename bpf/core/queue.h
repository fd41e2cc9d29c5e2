/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A CPU's queue: what waits there, and what is next.
 *
 * The problem: of the threads that wait for a CPU, take the one that keeps every principal
 * closest to its share, at a cost that does not depend on how many there are.
 *
 * The rule is EEVDF's. The CPU's virtual time V is the mean of the start tags, weighed by
 * share. A thread is eligible when its tag is not later than V; of these the one with the
 * earliest finish tag is next. vtrr.h finds it in constant time, by slots of an eighth of a
 * period. The mean is kept as a sum that each link and unlink changes.
 *
 * Example: A has 2/3 of the CPU and B 1/3, slices of 1 ms. Periods are 1.5 and 3 ms of virtual
 * time, tags 0. V = 0: A is next (finish 1.5), and comes back with the tag 1.5; V = 1: B (3),
 * back with 3; V = 2: A (3), back with 3; V = 3, and so on: A B A.
 *
 * Where nobody is eligible, V goes on to the first tag.
 *
 * Limits: a tag that is later than the mean by FAR_PERIODS counts as that, and one of little
 * weight does not count; a weight below
 * 2^-WEIGHT_LOG of the whole counts as that, and one above 2^(32 - WEIGHT_LOG) as that.
 *
 * All of this is under the queue's lock.
 */
#ifndef TIX_CORE_QUEUE_H
#define TIX_CORE_QUEUE_H

#include "types.h"

/* Weight of a client of that `period` in the mean: what part it is due, 2^WEIGHT_LOG for all. */
TIX_INLINE u32 queue_weight(u64 period, u64 slice_ns)
{
	u64 weight = (slice_ns << WEIGHT_LOG) / (period ?: 1);

	return weight ? (weight >> 32 ? ~0u : weight) : 1;
}

#define FAR_PART 8u	/* one that has more than this part of the rest's weight always counts */

/* Whether a tag is so far after the mean that it does not count there: those of little weight would move it far. */
TIX_INLINE bool queue_is_far(const struct tix_queue *q, u64 tag, u64 period, u32 share)
{
	return (s64)(tag - q->zero - period * FAR_PERIODS) > 0 && (u64)share * FAR_PART < q->weight + q->running_share;
}

/* Where a tag counts in the mean. Sums have room for those that are this far before it. */
TIX_INLINE u64 queue_counted(const struct tix_queue *q, u64 tag, u64 period)
{
	u64 most = period < (1ull << 61) / COUNTED_PERIODS ? period * COUNTED_PERIODS : 1ull << 61;
	u64 least = q->zero - most, last = q->zero + period * FAR_PERIODS;

	if ((s64)(tag - last) > 0)
		return last;
	return (s64)(tag - least) < 0 ? least : tag;
}

/* What a tag that counts adds to the sum. */
TIX_INLINE s64 queue_moment(const struct tix_queue *q, u64 counted, u32 weight)
{
	return ((s64)(counted - q->zero) >> MOMENT_LOG) * weight;
}

/*
 * The group in which thread `t` is filed. One that is far goes among those of a longer period, whose ring reaches that
 * far, and to its own when it comes up there.
 */
TIX_INLINE u32 queue_group(const struct tix_queue *q, const struct tix_thread *t, bool is_far)
{
	return is_far ? vtrr_group_of((t->tag - q->zero) / FAR_PERIODS) : t->group;
}

#define JOIN_MOST 8u	/* where little else waits */

/* What joins the mean with that weight moves it: (W + w) / W, Q8, `running` (or NULL) included in W. */
TIX_INLINE u32 queue_join(const struct tix_queue *q, const struct tix_thread *running, u32 weight)
{
	u64 all = q->weight + (running ? running->share : 0);

	if (!all)
		return 256;
	return weight > all * (JOIN_MOST - 1) ? JOIN_MOST * 256 : 256 + ((u64)weight << 8) / all;
}

/* sum / weight for a sum that may be negative. */
TIX_INLINE s64 queue_divide(s64 sum, u64 weight)
{
	return sum < 0 ? -(s64)(-(u64)sum / weight) : (s64)((u64)sum / weight);
}

/* Count the mean from its present place on, so that the sum stays small. */
TIX_INLINE void queue_rebase(struct tix_queue *q, s64 by)
{
	by &= ~0ull << MOMENT_LOG;
	q->zero += by;
	q->moment -= (by >> MOMENT_LOG) * (s64)q->weight;
}

/* Thread `t`, which is `client`, counts in the mean from now on. The result: whether it is far. */
TIX_INLINE bool queue_count(struct tix_queue *q, struct vtrr_client *client, const struct tix_thread *t)
{
	bool is_far = queue_is_far(q, t->tag, t->period, t->share);

	client->weight = is_far ? 0 : t->share;
	client->counted = queue_counted(q, t->tag, t->period);
	q->weight += client->weight;
	q->moment += queue_moment(q, client->counted, client->weight);
	return is_far;
}

/* It does no longer. */
TIX_INLINE void queue_uncount(struct tix_queue *q, const struct vtrr_client *client)
{
	q->weight -= client->weight;
	q->moment -= queue_moment(q, client->counted, client->weight);
}

/* Link thread `c`, which carries its tag and period, at the time `now`. It may have waited elsewhere before. */
TIX_INLINE void queue_link(struct tix_queue *q, struct vtrr_client *clients,
			   const struct tix_thread *t, u32 c, u64 now)
{
	bool is_far;
	u64 since;

	if (!q->vt.nr) {
		q->zero = q->clock;
		q->moment = 0;
		q->review = VTRR_NONE;
	}
	is_far = queue_count(q, &clients[c], t);
	/* Taken out and put back it has waited on. That is of no account before it has waited too long. */
	since = clients[c].since ?: now;
	vtrr_link(&q->vt, clients, c, t->tag, queue_group(q, t, is_far), since, (s64)(now - since) > (s64)OVERDUE_NS);
}

TIX_INLINE void queue_unlink(struct tix_queue *q, struct vtrr_client *clients, u32 c)
{
	if (q->review == c)
		q->review = clients[c].newer;
	queue_uncount(q, &clients[c]);
	vtrr_unlink(&q->vt, clients, c);
}

/*
 * The mean of the tags of what is linked and of `running`, or NULL, which has gone `ran` further since it was picked,
 * in virtual time. Where all are far that is where `running` is, and where there is neither, the last one.
 */
TIX_INLINE u64 queue_mean(const struct tix_queue *q, const struct tix_thread *running, u64 ran)
{
	u64 weight = q->weight, tag = q->clock;
	s64 moment = q->moment;
	u32 own;

	if (running) {
		tag = running->tag + ran;
		if (!q->vt.nr)
			return q->clock_most && (s64)(tag - q->clock_most) > 0 ? q->clock_most : tag;
		own = running->share;
		if (!queue_is_far(q, tag, running->period, own)) {
			weight += own;
			moment += queue_moment(q, queue_counted(q, tag, running->period), own);
		}
	}
	return weight ? q->zero + ((u64)queue_divide(moment, weight) << MOMENT_LOG) : tag;
}

/* Bring the clock up to date, `running` included, or NULL. */
TIX_INLINE void queue_advance(struct tix_queue *q, const struct tix_thread *running)
{
	q->clock = queue_mean(q, running, 0);
	q->reached = running && !q->vt.nr ? running->tag : q->clock;
	queue_rebase(q, q->clock - q->zero);
}

/* File it anew, as it is to be filed now. */
TIX_INLINE void queue_refile(struct tix_queue *q, struct vtrr_client *clients, const struct tix_thread *t, u32 c)
{
	bool is_far;

	queue_uncount(q, &clients[c]);
	is_far = queue_count(q, &clients[c], t);
	vtrr_take(&q->vt, clients, c);
	vtrr_put(&q->vt, clients, c, t->tag, queue_group(q, t, is_far));
}

/*
 * Somebody waits: who is to be looked at, each in its turn from the one that has waited longest. A round is as long as
 * there were threads when it began: else a look at each decision runs after those that take turns, and never comes back
 * to the rest.
 */
TIX_INLINE u32 queue_review(struct tix_queue *q, const struct vtrr_client *clients)
{
	u32 c = q->review;

	if (c >= TIX_THREADS_MAX || !q->review_left) {
		c = q->vt.oldest;
		q->review_left = q->vt.nr;
	}
	q->review_left--;
	if (c < TIX_THREADS_MAX)
		q->review = clients[c].newer;
	return c;
}

/* Whether thread `t`, which is not linked, goes before all that wait, where nobody else runs. */
TIX_INLINE bool queue_goes_first(struct tix_queue *q, const struct vtrr_client *clients,
				 const struct tix_thread *t, u64 now)
{
	u64 mean = queue_mean(q, t, 0);
	struct vtrr_choice own = {
		.head = t->tag,
		.finish = t->tag + vtrr_period(t->group),
		.eligible = (s64)(t->tag - mean) <= 0,
	};

	if (vtrr_peek(&q->vt, mean) == VTRR_NONE)
		return true;
	return vtrr_overdue(&q->vt, clients, now, OVERDUE_NS) == VTRR_NONE &&
	       vtrr_before(&own, &q->vt.choice);
}

/* Threads that have waited too long have MIN_SLICE_NS each, and this part of a CPU's time at most, */
#define OVERDUE_PART 8u
#define OVERDUE_ROW_NS (OVERDUE_PART * 1000000ull)	/* of so long at once */
#define REFILES 2u	/* in one decision */
#define QUEUE_AGAIN (VTRR_NONE - 1)

/*
 * Groups of a longer period are less exact: whether `c`, the first of all, came up there too early and goes to a shorter
 * one's.
 */
TIX_INLINE bool queue_is_early(const struct tix_queue *q, const struct vtrr_client *c, const struct tix_thread *t)
{
	s64 early = t->tag - q->clock;

	return early > 0 && (c->group != t->group || (q->vt.choice.eligible && early >> vtrr_shift(c->group)));
}

/*
 * The thread to run next, which is linked no longer; or VTRR_NONE: `running` goes on, or there is
 * none; or QUEUE_AGAIN: `*early` is to be filed anew first, if that `may` be. Whoever has waited too long comes first,
 * else the eligible thread with the earliest finish tag; if there is none, the one with the earliest tag.
 */
TIX_INLINE u32 queue_pick(struct tix_queue *q, struct vtrr_client *clients, const struct tix_thread *threads,
			  const struct tix_thread *running, u64 now, bool may, u32 *early)
{
	const struct tix_thread *next;
	struct vtrr_choice own;
	u32 c;

	queue_advance(q, running);
	c = VTRR_NONE;
	if ((s64)(now - q->overdue_ns) >= 0)
		c = vtrr_overdue(&q->vt, clients, now, OVERDUE_NS);
	if (c < TIX_THREADS_MAX) {
		/* A quantum in a row at most, however many have waited too long: others have shares. */
		if ((s64)(now - q->overdue_ns) > (s64)OVERDUE_ROW_NS)
			q->overdue_ns = now - OVERDUE_ROW_NS;
		q->overdue_ns += MIN_SLICE_NS * OVERDUE_PART;
	} else {
		c = vtrr_peek(&q->vt, q->clock);
		if (may && c < TIX_THREADS_MAX && queue_is_early(q, &clients[c], &threads[c])) {
			*early = c;
			return QUEUE_AGAIN;
		}
		if (c != VTRR_NONE && running) {
			own.head = running->tag;
			own.finish = own.head + vtrr_period(running->group);
			own.eligible = (s64)(running->tag - q->clock) <= 0;
			if (!vtrr_before(&q->vt.choice, &own))
				c = VTRR_NONE;
		}
		/* Where nobody is eligible the clock goes on to the first who will be. */
		next = c < TIX_THREADS_MAX ? &threads[c] : running;
		if (next && (s64)(next->tag - q->clock) > 0) {
			q->clock = next->tag;
			queue_rebase(q, q->clock - q->zero);
		}
	}
	c = tix_unknown(c, now);
	q->running_share = running ? running->share : 0;
	if (c < TIX_THREADS_MAX) {
		q->running_share = threads[c].share;
		queue_unlink(q, clients, c);
	}
	return c;
}

#endif
