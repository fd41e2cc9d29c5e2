/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A principal's account: what its threads' runs are charged to, and where they are placed.
 *
 * The problem: threads of a principal run on many CPUs at once, and together they get its
 * share of the machine, however they are spread.
 *
 * The rule: there is one account for each principal, in virtual time. Whichever CPU ran a
 * thread of it adds what was used, divided by the principal's value. A thread that is put into
 * a queue reserves a slice ahead, so that those put there after it have later tags; what it
 * used instead is settled when its run ends. A principal that comes back from sleep stands as
 * far from the clock of the CPU as it stood from the one where it went to sleep, less what time
 * has passed since: it owes what it had too much, and is owed a slice at most.
 *
 * Example: P is worth 1/2 and has two threads, slices of 1 ms, the account at 10 ms. Put into
 * queues they have the tags 10 and 12, and the account is at 14. The first uses 0.5 ms: 2 - 1
 * are given back, the account is at 13, and it is placed there next.
 *
 * Cost: an atomic addition for each placing and each charge.
 *
 * Limits: while a principal's value changes what is reserved is settled by the old one.
 */
#ifndef TIX_CORE_ACCOUNT_H
#define TIX_CORE_ACCOUNT_H

#include "types.h"

#define account_add(where, what) __sync_fetch_and_add(where, what)

/* CPU time at nice 0 that is worth `ns` at nice weight `weight`. */
TIX_INLINE u64 account_at_nice_0(u64 ns, u32 weight)
{
	return weight == 100 || !weight ? ns : ns * 100 / weight;
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

/* `by` is added to an account; to one that sleeps so that it comes back with it. */
TIX_INLINE void account_move(struct tix_account *a, s64 by)
{
	account_add(&a->vtime, by);
	if (!a->nr_runnable)
		account_add(&a->lag_vtime, by);
}

/* The reservation for a run of `t` is given back. */
TIX_INLINE void account_settle(struct tix_account *payer, struct tix_thread *t)
{
	account_move(payer, -t->reserved_vtime);
	t->reserved_vtime = 0;
}

/*
 * `t` has used CPU time up to `sum`, at `price` (Q8) of the CPU: its payer is charged, and what was
 * reserved given back.
 */
TIX_INLINE void account_charge(struct tix_account *payer, struct tix_account *own,
			       struct tix_thread *t, u64 sum, u32 weight, u32 price)
{
	u64 used = sum - t->sum_ns;

	if (used >> 40)		/* it was in another class, or a clock went backwards */
		used = 0;
	t->sum_ns = sum;
	account_move(payer, (tix_mul_q32(used, payer->inverse) * price >> 8) - t->reserved_vtime);
	t->reserved_vtime = 0;
	account_add(&own->used_ns, used);
	t->inner_ns += account_at_nice_0(used, weight);
	if (own->nr_runnable > 1)
		account_add(&own->inner_ns, account_at_nice_0(used, own->load));
}

/*
 * How far ahead of its siblings' mean thread `t` is, in its principal's virtual time: by two of its
 * own turns at most.
 */
TIX_INLINE s64 account_lead(struct tix_account *own, struct tix_thread *t, u64 slice_ns, u32 nr)
{
	s64 lead = t->inner_ns - own->inner_ns;
	s64 most = account_at_nice_0(slice_ns, t->weight) * 2, least = -(s64)slice_ns * 2;

	if (nr <= 1) {
		t->inner_ns = own->inner_ns;
		return 0;
	}
	if (lead > most)
		lead = most;
	if (lead < least)
		lead = least;
	t->inner_ns = own->inner_ns + lead;
	return lead;
}

/* Where V may be for `ns`, in virtual time: `rate` is the graph's, for each CPU's worth. */
TIX_INLINE u64 account_vtime(u64 ns, u64 rate, u32 nr_cpus)
{
	return tix_mul_q32(ns, rate) * nr_cpus;
}

/*
 * Bring the slice of a principal's threads up to date, of which `nr` are runnable: short enough for each to
 * have one in a round. `rate` is the graph's.
 */
TIX_INLINE void account_slice(struct tix_account *own, u64 slice_ns, u64 rate, u32 nr_cpus, u32 nr)
{
	u64 round, all;

	if (own->rate == rate && own->nr == nr && own->period)
		return;
	own->rate = rate;
	own->nr = nr;
	round = account_vtime(ROUND_NS, rate, nr_cpus);
	all = tix_mul_q32(slice_ns, own->inverse) * nr;
	if (all > round) {
		slice_ns = round / ((own->inverse * nr >> 32) ?: 1);
		if (slice_ns < MIN_SLICE_NS)
			slice_ns = MIN_SLICE_NS;
	}
	own->slice_ns = slice_ns;
	own->period = tix_mul_q32(slice_ns, own->inverse);
}

/* How far a principal that sleeps would be ahead of a CPU's clock now, as that has passed by `passed`. */
TIX_INLINE s64 account_lag_now(const struct tix_account *own, u64 passed)
{
	s64 lag = own->lag_vtime;

	if (lag > 0 && passed >= (u64)lag)
		return -(s64)(passed - lag);
	return lag - (s64)passed;
}

/*
 * A principal's first thread wakes up on a CPU whose clock is `clock`, a mean that moves towards whoever joins it:
 * `join` (Q8) is how much further away that one has to begin for its lag to be what it was afterwards. It is owed
 * `credit` at most, and `apart` more for what CPUs' clocks may differ.
 */
TIX_INLINE void account_return(struct tix_account *own, u64 clock, u64 credit, u64 apart, u64 passed, u32 join)
{
	s64 lag = account_lag_now(own, passed), more = 0;

	if (lag < -(s64)credit) {
		more = lag + (s64)credit;
		lag = -(s64)credit;
		if (more < -(s64)apart)
			more = -(s64)apart;
	}
	own->vtime = clock + more + (lag >> 8) * join;
}

/*
 * Place `t`: reserve a slice of its payer, and give it a tag. Where others wait the account is no further from
 * `clock` than these bounds.
 */
TIX_INLINE void account_place(struct tix_account *payer, struct tix_thread *t, u64 period,
			      s64 lead_vtime, u64 clock, u64 rate, u32 nr_cpus, bool bounded)
{
	s64 off = payer->vtime - clock, by = 0, near = (s64)(payer->nr + 2) * (s64)period, far;

	/* Most are near, and what is far needs no looking at. */
	if (bounded && off < -near) {
		far = near + account_vtime(BEHIND_NS, rate, nr_cpus);
		by = off < -far ? -far - off : 0;
	} else if (bounded && off > near) {
		far = near + account_vtime(AHEAD_NS, rate, nr_cpus);
		by = off > far ? far - off : 0;
	}
	t->reserved_vtime = period;
	t->tag = account_add(&payer->vtime, by + (s64)period) + by + lead_vtime;
}

#endif
