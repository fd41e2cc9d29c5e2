/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accounts: what has been used, and where that puts whoever has used it.
 *
 * The problem: threads of a principal run on many CPUs, beside siblings that come and go, and
 * get its share of the machine all the same. Whatever siblings do among themselves takes
 * nothing from anybody else.
 *
 * The rule. What a thread has used is charged at each level above it. A member of a currency
 * has had so much for each of its tickets (`served`); the mean of that among the active members
 * is theirs, and a member is ahead of it or behind. When a member joins or leaves, the mean
 * moves so that the distances from it add up to nothing, as in EEVDF. A node that is no member of
 * a currency (base funds it, or several do) has an account in virtual time: what it used,
 * divided by its value. The place of a thread is that account, and what the levels below are
 * ahead, each divided by its value. So the account at the top has all that is used below it: a
 * sibling that is served early is served at its siblings' cost.
 *
 * Example: alice is worth 1/2 and has the cgroups P and Q with 100 tickets each; both compute
 * and are at the mean. P runs for 1 ms. alice's account is 2 ms further; P has had 10 us a
 * ticket, the mean is 5 us. P is 0.5 ms ahead (5 us * 100) and Q as much behind; each is worth
 * 1/4. P's place is 2 + 0.5 * 4 = 4 ms, which is 1 ms / (1/4); Q's is 2 - 2 = 0, as before.
 *
 * Cost: four additions a level for a charge. A place costs two multiplications a level, and
 * nothing where a node is alone at its level.
 *
 * Limits: the tag of who waits is as of when it was placed. A member that runs is at most
 * MEMBER_OFF_NS ahead of its siblings or behind; one that comes back, a slice behind.
 */
#ifndef TIX_CORE_ACCOUNT_H
#define TIX_CORE_ACCOUNT_H

#include "queue.h"

#define account_add(where, what) __sync_fetch_and_add(where, what)
#define SERVED_LOG 24u

/* What `ns` are for each of so many tickets. */
TIX_INLINE u64 served_by(u64 ns, u64 tickets)
{
	return tix_divide(ns << SERVED_LOG, tickets);
}

/* `x` within `most` of 0. */
TIX_INLINE s64 within(s64 x, u64 most)
{
	if (x > (s64)most)
		return most;
	return x < -(s64)most ? -(s64)most : x;
}

/* x * a / b, where x is signed. */
TIX_INLINE s64 scaled(s64 x, u64 a, u64 b)
{
	return fund_like(x, tix_divide(fund_size(x) * a, b));
}

/* By how many ns one that has had `served` with so many tickets is ahead of the mean. */
TIX_INLINE s64 ahead_ns(u64 served, u64 mean, u64 tickets)
{
	u64 size = fund_size(served - mean), ns = DEBT_NS;

	if (!(size >> 56))
		ns = (size >> SERVED_LOG) * tickets + ((size & ((1u << SERVED_LOG) - 1)) * tickets >> SERVED_LOG);
	return fund_like(served - mean, tix_unknown(ns < DEBT_NS ? ns : DEBT_NS, mean));
}

/* Virtual time that `ns` are of one of that value. */
TIX_INLINE s64 in_vtime(s64 ns, u64 inverse)
{
	return fund_like(ns, tix_mul_q32(fund_size(ns), inverse));
}

/* The CPU time that virtual time `v` is worth by `inverse`, ns. */
TIX_INLINE s64 unweighed(s64 v, u64 inverse)
{
	u64 size = fund_size(v), by = (inverse >> 16) ?: 1, whole = size / by;

	return fund_like(v, (whole << 16) + ((size - whole * by) << 16) / by);
}

/* One that comes back is behind by `credit` at most. */
TIX_INLINE void clamp_served(u64 *served, u64 mean, u64 tickets, u64 credit)
{
	s64 least = -(s64)served_by(credit, tickets);

	if ((s64)(*served - mean) < least)
		*served = mean + least;
}

/*
 * One that has had `*served` joins those with `others` tickets, and is then behind by `credit` ns at most. It
 * is further from the mean before than after.
 */
TIX_INLINE void join_mean(u64 *served, u64 *mean, u64 others, u64 tickets, u64 credit)
{
	s64 x;

	if (!others) {
		*mean = *served;
		return;
	}
	clamp_served(served, *mean, tickets, credit + scaled(credit, tickets, others));
	x = within(*served - *mean, served_by(DEBT_NS, tickets));
	*served = *mean + x;
	account_add(mean, scaled(x, tickets, others + tickets));
}

