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
 * Limits: a tag that is later than the mean by FAR_PERIODS does not count in it; a weight below
 * 2^-WEIGHT_LOG of the whole counts as that.
 *
 * All of this is under the queue's lock.
 */
#ifndef TIX_CORE_QUEUE_H
#define TIX_CORE_QUEUE_H

#include "types.h"

/* Weight of a client of that `period` in the mean: what share of a CPU it is due, 2^WEIGHT_LOG for all. */
TIX_INLINE u32 queue_weight(u64 period, u64 slice_ns)
{
	u64 weight = (slice_ns << WEIGHT_LOG) / (period ?: 1);

	return weight ? (weight >> WEIGHT_LOG ? 1u << WEIGHT_LOG : weight) : 1;
}

/* Whether a tag is so far after the mean that it does not count there: then few move it far. */
TIX_INLINE bool queue_is_far(const struct tix_queue *q, u64 tag, u64 period)
{
	return (s64)(tag - q->zero - period * FAR_PERIODS) > 0;
}

/* Where a tag counts in the mean. Sums have room for those that are this far before it. */
TIX_INLINE u64 queue_counted(const struct tix_queue *q, u64 tag)
{
	return (s64)(tag - q->zero) < -COUNTED_MOST ? q->zero - COUNTED_MOST : tag;
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

/* Link thread `c`, which carries its tag and period, at the time `now` by the caller's clock. */
TIX_INLINE void queue_link(struct tix_queue *q, struct vtrr_client *clients,
			   const struct tix_thread *t, u32 c, u64 now)
{
	u32 weight = t->share;
	bool is_far;

	if (!q->weight && !q->vt.nr) {
		q->zero = t->tag;
		q->moment = 0;
	}
	is_far = queue_is_far(q, t->tag, t->period);
	if (is_far)
		weight = 0;
	clients[c].weight = weight;
	clients[c].counted = queue_counted(q, t->tag);
	q->weight += weight;
	q->moment += queue_moment(q, clients[c].counted, weight);
	vtrr_link(&q->vt, clients, c, t->tag, queue_group(q, t, is_far), now);
}

TIX_INLINE void queue_unlink(struct tix_queue *q, struct vtrr_client *clients, u32 c)
{
	struct vtrr_client *client = &clients[c];

	q->weight -= client->weight;
	q->moment -= queue_moment(q, client->counted, client->weight);
	vtrr_unlink(&q->vt, clients, c);
}

/*
 * The mean of the tags of what is linked and of `running`, or NULL, which has gone `ran` further since it was picked,
 * in virtual time; where there is neither, the last one.
 */
TIX_INLINE u64 queue_mean(const struct tix_queue *q, const struct tix_thread *running, u64 ran)
{
	u64 weight = q->weight, tag;
	s64 moment = q->moment;
	u32 own;

	if (running) {
		tag = running->tag + ran;
		if (!weight)
			return tag;
		own = running->share;
		if (!queue_is_far(q, tag, running->period)) {
			weight += own;
			moment += queue_moment(q, queue_counted(q, tag), own);
		}
	}
	return weight ? q->zero + ((u64)queue_divide(moment, weight) << MOMENT_LOG) : q->clock;
}

/* Bring the clock up to date: the mean of what is linked, and of `running`, which may go on; or NULL. */
TIX_INLINE void queue_advance(struct tix_queue *q, const struct tix_thread *running)
{
	q->clock = queue_mean(q, running, 0);
	queue_rebase(q, q->clock - q->zero);
}

/* File it anew, nearer to its own group, and count it if it counts now. */
TIX_INLINE void queue_refile(struct tix_queue *q, struct vtrr_client *clients, const struct tix_thread *t, u32 c)
{
	struct vtrr_client *client = &clients[c];
	u32 weight = t->share;
	bool is_far = queue_is_far(q, t->tag, t->period);

	if (!client->weight && !is_far) {
		client->weight = weight;
		client->counted = t->tag;
		q->weight += weight;
		q->moment += queue_moment(q, t->tag, weight);
	}
	vtrr_take(&q->vt, clients, c);
	vtrr_put(&q->vt, clients, c, t->tag, queue_group(q, t, is_far));
}

#define OVERDUE_PART 8u	/* of a CPU's time, this part is for who has waited too long, at most */
#define REFILES 2u	/* in one decision */

/* The eligible thread with the earliest finish tag; if there is none, the one with the earliest tag. */
TIX_INLINE u32 queue_first(struct tix_queue *q, struct vtrr_client *clients,
			   const struct tix_thread *threads)
{
	u32 c, tries;

	/* Groups of a longer period are less exact: one that comes up there too early goes to a shorter one's. */
	for (tries = 0; can_loop; tries++) {
		c = vtrr_peek(&q->vt, q->clock);
		if (c >= TIX_THREADS_MAX || tries >= REFILES || clients[c].group == threads[c].group ||
		    (s64)(threads[c].tag - q->clock) <= 0)
			return c;
		queue_refile(q, clients, &threads[c], c);
	}
	return VTRR_NONE;
}

/*
 * The thread to run next, which is linked no longer; or VTRR_NONE: `running` goes on, or there is
 * none. Whoever has waited too long comes first.
 */
TIX_INLINE u32 queue_pick(struct tix_queue *q, struct vtrr_client *clients,
			  const struct tix_thread *threads, const struct tix_thread *running, u64 now)
{
	struct vtrr_choice own;
	u32 c;

	queue_advance(q, running);
	c = VTRR_NONE;
	if ((s64)(now - q->overdue_ns) >= 0)
		c = vtrr_overdue(&q->vt, clients, now, OVERDUE_NS);
	if (c < TIX_THREADS_MAX) {
		/* Not many in a row, however many have waited too long: others have shares. */
		q->overdue_ns = now + threads[c].slice_ns * OVERDUE_PART;
	} else {
		c = queue_first(q, clients, threads);
		if (c != VTRR_NONE && running) {
			own.head = running->tag;
			own.finish = own.head + vtrr_period(running->group);
			own.eligible = (s64)(running->tag - q->clock) <= 0;
			if (!vtrr_before(&q->vt.choice, &own))
				c = VTRR_NONE;
		}
	}
	if (c != VTRR_NONE)
		queue_unlink(q, clients, c);
	return c;
}

#endif
