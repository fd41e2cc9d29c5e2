/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler keeps: an account for each principal, a client for each thread, a queue
 * for each CPU.
 *
 * A principal is a cgroup with threads, or what the daemon made. Virtual time is CPU time, ns,
 * divided by a principal's value (funding.h). Accounts, threads, clients and queues are arrays that
 * the environment supplies (an arena in the kernel, memory on the host), addressed by index.
 *
 * Writers: a queue and the clients linked there, whoever has that queue's lock. A thread's
 * own fields, its CPU, while it wakes, runs or sleeps (the kernel serialises these). Accounts,
 * by atomic additions, whoever charges. Values, under the graph's lock.
 */
#ifndef TIX_CORE_TYPES_H
#define TIX_CORE_TYPES_H

#include "vtrr.h"
#include "funding.h"

#define MIN_SLICE_NS 100000ull
#define ROUND_NS 1500000000ull		/* slices shrink so that each thread has one in it */
#define OVERDUE_NS 5000000000ull	/* whoever waits longer is next, whatever its tag */
#define AHEAD_NS 300000000ull	/* how far an account may be ahead of a CPU's clock, */
#define BEHIND_NS 8000000ull		/* how far it may be behind, of its own, */
#define APART_NS 15000000ull		/* and CPUs' clocks apart from each other */
#define DEBT_NS 1000000000ull	/* what anybody may be ahead or behind inside of a currency */
#define MEMBER_OFF_NS 100000000ull	/* how far a member may be ahead of its siblings, or behind */
#define LINGER_NS 1000000ull		/* a principal that sleeps counts as active for that long */
#define INVERSE_MAX (1ull << 62)	/* 2^-30 of what values are counted against: the smallest weight */
#define PERIOD_MOST (1ull << 54)	/* of a thread, virtual time */
#define WEIGHT_LOG 36u			/* of all that values are counted against in a queue's mean, 2^this */
#define MOMENT_LOG 18u		/* sums are in 2^this of virtual time */
#define COUNTED_PERIODS (1u << 20)	/* of its own by which a tag counts as before a queue's mean, at most */
#define FAR_PERIODS 4u		/* of its own that a tag may be from a queue's mean to count, or be filed as it is */

/* A thread. Where it waits is `queue`; its place there is the client of the same index. */
struct tix_thread {
	s32 pid;
	u32 node;		/* its principal */
	u32 payer;		/* whose account its run is charged to */
	u32 queue;		/* the CPU in whose queue it is linked, and 1; 0: none; HELD: it waits for a limit */
	u32 weight;		/* its nice weight while it counts as runnable, or 0 */
	u32 placed;		/* its tag is for a run that has not begun */
	u64 cpus;		/* that it may use: bit n for those that are n modulo 64 */
	u64 sum_ns;		/* its CPU time up to which it has been charged, */
	u64 slept_sum_ns;	/* and what that was when it slept last */
	u64 tag;		/* start tag of its present or coming run, virtual time */
	u64 served;		/* what it has had among its siblings, 2^-24 ns for each of its weight */
	u64 period;		/* of its client: when it is due again, virtual time; */
	u32 share;		/* its weight in a queue's mean */
	u32 group;		/* and its group there, both of that period */
	u32 slice_ns;
	u32 burst_ns;		/* twice the CPU time from one sleep to the next, a mean of the last ones */
	u32 as_of, of_load;	/* epoch of its payer's value, load of its siblings, */
	u64 of_rate;		/* and rate of the graph, as of which all these are; 0: as of none */
	u32 cpu;		/* that it was placed on last */
	u32 held_by;		/* the limit whose next period it waits for, or 0 */
	u32 next_free;
};

/* A lock of the kernel's that a thread waits for, or may own while others wait. */
struct tix_wait {
	u64 lock;		/* its address, or 0 */
	u32 kind;		/* the tracepoint's flags */
	u32 waits;		/* it waits for it yet */
};

/*
 * The account of a node (account.h). A node that holds a soft ticket of one currency, and nothing else, is a member
 * of that; its threads are another member of its own.
 */
struct tix_account {
	u64 vtime;		/* of one that is no member: what has been used, in virtual time */
	u64 served;		/* of a member: what it has had, 2^-24 ns for each of its tickets */
	u64 own_served;		/* what its own threads have had, for each of FUND_SELF */
	u64 mean;		/* of its active members, by tickets, */
	u64 tickets;		/* and the tickets that these hold */
	u64 thread_mean;	/* of its runnable threads, by weight, 2^-24 ns */
	u64 inverse;		/* 1 / value of its own threads in Q32.32, as of `epoch` of the graph */
	u64 inverse_all;	/* 1 / value of it with its members */
	u64 epoch;
	u64 used_ns;		/* by its own threads */
	u64 slept_ns;		/* of one that is no member: when the last thread of its members went to sleep */
	u32 above;		/* the currency that it is a member of, or 0 */
	u32 amount;		/* the tickets of that which it holds */
	u32 is_counted, own_is_counted;	/* it, or its own threads, are in that mean */
	u32 nr_busy;		/* members with a runnable thread, its own threads included, */
	u32 busy_in;		/* and the node in which it counts as one */
	u32 nr_runnable;	/* of its own */
	u32 load;		/* sum of their nice weights */
};

/* The threads that wait for a CPU. */
struct tix_queue {
	u64 zero;		/* the mean is counted from here */
	s64 moment;		/* sum of weight * (tag - zero) of what is linked */
	u64 weight;		/* sum of these weights */
	u32 running_share;	/* of what was picked last, which runs, as tix_thread.share */
	u64 clock;		/* the mean at the last pick, what ran included */
	u64 reached;		/* the same; where nothing waits the tag of what runs, however late that is */
	s64 beyond;		/* how much later that would be, had nothing been forgiven to threads that ran here */
	u64 clock_most;		/* the clock is no later than this where nothing waits; 0: no limit */
	u64 overdue_ns;		/* nobody is picked before that for having waited too long */
	u32 review;		/* the client that is looked at next, or VTRR_NONE: the oldest, */
	u32 review_left;	/* which it is as well after so many more */
	struct vtrr vt;
};

#endif
