/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual-time round-robin in constant time (after Nieh, Vaill, Zhong 2001).
 *
 * The problem: among clients with shares S_i, run next the one that keeps everybody
 * closest to its share, at a cost that does not depend on how many clients there are.
 *
 * How it works. Virtual time V advances by what was used divided by the sum of the
 * shares (Nieh eq. 4). A client has a start tag s_i, which advances by used / S_i
 * (eq. 5), and a period q_i = quantum / S_i; s_i + q_i is its virtual finishing time.
 * Nieh §3.3 makes insertion O(1) by an array of queues, one per share, and a bitmap.
 * Here clients whose periods lie within half an octave form a *group*; a group is a ring
 * of VTRR_SLOTS queues ordered by start tag, with a bitmap; the groups have a bitmap over
 * them. A client is eligible when its slot is not later than V. The next
 * client is the head of the earliest slot of the eligible group with the smallest
 * head + period. When none is eligible, V jumps to the earliest slot.
 *
 * Example, shares 3:2:1 (of 6), quantum 1: periods 2, 3, 6, which groups round up to 3, 4, 8;
 * all tags 0. V = 0: A is next (finish 3), its tag becomes 2, V = 1; then B (4); V = 2: A
 * again (5); and so on: A B A B A C, each within one quantum of its due at every moment.
 *
 * Cost: insert and remove are O(1). A pick looks at each group that is not empty, VTRR_GROUPS
 * at most, whatever the number of clients.
 *
 * Virtual time is only as good as the shares that the caller knows: one who cannot be given
 * its share (its CPU is full, the machine half idle) may see its tag recede. Clients are
 * linked by when they were filed as well, so that the caller finds who waits too long.
 *
 * Limits: a tag that lies further than the ring from the earliest one is put at the
 * ring's end (order within the group is lost there, the tag itself is kept by the
 * caller); one that is so much earlier goes to the nearest shorter group that is empty.
 * Tags wrap around: those filed at one time and V are within 2^62 of each other.
 * Periods are clamped to 2^VTRR_MIN_OCTAVE ... 2^(VTRR_MIN_OCTAVE + 32).
 *
 * The caller serialises all calls on one struct vtrr.
 */
#ifndef TIX_VTRR_H
#define TIX_VTRR_H

#include "arch.h"

#define VTRR_NONE 0xffffffffu
#define VTRR_SLOTS 64u
#define VTRR_SUB_BITS 1u	/* groups per octave of the period: 2^VTRR_SUB_BITS */
#define VTRR_MIN_OCTAVE 17u	/* 0.1 ms: shortest period, one minimal slice of all there is */
#define VTRR_OCTAVES 32u
#define VTRR_GROUPS (VTRR_OCTAVES << VTRR_SUB_BITS)
#define VTRR_LATER (1ull << 63)
#define VTRR_SLOT_BITS 3u	/* slots per octave's lower bound: 2^VTRR_SLOT_BITS */

/* A place in a queue. `tag` is what the client was filed under. */
struct vtrr_client {
	u64 tag;
	u64 since;			/* when it began to wait, by the caller's clock; 0: it does not */
	u32 next, prev;			/* in its slot */
	u32 older, newer;		/* by when they were filed */
	u16 group;
	u16 slot;
	u32 linked;
	u32 weight;			/* the caller's (queue.h), */
	u64 counted;			/* and where it counts */
};

struct vtrr_group {
	u64 map;			/* slots that are not empty */
	u32 head[VTRR_SLOTS], tail[VTRR_SLOTS];
};

/* When a group's earliest non-empty slot begins, and the virtual finishing time of its clients. */
struct vtrr_due {
	u64 head, finish;
};

/* What vtrr_peek() found. `finish` orders choices between several struct vtrr. */
struct vtrr_choice {
	u64 head;
	u64 finish;
	u32 eligible;
	u32 group;	/* VTRR_NONE: nobody is linked */
};

struct vtrr {
	u64 map;			/* groups that are not empty */
	u32 nr;				/* clients linked */
	u32 oldest, newest;		/* of them, if there are any */
	struct vtrr_choice choice;	/* of vtrr_peek() */
	struct vtrr_due due[VTRR_GROUPS];	/* of what is not empty */
	struct vtrr_group g[VTRR_GROUPS];
};

