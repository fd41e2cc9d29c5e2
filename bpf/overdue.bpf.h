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
 * before it has its turn: it is filed as old as it is, and once it is overdue its threads have one short run each whatever
 * the limit says. That comes off the next periods'.
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
	else if (QUEUES[q].held && (s64)(CLIENTS[q].since - since) > 0)
		CLIENTS[q].since = since;
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

/* Whether queue `q`, which was picked, may run for a moment whatever its limits say: it is overdue, or was and has threads that are. */
static __noinline bool pardoned_locked(struct pick *pick, u32 q)
{
	struct tix_queue *queue = &QUEUES[q];

	if (pick->late == q)
		queue->pardons = queue->nr;
	if (!queue->pardons || !limit_of(queue->node))
		return false;
	queue->pardons--;
	NODES[queue->node].held_by = 0;
	pick->allowed = MIN_SLICE_NS;
	return true;
}

#endif