/*
 * Of those that have `all` tickets none is behind by more than `behind` ns, nor ahead by more than MEMBER_OFF_NS: it may
 * not be able to use what it is due, or have a CPU that nobody else wants, and the others would be off by ever more. One
 * is `off` ns ahead of the mean, which is `middle`; the result: by how many it is afterwards. The mean moves with it, so
 * that the distances from it add up to nothing, as if those with the other tickets had had, or given, what is forgiven.
 */
TIX_INLINE s64 forgive(u64 *served, u64 *mean, u64 middle, u64 tickets, u64 all, s64 behind, s64 off)
{
	s64 may = off;
	u64 by, moves;

	if (off < -behind)
		may = -behind;
	else if (off > (s64)MEMBER_OFF_NS)
		may = MEMBER_OFF_NS;
	may = tix_unknown(may, middle);
	if (may != off) {
		by = served_by(fund_size(may - off), tickets);
		moves = served_by(fund_size(may - off), all - tickets);
		account_add(served, fund_like(may - off, by + moves));
		account_add(mean, fund_like(may - off, moves));
	}
	return tix_unknown(may, middle);
}

/* One leaves, and those with `others` tickets stay. */
TIX_INLINE void leave_mean(u64 served, u64 *mean, u64 others, u64 tickets)
{
	if (others)
		account_add(mean, -scaled(within(served - *mean, served_by(DEBT_NS, tickets)), tickets, others));
}

/* 1 / value in Q32.32, rounded up to INVERSE_MAX. */
TIX_INLINE u64 account_inverse(u64 value)
{
	u32 by;

	if (value <= FUND_ONE / (INVERSE_MAX >> 32))
		return INVERSE_MAX;
	by = tix_fls64(value) - 31;
	return ((1ull << 63) / (value >> by)) << (31 - by);
}

/* Where V may be for `ns`, in virtual time: `rate` is the graph's, for each CPU's worth. */
TIX_INLINE u64 account_vtime(u64 ns, u64 rate, u32 nr_cpus)
{
	return tix_mul_q32(ns, rate) * nr_cpus;
}

/*
 * The slice of a thread of the principal `own`, of which it is one of several, or its only one, and its period:
 * short enough to have one in a round.
 */
TIX_INLINE void account_slice(const struct tix_account *own, struct tix_thread *t, bool is_one_of,
			      u64 slice_ns, u64 round)
{
	u64 period = tix_mul_q32(slice_ns, own->inverse), shrunk, ratio;

	if (is_one_of && own->load > t->weight && t->weight) {
		ratio = ((u64)own->load << 8) / t->weight;
		period = period < (PERIOD_MOST << 8) / ratio ? period * ratio >> 8 : PERIOD_MOST;
	}
	if (period > round) {
		shrunk = slice_ns * (round >> 16) / (period >> 16);
		if (shrunk < MIN_SLICE_NS)
			shrunk = MIN_SLICE_NS;
		period = period / slice_ns * shrunk;
		slice_ns = shrunk;
	}
	t->slice_ns = slice_ns;
	t->period = period;
	t->share = queue_weight(period, slice_ns);
	t->group = vtrr_group_of(period);
}

#define FORGOTTEN_NS (60 * 1000000000ull)	/* whoever sleeps longer owes nothing */

/* How far one that sleeps is ahead of a CPU's `clock`. CPUs' times differ a little: `now` may be before it slept. */
TIX_INLINE s64 account_lag(const struct tix_account *a, u64 clock, u64 now)
{
	s64 lag = a->vtime - clock;

	return lag > 0 && (s64)(now - a->slept_ns) > (s64)FORGOTTEN_NS ? 0 : lag;
}

/*
 * A node that is no member comes back on a CPU whose clock is `clock`, and is where it was: a clock goes on while one
 * sleeps. It is behind `early`, which is no later than the clock, by `credit` at most, and ahead of
 * the clock by `credit + most`. The clock is a mean that moves towards whoever joins it: `join` (Q8)
 * is how much further away one has to begin that is to be owed `credit` afterwards.
 */
TIX_INLINE void account_return(struct tix_account *a, u64 clock, u64 early, u64 credit, u64 most,
			       u64 now, u32 join)
{
	s64 least = (early - clock) - credit - (credit >> 8) * (s32)(join - 256);
	s64 lag = account_lag(a, clock, now);

	if (lag < least)
		lag = least;
	if (lag > (s64)(credit + most))
		lag = credit + most;
	a->vtime = clock + lag;
}

#endif
