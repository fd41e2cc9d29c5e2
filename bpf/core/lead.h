/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a limit's period goes on with in the next build of the scheduler (handover.bpf.h).
 *
 * The clock is the kernel's, so both builds mean the same moment. The new one began a period of its
 * own when it was loaded, and some of that is used: it goes on with the old one's instead, less
 * what was used here. Periods that began in between begin when somebody looks (refill_locked).
 *
 * Example: 50 ms in every 100. The old one had 10 left when it went, 30 ms before its period's end;
 * 20 ms later the new one is told, and has given 4. So 6 are left for 10 ms more.
 */
#ifndef TIX_LEAD_H
#define TIX_LEAD_H

#include "arch.h"

/* A limit, as far as its period is concerned; ns. */
struct lead_period {
	u64 quota, every, burst;
	s64 left;
	u64 next_at;
};

/*
 * `to`, whose first period has just begun, goes on with that of which `left` was left until `next_at`; nothing is owed for
 * longer than `most`. False: that is none of a limit of `quota` in `every` like this one, and nothing is changed.
 */
TIX_INLINE bool lead_period(struct lead_period *to, u64 quota, u64 every, s64 left, u64 next_at,
			    u64 now, u64 most)
{
	s64 used = (s64)to->quota - to->left, least;

	if (!quota || !every || quota != to->quota || every != to->every)
		return false;
	/* It ends within one, or ended not long ago: else the numbers are not to be believed. */
	if ((s64)(next_at - now) > (s64)every || (s64)(now - next_at) > (s64)most)
		return false;
	least = -(s64)(quota * (most / every + 1));
	if (left > (s64)(quota + to->burst))
		left = quota + to->burst;
	if (left < least)
		left = least;
	if (used < 0)
		used = 0;
	to->left = left - used;
	to->next_at = next_at;
	return true;
}

#endif
