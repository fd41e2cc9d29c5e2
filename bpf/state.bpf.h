/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's memory: nodes, queues and virtual-time structures in an arena whose
 * pages are allocated when an index is first used, plus what hangs on tasks and CPUs.
 *
 * One lock orders everything that vtrr.h and funding.h do. It is taken at most once per
 * decision; a wake-up in a principal that is already queued does not take it.
 */
#ifndef TIX_STATE_BPF_H
#define TIX_STATE_BPF_H

#define ARENA_BASE (1ull << 44)
#define ARENA_PAGES 196608	/* 768 MiB of addresses, memory on demand */

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ARENA_PAGES);
	__ulong(map_extra, ARENA_BASE);
} arena SEC(".maps");

/* A node's side of scheduling; FUNDS has its side of funding. Under tix_lock but nr_runnable. */
struct tix_node {
	u64 inverse;		/* 1 / value in Q32.32 */
	u64 budget;		/* ns of CPU it is due in ROUND_NS */
	/* FUNDS[].ver and issued, and the graph's rate, that they were computed from */
	u64 self_ver, self_issued, self_rate;
	u64 vtime;		/* virtual time inside the principal, ns at nice 0 */
	u64 turn_at;		/* when the present turn began (turn_locked) */
	u64 high, last_high;	/* latest place given out in it; in the one before */
	u64 used_ns;
	/* account.bpf.h: what it has had more than its due since it became active, */
	u64 had_ns, was_had, was_due;
	s64 lead;
	s64 sum_lead;		/* the same by its queues' accounts, as they were looked at last, ns */
	u64 seen_at, seen_due, seen_had;	/* up to when it was looked at, and what was due then, and had */
	s64 excess;		/* what it could not use of what was due, ns */
	u64 not_due;		/* what of it ran over to others, as of due.h */
	u64 rate, slack;	/* CPUs' worth that was due to it lately, Q16, and what is in SLACK_NS, virtual time */
	u32 stint;		/* how often it became active */
	u64 cgid;
	u32 parent;
	u32 weight;		/* cpu.weight, also while another currency funds it */
	u32 flags;
	u32 nr_tasks;		/* threads that belong to it, runnable or not */
	u32 nr_holders;		/* nodes that hold a ticket of its */
	u32 nr_runnable;	/* atomic */
	u32 load;		/* atomic: sum of their nice weights */
	u32 self_active;
	u32 homes;		/* first of its queues on CPUs, or VTRR_NONE */
	u32 next_free;
	/* limit.bpf.h: cpu.max, or a currency's limit; ns, */
	u64 quota;		/* 0: it has no limit of its own */
	u64 every, burst;
	s64 left;		/* of this period's */
	u64 next_at;		/* when the next one begins */
	u64 crowd;		/* threads that wait for the next one, and one of each queue */
	u64 room;		/* queues that may yet be let go in it */
	u64 nr_periods, nr_throttled, throttled_ns;
	u64 spent_at;		/* since when queues wait for the next one, or 0 */
	u64 release;		/* how often those that wait were let go */
	u64 held_until;		/* its own threads wait until this is no longer that of */
	u32 held_by;		/* this limit; 0: of none */
	u32 cap;		/* the currency's limit that caps it; of such a limit, the next that counts where it does; or 0 */
	u32 limit, limit_seen;	/* the nearest of it and the cgroups above that has a limit or a cap; as of limits_epoch */
	u64 walked;		/* which of the walks was here last (tix_debit) */
	u32 first_held, last_held;	/* queues that wait for the next period, and 1; or 0 */
	u32 next_spent;		/* of the limits that queues wait for */
	/* lead.bpf.h */
	u32 kept_round;		/* when these were kept: whoever is taken out has no cgroups any longer */
	u32 owed_round;		/* when what is owed below it was told of somebody there */
	s64 kept_lead;		/* what it had had more than its due, ns */
	u64 kept_had;		/* had_ns then */
	u64 kept_share;		/* 0: it was not active */
	u64 kept_cgid, kept_quota;
};

/*
 * Threads of one node that wait in one place: a client of the round-robin. A principal
 * with threads on several CPUs has a client on each, with the part of its share that the
 * nice weights of its threads there are of all its runnable ones'.
 */
