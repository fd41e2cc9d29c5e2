/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who has waited long has done so whatever happens meanwhile (the 10 s rule).
 *
 * Where the shares of those on one CPU add up to more than it has, those of small shares have their turn only when they
 * are overdue: when their queue was filed OVERDUE_NS ago. But the kernel puts a waiting thread anew when its nice value,
 * class, cgroup or CPUs change, and when a CPU comes or goes it does so with every thread there is
 * (cpuset_update_tasks_cpumask). All queues are emptied then and filed as if all had just come; who does that each
 * second, by unplugging or by renicing, would keep them from ever being overdue, until the kernel throws tix out. So of
 * who is put anew it is asked what the kernel's watchdog asks, since when it has been runnable without running, and its
 * queue is as old as that.
 *
 * Likewise a queue that waits for a limit's next period (hold.bpf.h), whose siblings on other CPUs may use up each period
 * before it has its turn, or before each of its threads has: it is filed as old as who waits in it may be, and once it is
 * overdue its threads have one short run each whatever the limit says. That comes off the next periods'.
 */
#ifndef TIX_OVERDUE_BPF_H
#define TIX_OVERDUE_BPF_H

#define LONG_NS 2000000000ull	/* a wait that is remembered: longer than a round */
#define TICKS_MOST (1u << 20)

/* When this began, by both clocks: how long a tick of the kernel's is, nothing says. */
static u64 first_tick, first_now;

static void start_ticks(void)
{
	first_tick = bpf_jiffies64();
	first_now = scx_bpf_now();
}

/* For how long `p` has been runnable and has not run, as the kernel's watchdog counts it, ns. */
static __noinline u64 waited(const struct task_struct *p, u64 now)
{
	u64 tick = bpf_jiffies64(), passed = tick - first_tick, ticks = tick - p->scx.runnable_at;

	if (!passed || ticks > TICKS_MOST)
		return 0;
	return ticks * ((now - first_now) / passed);
}

/* Somebody in queue `q` has waited since `since`. */
static __noinline void age_locked(u32 q, u64 since)
{
	if ((s64)(now_ns - since) < (s64)LONG_NS || q >= TIX_QUEUES_MAX)
		return;
	if (CLIENTS[q].linked)
		vtrr_age(VT(QUEUES[q].vt), CLIENTS, q, since);
	if ((s64)(QUEUES[q].unserved - since) > 0)
		QUEUES[q].unserved = since;
}

/* `p` was put into queue `q` anew: it did not just wake up, nor run until now. */
static __noinline void put_again(const struct task_struct *p, u32 q)
{
	u64 now = scx_bpf_now(), wait = waited(p, now);

	if (wait < LONG_NS)
		return;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	age_locked(q, now - wait);
	bpf_spin_unlock(&tix_lock);
}

/* Queue `q`, which has a limit perhaps, is filed for threads that have just come. */
static __always_inline void come_locked(u32 q)
{
	QUEUES[q].unserved = now_ns;
	QUEUES[q].rest = 0;
}

/*
 * One of the threads of queue `q`, which has a limit perhaps, has its turn. Those that were behind it have waited as long
 * as before, and once they have had theirs, who is there has waited since the first of them had its.
 */
static __always_inline void round_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];
	u32 nr = queue->nr ?: 1;

	if (!queue->rest) {
		queue->rest = nr;
		queue->round_at = now_ns;
	}
	if (queue->rest > nr)	/* some have left without a run */
		queue->rest = nr;
	if (!--queue->rest)
		queue->unserved = queue->round_at;
}

/* Queue `q` was filed again: it is as old as who waits in it, if it has a limit. Where it has none, each has its turn in time (share.bpf.h). */
static __always_inline void stay_locked(u32 q)
{
	if (nr_limits && limit_of(QUEUES[q].node))
		age_locked(q, QUEUES[q].unserved);
}

/*
 * Whether queue `q`, which was picked, may run for a moment whatever its limits say: somebody in it is overdue. It may have
 * been picked by its tag.
 */
static __always_inline bool pardoned_locked(struct pick *pick, u32 q)
{
	u32 node = QUEUES[q].node;

	if (!limit_of(node))
		return false;
	if (pick->late != q && (s64)(now_ns - QUEUES[q].unserved) <= (s64)OVERDUE_NS)
		return false;
	NODES[node].held_by = 0;
	pick->allowed = MIN_SLICE_NS;
	return true;
}

#endif
