/* SPDX-License-Identifier: GPL-2.0-only */
/* What hangs on a task and on a CPU, the scheduler's own globals, and what the kernel knows of a task. */
#ifndef TIX_TASK_BPF_H
#define TIX_TASK_BPF_H

#define ELSEWHERE (~0ull)
#define FORKS_NS 64000000ull
#define PF_SIGNALED 0x00000400	/* the kernel's: a signal ends it (BTF has no macros) */
#define PF_MEMALLOC 0x00000800	/* it looks for memory */

struct task_ctx {
	u64 sum;	/* p->se.sum_exec_runtime up to which it has been charged, or ELSEWHERE: it is in another class */
	u64 vtime;	/* inside its principal, ns at nice 0 */
	u64 grant;	/* ns that its queue was charged in advance for the run that it is on */
	u64 rate;	/* by what V passes meanwhile, the graph's rate then (on several CPUs that only where the run is forced) */
	u64 awaited;	/* the lock of the kernel's that it waits for, or waited for last (lock.bpf.h) */
	u64 held;	/* a lock that it holds, and another waits for, */
	u64 also;	/* and the one before that, if it held that as well */
	u64 holds;	/* it goes first for these until it has used so much CPU; 0: no longer */
	u64 forks;	/* it forks until it has used so much CPU; 0: it never has */
	u64 moves;	/* it moves pages about until it has used so much (pages.bpf.h) */
	u64 page;	/* which it looked for in a fault, by a number; 0: none (folio.bpf.h), */
	u64 faults;	/* after so many */
	u64 light;	/* of a thread of the kernel's: when it will have had so much of the time as it may have at once, */
	u64 light_sum;	/* and its CPU time when that was looked at (kernel.bpf.h) */
	u32 node;
	u32 queue;	/* where it waits, or VTRR_NONE */
	u32 ran_from;	/* the queue that its run is charged to, */
	u32 payer;	/* unless this one is: of who waits for it; or VTRR_NONE */
	u32 waits;	/* for `awaited`, by its flags; 0: no longer */
	u32 awaited_kind, held_kind, also_kind;	/* the flags of each (lock.bpf.h) */
	u32 load;	/* its nice weight while it is counted as runnable, or 0 */
	u32 home;	/* its queue in home_vt, a cache */
	u32 home_vt;
	u32 yields;	/* it did when it ran last */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* One decision (pick.bpf.h). */
struct pick {
	u64 grant;	/* out: ns that the queue was charged in advance; in: those of `refile` */
	u64 rate;	/* likewise: by what V passes during the run, and was moved for that */
	u64 now;	/* in */
	u64 sum;	/* in: CPU time of the previous thread, if it is to be charged */
	u32 weight;	/* in: its nice weight */
	u32 cpu;
	u32 prev_queue;	/* in: its queue if it is still runnable, or VTRR_NONE */
	u32 first;	/* in: not a second try */
	u32 yielded;	/* in: the previous thread lets others go first */
	u32 slept;	/* in: the previous thread went to sleep */
	u32 left;	/* in: a principal of which no thread is runnable any longer, or VTRR_NONE */
	u32 refile;	/* in: a queue that was picked in vain, or VTRR_NONE */
	u32 queue;	/* out: VTRR_NONE if nobody waits */
	u32 waiting;	/* out: threads that wait in it */
	u32 slice;	/* likewise, ns of CPU */
	u32 brief;	/* likewise: shorter than it might be, for who woke up */
	u32 vt;		/* the struct vtrr chosen from, or VTRR_NONE */
	u32 late;	/* who is overdue in it, or VTRR_NONE */
	u32 elsewhere;	/* in: another CPU's struct vtrr that has somebody for this one, should there be nobody else; or VTRR_NONE */
	u32 joined;	/* the previous thread's principal became active */
	u32 held;	/* out: the previous thread waits for a limit's next period */
	u32 again;	/* out: who was picked does; there may be others */
	u32 tries, shut;	/* TRIES and SHUT, counted here for the verifier's sake */
	u64 allowed;	/* what limits leave who is to run, ns */
};

#define PREEMPTED 2u	/* of `kicked`: by a sleeper that woke up */

struct cpu_ctx {
	struct pick pick;	/* the last decision */
	u64 began;	/* when the running thread was picked */
	u64 apart;	/* until then nobody takes turns by yielding: another CPU takes one of them over */
	u64 slice_end;	/* when the running thread's slice is over; 0: nobody waits for that */
	u64 timer_at;	/* when the timer fires next; 0: it is off */
	u32 vain;	/* how often in a row it fired before the end of a slice (timer.bpf.h) */
	u64 now;	/* at the last decision or timer here */
	u64 robbed_at;	/* when another CPU took over what was overdue here */
	s64 robbed_lag;	/* and by how much that was */
	s64 lead;	/* how far ahead of V the queues were that were picked here lately, a mean of 2^LEAD_LOG; 0 while it is idle */
	u64 eligible_at;	/* when a decision here last found nobody, or somebody not ahead of V, or was the first since it was idle */
	u32 granting;	/* the queue that is being moved from, or VTRR_NONE */
	u32 idle;
	u32 probe;	/* the CPU to look at next for overdue work */
	u32 helper;	/* the CPU that was asked last to help */
	u32 graces;	/* given in a row to who runs */
	u32 rescued;	/* the last pick was of somebody overdue */
	u32 asked;	/* pid of who ran when the last decision replaced it */
	u32 left;	/* the principal whose last runnable thread went to sleep here, or VTRR_NONE */
	u32 offline;	/* no more decisions here */
	u32 yielded;	/* who ran when the last decision replaced it wanted that */
	u32 kicked;	/* the running thread's slice was ended by the timer, or PREEMPTED */
	u32 brief;	/* it was, and is to have MIN_SLICE_NS */
	u32 runs;	/* the queue that was picked last, or VTRR_NONE */
	u32 spared;	/* who runs is let go on for a moment although its slice is over: the next decision is when it sleeps */
	u32 sync;	/* pid of who is woken up by somebody that is about to sleep, or 0 */
	u32 partner;	/* pid of who handed the slice over last, since the last decision, or 0, */
	u32 handed;	/* and of whom it was handed to, who may hand it back; 0: no longer, */
	u32 returned;	/* and whether that one had handed it over before */
	u32 turns;	/* they are two that yield (turns.bpf.h): `partner` runs, and `handed` waits, */
	u32 aside;	/* whose queue this is */
	u32 took;	/* pid of who was taken out of `granting`, if it yielded when it ran last, or 0 */
	u32 limited;	/* who runs has a limit: its slice ends also where nobody else waits */
};

static struct cpu_ctx cpu_ctxs[TIX_CPUS_MAX];

/* The lock of vtrr.h and funding.h; see state.bpf.h. */
private(TIX) struct bpf_spin_lock tix_lock;
/* V: ns of CPU given out, times the graph's rate, under tix_lock; from where no tag gets below 0 */
static u64 now_v = 1ull << 40;
/* What passes of it in ROUND_NS, SLACK_NS and STEAL_NS on a busy machine, of v_online CPUs. */
static u64 v_round, v_slack, v_steal, v_rate;
/* The highest rate since rate_at, and in the SLACK_NS before that. */
static u64 rate_top, rate_before, rate_at;
/* By how much V may be ahead of what has been used, for slices that have begun. */
static u64 v_granted;
static u32 v_online;
static u64 now_ns;		/* at the last decision, under tix_lock */
static u32 jump_looks;		/* in a row without anybody eligible */
static u64 jump_head = ~0ull;	/* the earliest tag among them */
static u64 jump_at;		/* when the first of them was */
static u32 steal_left;	/* scratch, in memory for the verifier's sake (see funding.h) */
struct tix_stats stats SEC(".data.stats");
struct tix_exit last_exit SEC(".data.exit");
u32 nr_online = 1;
static s32 wanted;		/* pid of who waits for a CPU with a lock that another waits for, or 0 */

static struct {
	u64 at;			/* when the last one was taken */
	u32 head, tail;		/* not reduced */
	s32 pids[256];
} retries;			/* who waits for a CPU, is waited for, and nobody pays (lock.bpf.h) */

static u64 looks_at;	/* up to when has been used what may be spent on looking for who is wanted (lock.bpf.h) */

#define CUTS_MOST 1024		/* a power of two; of more those are forgotten that were interrupted first */

static struct {
	u64 lock;		/* what those may hold that are looked at, */
	u32 kind;		/* its flags */
	s32 waiter;		/* and pid of who waits for it */
	u32 head, tail, upto;	/* not reduced: looked at are those between the first and the last */
	struct {
		u64 sum;	/* its CPU time then: it has not run since */
		s32 pid;
	} of[CUTS_MOST];
} cuts;				/* who was interrupted in a system call (lock.bpf.h) */

/* Whether there may be anybody whom others wait for. */
static __always_inline bool any_waited_for(void)
{
	return wanted || retries.head != retries.tail || cuts.head != cuts.upto;
}

static struct task_ctx *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static struct cpu_ctx *cpu_ctx(u32 cpu)
{
	return &cpu_ctxs[cpu & (TIX_CPUS_MAX - 1)];
}

#define DSQ(q) ((u64)(q) + 1)

static bool rcu_is_preemptible(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->rcu_read_lock_nesting);
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

static bool is_pinned(const struct task_struct *p)
{
	if (nr_cpu_ids == 1)
		return false;
	/* One CPU is less than all as soon as another comes online. */
	return p->nr_cpus_allowed < nr_online || p->nr_cpus_allowed == 1 || migration_disabled(p);
}

/*
 * Whether `p` is between rcu_read_lock() and rcu_read_unlock(); the entry of a BPF program
 * is one such of the current task.
 */
static bool reads_rcu(const struct task_struct *p)
{
	if (!rcu_is_preemptible())
		return false;	/* then nobody is preempted in such a section either */
	return p->rcu_read_lock_nesting > (p == bpf_get_current_task_btf());
}

/*
 * Whether `p` is in the middle of a system call, where it may hold locks of the kernel's that
 * others wait for: the kernel's own scheduler (PREEMPT_LAZY) leaves it alone there, too. What
 * has come in by an interrupt or a fault has no call's number; of those it is known of who dies,
 * or looks for memory (and of faults, see pages.bpf.h).
 */
static bool in_call(struct task_struct *p)
{
	struct pt_regs *regs;

	if (p->flags & (PF_KTHREAD | PF_EXITING | PF_SIGNALED | PF_MEMALLOC))
		return !(p->flags & PF_KTHREAD);
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
#if defined(__TARGET_ARCH_x86)
	return (s64)regs->orig_ax >= 0;
#elif defined(__TARGET_ARCH_arm64)
	return (s32)regs->syscallno >= 0;
#else
	return false;
#endif
}

/*
 * Whether `p` is between the point where it is asked whether its child may come and the one where the child is there. It reads
 * the semaphore of all cgroups meanwhile, and whoever moves a process waits until nobody does (lock.bpf.h).
 */
static __always_inline bool is_forking(const struct task_struct *p, const struct task_ctx *t)
{
	return (s64)(p->se.sum_exec_runtime - t->forks) < 0;
}

/* The current thread forks until it has used `ns` more of CPU: that is enough, should nobody say when it ends. */
static __always_inline void forks(u64 ns)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);

	if (t)
		t->forks = p->se.sum_exec_runtime + ns;
}

#endif