TIX_INLINE u32 vtrr_shift(u32 group)
{
	return VTRR_MIN_OCTAVE - VTRR_SLOT_BITS + (group >> VTRR_SUB_BITS);
}

/* The group of a period (ns of virtual time). */
TIX_INLINE u32 vtrr_group_of(u64 period)
{
	u32 octave, group;

	if (period < 1ull << VTRR_MIN_OCTAVE)
		return 0;
	octave = tix_fls64(period);
	group = ((octave - VTRR_MIN_OCTAVE) << VTRR_SUB_BITS) |
		((period >> (octave - VTRR_SUB_BITS)) & ((1u << VTRR_SUB_BITS) - 1));
	return group < VTRR_GROUPS ? group : VTRR_GROUPS - 1;
}

/* The longest period of a group, which stands for all of its clients. */
TIX_INLINE u64 vtrr_period(u32 group)
{
	u32 octave = VTRR_MIN_OCTAVE + (group >> VTRR_SUB_BITS);
	u64 sub = group & ((1u << VTRR_SUB_BITS) - 1);

	return ((1ull << VTRR_SUB_BITS) + sub + 1) << (octave - VTRR_SUB_BITS);
}

TIX_INLINE u64 vtrr_rotate(u64 map, u64 by)
{
	by &= VTRR_SLOTS - 1;
	return by ? (map >> by) | (map << (VTRR_SLOTS - by)) : map;
}

/* The number of the group's earliest non-empty slot, not reduced. */
TIX_INLINE u64 vtrr_lo(const struct vtrr *v, u32 group)
{
	return v->due[group].head >> vtrr_shift(group);
}

/* The group has a first client, or an earlier one, in the slot that begins at `head`. */
TIX_INLINE void vtrr_begin(struct vtrr *v, u32 group, u64 head)
{
	v->due[group].head = head;
	v->due[group].finish = head + vtrr_period(group);
}

/* Put client `c` into the slot of `tag` in group `group`. */
TIX_INLINE void vtrr_put(struct vtrr *v, struct vtrr_client *clients, u32 c, u64 tag, u32 group)
{
	struct vtrr_group *g;
	struct vtrr_client *me = &clients[c];
	u64 no, span;
	s64 ahead;
	u32 s, shift;

	g = &v->g[group];
	shift = vtrr_shift(group);
	no = tag >> shift;
	ahead = (s64)((no << shift) - v->due[group].head) >> shift;
	if (!g->map) {
		ahead = -1;
	} else if (ahead < 0) {
		span = tix_fls64(vtrr_rotate(g->map, vtrr_lo(v, group))) - ahead;
		if (span >= VTRR_SLOTS && (~v->map & ((1ull << group) - 1))) {
			group = tix_fls64(~v->map & ((1ull << group) - 1));
			g = &v->g[group];
			shift = vtrr_shift(group);
			no = tag >> shift;
		} else if (span >= VTRR_SLOTS) {
			no += span - (VTRR_SLOTS - 1);
			ahead += span - (VTRR_SLOTS - 1);
		}
	} else if (ahead >= VTRR_SLOTS) {
		no = vtrr_lo(v, group) + VTRR_SLOTS - 1;
	}
	no = tix_unknown(no, tag);
	group = tix_unknown(group, tag);
	if ((s64)tix_unknown(ahead, tag) < 0)
		vtrr_begin(v, group, no << shift);

	s = no & (VTRR_SLOTS - 1);
	me->tag = tag;
	me->group = group;
	me->slot = s;
	if (!(g->map & (1ull << s))) {
		me->next = me->prev = VTRR_NONE;
		g->head[s] = g->tail[s] = c;
		g->map |= 1ull << s;
	} else {
		me->next = VTRR_NONE;
		me->prev = g->tail[s];
		clients[g->tail[s]].next = c;
		g->tail[s] = c;
	}
	v->map |= 1ull << group;
}

