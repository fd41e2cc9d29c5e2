/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's memory: an arena whose pages are provided when an index is first used, and what
 * hangs on a CPU.
 *
 * Locks: one for each CPU's queue (queue.bpf.h); one for the funding graph (activity.bpf.h), which decisions take
 * alone, when a principal's activity or value really changes; tix_lock for lists of nodes and threads, and for limits.
 * tix_lock may be taken under the graph's.
 */
#ifndef TIX_STATE_BPF_H
#define TIX_STATE_BPF_H

#define ARENA_BASE (1ull << 44)
#define ARENA_PAGES 262144	/* 1 GiB of addresses, memory on demand */

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ARENA_PAGES);
#ifndef TIX_HOST
	__ulong(map_extra, ARENA_BASE);
#endif
} arena SEC(".maps");

/* What another build is told (handover.bpf.h). */
struct tix_kept {
	u64 cgid, quota;
	s64 lead_ns;
	u64 used_ns;
	u64 share;		/* 0: it was not active */
	u32 round;		/* when it was kept: whoever is taken out has no cgroups any longer */
};

/*
 * A node's side of scheduling; FUNDS has its side of funding, ACCOUNTS its account. Under tix_lock, but for self_active and
 * the fields of activity.bpf.h.
 */
struct tix_node {
	u64 cgid;
	u32 parent;
	u32 weight;		/* cpu.weight, also while another currency funds it */
	u32 flags;
	u32 nr_tasks;		/* threads that belong to it, runnable or not */
	u32 nr_holders;		/* nodes that hold a ticket of its */
	u32 self_active;
	u32 next_free;		/* of those that are free; of those that are changed the next, or 0 */
	u32 is_changed;		/* a decision is to see to it (nodes.bpf.h) */
	/* activity.bpf.h */
	u32 lingering;		/* it is on a CPU's list of those that went to sleep lately */
	u32 next_lingering;
	u64 idle_since_ns;	/* when its last runnable thread went to sleep */
	/* limit.bpf.h: cpu.max, or a currency's limit; ns, */
	u64 quota;		/* 0: it has no limit of its own */
	u64 every, burst;
	s64 left;		/* of this period's */
	u64 each;		/* how long those that waited for it may run at a time; 0: as long as others */
	u64 next_at;		/* when the next one begins */
	u64 crowd;		/* threads that wait for the next one */
	u64 nr_periods, nr_throttled, throttled_ns;
	u64 spent_at;		/* since when threads wait for the next one, or 0 */
	u32 cap;		/* the currency's limit that caps it; of such a limit, the next that counts where it does; or 0 */
	u32 limit, limit_seen;	/* the nearest of it and the cgroups above that has a limit or a cap; as of limits_epoch */
	u64 walked;		/* which of the walks was here last (tix_debit) */
	u32 first_held, last_held;	/* threads that wait for the next period, or 0 */
	u32 next_spent;		/* of the limits that threads wait for */
	struct tix_kept kept;
	u32 held_by, nr_held;	/* of its own threads so many wait for a limit, this one */
};

/* The tickets that are to back a node. Under tix_lock, and counted as FUNDS' are by the issuers' nr_holders. */
struct tix_wanted {
	struct fund_edge edge[FUND_FUNDERS];
	u16 part[FUND_FUNDERS];
	s64 delta;
	u32 nr, hard;
};

/* A CPU. Its own, but for what other CPUs look at in passing. */
struct tix_cpu {
	struct tix_queue queue;
	u64 slice_end_ns;	/* when the running thread's slice is over */
	u64 timer_ns;		/* when the timer fires next; 0: it is off */
	u32 running;		/* the thread that was picked last; 0: none, or one that found the CPU idle */
	u32 granted_ns;		/* what it was given */
	u64 idle_ns;		/* since when it has nothing to run, or 0 */
	u32 offline;		/* no more decisions here */
	u32 kicked;		/* the running thread's slice was ended by us */
	u32 probe;		/* the CPU to look at next */
	u64 look_ns;		/* when it may take threads over from others again, while it has some itself */
	u32 price;		/* of this CPU's time for threads that may not use all, Q8 (balance.bpf.h) */
	u32 vain;		/* firings of the timer in a row that ended no slice */
	u32 stale;		/* a thread that waits here, and is to be placed anew; or 0 */
	u32 boosted;		/* one whose payer may be another (lock.bpf.h); or 0 */
	u32 first_lingering, last_lingering;	/* nodes (activity.bpf.h), or 0 */
	u32 next;		/* the thread that goes on with this slice, in the local queue; or 0 (place.bpf.h) */
};

#define PAGE 4096ull
#define ROUND_UP(x) (((x) + PAGE - 1) / PAGE * PAGE)
#define FUNDS_OFF PAGE
#define NODES_OFF (FUNDS_OFF + ROUND_UP(sizeof(struct fund_node) * TIX_NODES_MAX))
#define ACCOUNTS_OFF (NODES_OFF + ROUND_UP(sizeof(struct tix_node) * TIX_NODES_MAX))
#define WANTED_OFF (ACCOUNTS_OFF + ROUND_UP(sizeof(struct tix_account) * TIX_NODES_MAX))
#define THREADS_OFF (WANTED_OFF + ROUND_UP(sizeof(struct tix_wanted) * TIX_NODES_MAX))
#define CLIENTS_OFF (THREADS_OFF + ROUND_UP(sizeof(struct tix_thread) * TIX_THREADS_MAX))
#define WAITS_OFF (CLIENTS_OFF + ROUND_UP(sizeof(struct vtrr_client) * TIX_THREADS_MAX))
#define CPUS_OFF (WAITS_OFF + ROUND_UP(sizeof(struct tix_wait) * TIX_THREADS_MAX))
#define CPU_SIZE ROUND_UP(sizeof(struct tix_cpu))
#define GRAPH_OFF (CPUS_OFF + CPU_SIZE * TIX_CPUS_MAX)
#define ARENA_END (GRAPH_OFF + ROUND_UP(sizeof(struct fund_graph)))
_Static_assert(ARENA_END <= ARENA_PAGES * PAGE, "the arena holds the tables");

