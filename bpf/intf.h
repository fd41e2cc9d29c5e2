/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF program and the loader share: limits, the arguments of the SEC("syscall")
 * programs, and the layout version under which maps and programs are pinned.
 */
#ifndef TIX_INTF_H
#define TIX_INTF_H

#include "core/funding.h"

#define TIX_LAYOUT 11u			/* raised whenever pinned state changes its meaning */
#define TIX_LEADS 1u			/* raised whenever what one build tells another of leads changes */
#define TIX_NODES_MAX (131072u + 1024u)	/* cgroups and named currencies */
#define TIX_THREADS_MAX 4194304u	/* as the kernel has at most */
#define TIX_CPUS_MAX 1024u

/* The bits of struct tix_node.flags. */
#define TIX_NODE_CGROUP 1u		/* mirrors a cgroup that exists */
#define TIX_NODE_NAMED 2u		/* made by the daemon */
#define TIX_NODE_BY_PARENT 4u		/* edge[0] is the parent's cpu.weight ticket */
#define TIX_NODE_LIMIT 8u		/* made by the daemon: a currency's limit */

/*
 * An index is handed out again when what it stood for is gone. So whoever names a node says as well
 * which it means: the id of its cgroup, or the maker's number for it; 0 for base, which stays.
 */

/*
 * Argument of tix_funding: replace what backs `node`. With `by_parent`, edge[0] (any) stands
 * for the parent's cpu.weight ticket. `err` is 0 or a negative errno; -ENOENT: one of them is gone.
 */
struct tix_funding_args {
	u32 node;
	u32 by_parent;
	u32 nr;
	s32 err;
	u32 hard;		/* bit i: edge[i] is thousandths of its issuer */
	u32 pad;
	s64 delta;		/* exchange tickets, thousandths of a base ticket */
	u64 id;			/* of `node`, */
	u64 issuer_id[FUND_FUNDERS];	/* and of the issuers */
	struct fund_edge edge[FUND_FUNDERS];
	u16 part[FUND_FUNDERS];	/* where those rest while it is inactive: proportions */
};

/* Argument of tix_name: make (`node` is the result) or drop a named currency or a currency's limit. */
struct tix_name_args {
	u32 create;		/* TIX_NODE_NAMED or TIX_NODE_LIMIT; 0: drop `node` */
	u32 node;
	s32 err;
	u32 pad;
	u64 cid;		/* the maker's number for it, told again by tix_read; which is dropped */
};

/*
 * Argument of tix_limit: which limit caps cgroup `node` and all below it, beside cpu.max; or, where `node`
 * is a limit, what it allows, and the next limit that counts where it does.
 */
struct tix_limit_args {
	u32 node;
	u32 cap;		/* a limit, or 0 */
	s32 err;
	u32 pad;
	u64 quota_us, period_us;	/* of a limit */
	u64 id, cap_id;		/* of both */
};

/* Argument of tix_set_total: the soft tickets that base has issued, active or not. */
struct tix_total_args {
	u64 total;		/* 0: only the active ones are known */
	s32 err;
	u32 pad;
};

/* Argument of tix_read: state of `node`, and where the next used node is (0: none). */
struct tix_read_args {
	u32 node;
	u32 next;
	u32 flags;
	u32 weight;
	u32 active;		/* a ticket it issued is active, or its own threads are */
	u32 self_active;	/* its own threads are runnable */
	u32 runnable;		/* how many of them */
	u32 nr_edges;
	u64 used_ns;		/* CPU time of its own threads, charged so far */
	u64 value;		/* what its tickets divide, of T, in Q62, when last looked at */
	u64 cgid;		/* of its cgroup; of what the daemon made what that said */
	s64 delta;
	u32 hard;
	u32 cap;		/* the limit that caps it, or counts where it does; or 0 */
	u64 quota_ns;		/* of cpu.max, or a limit's; 0: none */
	u64 period_ns, burst_ns;
	u64 nr_periods;		/* that began since loading, */
	u64 nr_throttled;	/* how often somebody had to wait for the next one, */
	u64 throttled_ns;	/* and for how long in all */
	struct fund_edge edge[FUND_FUNDERS];
	u16 part[FUND_FUNDERS];
};

/* The limit that a node's threads wait for, and its refill time. All 0 in a build that does not tell. */
struct tix_read_wait {
	u64 refill_ns;		/* of a limit that threads wait for: until they may go on; else 0 */
	u32 held_by;		/* of a principal whose runnable threads wait for a limit: that; else 0 */
	u32 pad;
};

#define TIX_READ_BATCH 64u
struct tix_read_batch {
	u32 first;		/* in: index to start at */
	u32 nr;			/* out: how many follow */
	u32 next;		/* out: where to go on, 0 when done */
	u32 pad;
	struct tix_read_args node[TIX_READ_BATCH];
	struct tix_read_wait wait[TIX_READ_BATCH];	/* of the same nodes */
};

/*
 * What a build tells the next one, which may be of another layout (handover.bpf.h): of a cgroup's principal what it had had
 * more than its due at one moment, and what of its cpu.max it has used. Versioned by TIX_LEADS alone.
 */
struct tix_lead {
	u64 cgid;
	s64 lead;		/* ns of CPU; of one that was not active what it owes */
	s64 more;		/* what it has been charged since, or given back, ns */
	u64 share;		/* what it was worth then of the machine, Q62; 0: not active */
	u64 quota, every;	/* of cpu.max, ns; 0: it has none */
	s64 left;		/* of this period's, ns, */
	u64 next_at;		/* which ends then, by the kernel's clock */
};

#define TIX_LEADS_BATCH 64u
/* Argument of tix_leads: what tix_keep, or the scheduler itself when it failed, has kept. */
struct tix_leads_args {
	u32 first;		/* in: index to start at */
	u32 nr;			/* out: how many follow */
	u32 next;		/* out: where to go on, 0 when done */
	u32 kept;		/* out: 0: nothing has been kept */
	struct tix_lead lead[TIX_LEADS_BATCH];
};

/* Argument of tix_take: `lead` of the principal that `node` is here, with what was charged since settled. */
struct tix_take_args {
	u32 node;
	s32 err;
	struct tix_lead lead;
};

/* What one CPU has decided since loading, on a cache line of its own. */
struct tix_counts {
	u64 picks;		/* decisions that found a thread to run */
	u64 keeps;		/* of those, the running thread went on */
	u64 taken_over;		/* threads that were another CPU's */
	u64 preempts;		/* slices ended between ticks */
	u64 overdue;		/* picks of threads that had waited OVERDUE_NS */
	u64 lent_ns;		/* CPU time of lock owners that principals who waited for them paid */
	u64 pad[2];
};

struct tix_stats {
	u64 nodes;		/* nodes in use */
	u64 shared;		/* cgroups that share a principal above them: there is no room, or they lie too deep */
	u64 pages;		/* of the arena */
	u64 pad[5];
	struct tix_counts cpu[TIX_CPUS_MAX];
};

/* Why the kernel ended the scheduler; kind is 0 while it runs. */
struct tix_exit {
	s64 kind;
	s64 code;
	char reason[128];
	char message[1024];
	char dump[32768];	/* the kernel's and tix's state then (dump.bpf.h) */
};

#endif