/* Take it out of there. */
TIX_INLINE void vtrr_take(struct vtrr *v, struct vtrr_client *clients, u32 c)
{
	struct vtrr_client *me = &clients[c];
	u32 group = me->group, s = me->slot & (VTRR_SLOTS - 1);
	struct vtrr_group *g;
	u64 lo;

	g = &v->g[group];
	if (me->prev == VTRR_NONE)
		g->head[s] = me->next;
	else
		clients[me->prev].next = me->next;
	if (me->next == VTRR_NONE)
		g->tail[s] = me->prev;
	else
		clients[me->next].prev = me->prev;
	if (g->head[s] != VTRR_NONE)
		return;
	g->map &= ~(1ull << s);
	lo = vtrr_lo(v, group);
	if (!g->map)
		v->map &= ~(1ull << group);
	else if (s == (lo & (VTRR_SLOTS - 1)))
		vtrr_begin(v, group, (lo + tix_ctz64(vtrr_rotate(g->map, lo))) << vtrr_shift(group));
}

/*
 * File client `c`, which waits since `since`, under `tag` in group `group`; `is_oldest`: it counts as the one that has
 * waited longest, else as the one that came last. The client must not be linked.
 */
TIX_INLINE void vtrr_link(struct vtrr *v, struct vtrr_client *clients, u32 c, u64 tag, u32 group, u64 since,
			  bool is_oldest)
{
	struct vtrr_client *me = &clients[c];

	vtrr_put(v, clients, c, tag, group);
	me->linked = 1;
	me->since = since;
	me->newer = me->older = VTRR_NONE;
	if (!v->nr) {
		v->oldest = v->newest = c;
	} else if (is_oldest) {
		me->newer = v->oldest;
		clients[v->oldest].older = c;
		v->oldest = c;
	} else {
		me->older = v->newest;
		clients[v->newest].newer = c;
		v->newest = c;
	}
	v->nr++;
}

/* Take client `c` out. The client must be linked. */
TIX_INLINE void vtrr_unlink(struct vtrr *v, struct vtrr_client *clients, u32 c)
{
	struct vtrr_client *me = &clients[c];

	vtrr_take(v, clients, c);
	if (me->older == VTRR_NONE)
		v->oldest = me->newer;
	else
		clients[me->older].newer = me->newer;
	if (me->newer == VTRR_NONE)
		v->newest = me->older;
	else
		clients[me->newer].older = me->older;
	me->linked = 0;
	v->nr--;
}

/*
 * Find whom to run next at virtual time `now`; the result is the client, or VTRR_NONE, and
 * v->choice. Eligible groups go by their finishing time, then the others by their heads. If the
 * choice is not eligible, no client of this struct is, and `head` is the earliest time at
 * which one will be.
 */
TIX_INLINE u32 vtrr_peek(struct vtrr *v, u64 now)
{
	u64 left = v->map, best = tix_unknown(~0ull, now), head, when;
	u32 group = tix_unknown(VTRR_NONE, now), each;

	while (left && can_loop) {
		each = tix_ctz64(left);
		left = tix_unknown(left & (left - 1), now);
		head = v->due[each].head;
		when = head - now;
		if ((s64)when > 0)
			when |= VTRR_LATER;
		else
			when = v->due[each].finish - now + VTRR_LATER / 2;
		if (when < best) {
			best = when;
			group = each;
		}
	}
	v->choice.group = group;
	if (group >= VTRR_GROUPS)
		return VTRR_NONE;
	v->choice.head = v->due[group].head;
	v->choice.finish = v->due[group].finish;
	v->choice.eligible = !(best & VTRR_LATER);
	return v->g[group].head[vtrr_lo(v, group) & (VTRR_SLOTS - 1)];
}

/* Whether choice `a` goes before choice `b`. */
TIX_INLINE bool vtrr_before(const struct vtrr_choice *a, const struct vtrr_choice *b)
{
	if (a->eligible != b->eligible)
		return a->eligible;
	return a->eligible ? (s64)(a->finish - b->finish) < 0 : (s64)(a->head - b->head) < 0;
}

/* The client that has waited longest, if that is longer than `limit`; or VTRR_NONE. */
TIX_INLINE u32 vtrr_overdue(const struct vtrr *v, const struct vtrr_client *clients, u64 now,
			    u64 limit)
{
	if (!v->nr || (s64)(now - clients[v->oldest].since) <= (s64)limit)
		return VTRR_NONE;
	return v->oldest;
}

#endif