#ifndef TIX_HOST	/* a program on the host has its own */
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

/* An arena is usable only in programs that name it. */
#define USES_ARENA() asm volatile("" ::"r"(&arena))

/*
 * A loop that may be ended by can_loop is counted down from where its function begins. Up to Linux 7.2 the verifier
 * gets that wrong where that is a call.
 */
#define BEGIN_LOOPS() asm volatile("r0 = 0" ::: "r0")

/*
 * To the verifier a call uses all registers that may pass arguments: what branches have left in those that do not is
 * forgotten here, so that what follows is walked once.
 */
#define END_BRANCHES() asm volatile("r3 = 0\nr4 = 0\nr5 = 0" ::: "r3", "r4", "r5")
#endif

#define FUNDS ((struct fund_node *)arena_at(FUNDS_OFF))
#define NODES ((struct tix_node *)arena_at(NODES_OFF))
#define ACCOUNTS ((struct tix_account *)arena_at(ACCOUNTS_OFF))
#define WANTED ((struct tix_wanted *)arena_at(WANTED_OFF))
#define THREADS ((struct tix_thread *)arena_at(THREADS_OFF))
#define CLIENTS ((struct vtrr_client *)arena_at(CLIENTS_OFF))
#define WAITS ((struct tix_wait *)arena_at(WAITS_OFF))
#define CPU(i) ((struct tix_cpu *)arena_at(CPUS_OFF + CPU_SIZE * (u64)((i) & (TIX_CPUS_MAX - 1))))
#define GRAPH ((struct fund_graph *)arena_at(GRAPH_OFF))

/* Both are aligned to 8, and `size` is a constant: a few instructions, and no loop for the verifier. */
#define copy_words(to, from, size) \
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), size)

private(TIX) struct bpf_spin_lock tix_lock;

STATE struct tix_stats stats SEC(".data.stats") __attribute__((aligned(64)));
#define COUNTS(n) stats.cpu[(n) & (TIX_CPUS_MAX - 1)]
STATE struct tix_exit last_exit SEC(".data.exit");
STATE u32 nr_online = 1;
STATE u32 ended;	/* this scheduler is out of force: no timer goes on. (What is static is made a bool, which BTF does not know) */

/* The index of `p` in THREADS, or 0. It is kept in a field of the kernel's that belongs to the scheduler. */
static __always_inline u32 thread_of(const struct task_struct *p)
{
	u64 i = p->scx.dsq_vtime;

	return i < TIX_THREADS_MAX ? i : 0;
}

/* The kernel clears that field where a task leaves sched_ext for another class: here it is kept. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} indexes SEC(".maps");

/* The same, of a task that may be in another class. */
static u32 index_of(struct task_struct *p)
{
	u32 i = thread_of(p), *kept;

	if (i)
		return i;
	kept = bpf_task_storage_get(&indexes, p, 0, 0);
	return kept && *kept < TIX_THREADS_MAX ? *kept : 0;
}

static bool rcu_is_preemptible(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->rcu_read_lock_nesting);
}

/*
 * Whether `p`, which made room or is about to, reads by RCU: until it is done no grace period ends, and whoever moves
 * a process between cgroups waits for one.
 */
static bool reads_rcu(const struct task_struct *p)
{
	return rcu_is_preemptible() && p->rcu_read_lock_nesting > (p == bpf_get_current_task_btf());
}

/*
 * Whether `p` must stay where it is for now. Where RCU is preemptible (and before 6.18
 * always) the entry of a BPF program disables migration of the current task once itself.
 */
static bool migration_disabled(const struct task_struct *p)
{
	u32 own = p == bpf_get_current_task_btf() &&
		  (rcu_is_preemptible() || LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 18, 0));

	return p->migration_disabled > own;
}

/* The CPUs that `p`, which is on `cpu`, may use, folded to 64. */
static __always_inline u64 cpus_of(const struct task_struct *p, u32 cpu)
{
	u64 all = ~0ull;

	if (nr_cpu_ids == 1 || p->nr_cpus_allowed >= nr_cpu_ids)
		all = ~0ull;
	else if (p->nr_cpus_allowed == 1)
		return 1ull << (cpu & 63);
	else if (nr_cpu_ids <= 64)	/* of more, whoever takes it over looks closer */
		all = p->cpus_ptr->bits[0];
	if (nr_cpu_ids > 1 && migration_disabled(p))
		return 1ull << (cpu & 63);
	return all;
}

/*
 * Whether `p` is one of the kernel's threads that do the work of one CPU: they go before all. Others
 * may have one alone, too, as all have on a machine of one.
 */
static bool is_kernel_pinned(const struct task_struct *p)
{
	const struct kthread *thread;

	if (!(p->flags & PF_KTHREAD) || p->nr_cpus_allowed != 1)
		return false;
	thread = p->worker_private;
	return !bpf_core_type_exists(struct kthread) ||
	       (BPF_CORE_READ(thread, flags) & (1ul << bpf_core_enum_value(enum KTHREAD_BITS, KTHREAD_IS_PER_CPU)));
}

#endif