struct tix_queue {
	u64 tag;		/* start tag s_i, ns of virtual time */
	u64 inverse;		/* 1 / value in Q32.32, as charged */
	u64 period;		/* slice * inverse: q_i, ns of virtual time */
	u64 behind, ahead;	/* how far from V the tag may be, likewise */
	u32 node;
	u32 vt;			/* which struct vtrr it is filed in */
	u32 nr;			/* atomic: threads in the DSQ or promised to it */
	u32 load;		/* atomic: sum of their nice weights */
	u32 next;		/* of the same node, or of the free list */
	u32 held;		/* it waits for a limit's next period (hold.bpf.h), so many threads and one, */
	u32 next_held;		/* and so does this one, and 1; or 0 */
	u32 slice;		/* ns */
	u32 group;
	u32 brief;		/* filed for a run of MIN_SLICE_NS, at once */
	u32 forced;		/* 0, or charged less than by its share, so that all of its threads get to run: by this part in Q16 */
	u32 stint;		/* its principal's when was_lead was told */
	/* overdue.bpf.h, of one that has a limit */
	u32 rest;		/* threads that are to be served before the round is over */
	u64 round_at;		/* when the first of them was */
	u64 unserved;		/* nobody in it has waited for longer than since then */
	s64 was_lead;		/* account.bpf.h: when it was looked at last, ns */
	u64 seen_v;		/* when its lead was told from what it was due last, V; 0: take the tag as it is */
	u64 seen_due;		/* what that was (due.h) */
	/* what these were computed from */
	u64 seen_epoch;
	u64 seen_rate, seen_rates;	/* good from this rate of the graph on, and for so many */
	u32 seen_nr, seen_nrs;		/* likewise, of threads */
	u32 seen_load, seen_total;
};

#define PAGE 4096ull
#define ROUND_UP(x) (((x) + PAGE - 1) / PAGE * PAGE)
#define FUNDS_OFF PAGE
#define NODES_OFF (FUNDS_OFF + ROUND_UP(sizeof(struct fund_node) * TIX_NODES_MAX))
#define QUEUES_OFF (NODES_OFF + ROUND_UP(sizeof(struct tix_node) * TIX_NODES_MAX))
#define CLIENTS_OFF (QUEUES_OFF + ROUND_UP(sizeof(struct tix_queue) * TIX_QUEUES_MAX))
#define VT_NR (3u * TIX_CPUS_MAX + 1u)
#define VT_OFF (CLIENTS_OFF + ROUND_UP(sizeof(struct vtrr_client) * TIX_QUEUES_MAX))
#define VT_SIZE ROUND_UP(sizeof(struct vtrr))
#define GRAPH_OFF (VT_OFF + VT_SIZE * VT_NR)
#define ARENA_END (GRAPH_OFF + ROUND_UP(sizeof(struct fund_graph)))
_Static_assert(ARENA_END <= ARENA_PAGES * PAGE, "the arena holds the tables");

/*
 * A pointer into the arena that the verifier knows as one. Not left to the compiler:
 * clang 19 loses its own casts when it splits an address computation.
 */
static __always_inline void *arena_at(u64 offset)
{
	void *p = (void *)(ARENA_BASE + offset);

	asm("%0 = addr_space_cast(%0, 0x0, 0x1)" : "+r"(p));
	return p;
}

#define FUNDS ((struct fund_node *)arena_at(FUNDS_OFF))
#define NODES ((struct tix_node *)arena_at(NODES_OFF))
#define QUEUES ((struct tix_queue *)arena_at(QUEUES_OFF))
#define CLIENTS ((struct vtrr_client *)arena_at(CLIENTS_OFF))
/* Those at home nowhere in particular; at home on a CPU; on a CPU, but not allowed on all others; bound to a CPU. */
#define VT_ANY 0u
#define VT_HOME(cpu) (1u + 3u * (u32)(cpu))
#define VT_SOME(cpu) (2u + 3u * (u32)(cpu))
#define VT_BOUND(cpu) (3u + 3u * (u32)(cpu))
#define VT_CPU(i) (((i) - 1u) / 3u)
#define VT(i) ((struct vtrr *)arena_at(VT_OFF + VT_SIZE * (u64)(i)))
#define GRAPH ((struct fund_graph *)arena_at(GRAPH_OFF))

/* Both are aligned to 8, and `size` is a constant: a few instructions, and no loop for the verifier. */
#define copy_words(to, from, size) \
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), size)

/* An arena is usable only in programs that name it. */
#define USES_ARENA() asm volatile("" ::"r"(&arena))

#endif
