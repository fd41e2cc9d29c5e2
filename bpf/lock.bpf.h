/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of the kernel's: who holds one that others wait for is not kept waiting.
 *
 * A thread that takes a mutex or a read-write semaphore of the kernel's (cgroup_mutex, say)
 * and is then one of a crowd whose share is small keeps everybody who wants it waiting, whatever their shares: a user
 * who makes cgroups all day would keep root from logging in. Proportional-share schedulers
 * have the waiter's tickets passed on to the holder (Waldspurger and Weihl 1994 §3.1, ticket
 * transfers). Here the holder goes first, and its own principal pays: for as long as that is
 * not further ahead of its share than it is made to pay for (file_locked), so nobody gets
 * more by quarrelling about locks.
 *
 * Who has waited for a lock has it soon after waking up, and the rest of those who wait are
 * behind it: it goes first as well. Between two such threads the kernel hands the lock over,
 * so one slow thread among them would set the pace of all.
 */
#ifndef TIX_LOCK_BPF_H
#define TIX_LOCK_BPF_H

#define HOLDS 16	/* times that a thread goes first for one wait: it may sleep with the lock */
#define FETCH_MOST 256	/* threads looked at for who is wanted */

/* The kernel's, of its tracepoint contention_begin: BTF has no macros. */
#define LCB_F_SPIN (1u << 0)
#define LCB_F_READ (1u << 1)
#define LCB_F_WRITE (1u << 2)
#define LCB_F_RT (1u << 3)
#define LCB_F_PERCPU (1u << 4)
#define LCB_F_MUTEX (1u << 5)

/* Whether `p`, which becomes runnable or was preempted, is not to wait its turn. */
static bool goes_first(struct task_struct *p, struct task_ctx *t)
{
	u32 q = t->ran_from;

	if (!t->holds)
		return false;
	if (!(p->flags & PF_KTHREAD) && !in_call(p)) {
		t->holds = 0;	/* back in user space: it holds none */
		return false;
	}
	if (q >= TIX_QUEUES_MAX || QUEUES[q].node != t->node)
		return false;	/* it has just moved, and nobody would pay */
	if ((s64)(QUEUES[q].tag - now_v) > (s64)(2 * v_steal))
		return false;
	t->holds--;
	return true;
}

/* Who holds `lock`, as the address of its task; 0: nobody is known. It may be gone already. */
static u64 holder_of(const void *lock, u32 flags)
{
	const struct rw_semaphore *sem = lock;
	const struct mutex *mutex = lock;

	if (flags & LCB_F_MUTEX)
		return BPF_CORE_READ(mutex, owner.counter) & ~7ull;
	if (flags & (LCB_F_RT | LCB_F_PERCPU))
		return 0;	/* the kernel helps the one itself, the other does not say */
	if (!(flags & (LCB_F_READ | LCB_F_WRITE)))
		return 0;	/* a counting semaphore has no holder */
	return BPF_CORE_READ(sem, owner.counter) & ~7ull;
}

/*
 * The current thread is about to sleep until it is given `lock`: have the holder go first,
 * and itself afterwards.
 */
SEC("tp_btf/contention_begin")
int BPF_PROG(tix_contention, void *lock, u32 flags)
{
	struct task_struct *holder;
	struct task_ctx *t;
	u64 owner;
	s32 pid;

	if (flags & LCB_F_SPIN)
		return 0;
	t = task_ctx(bpf_get_current_task_btf());
	if (!t)
		return 0;
	t->holds = HOLDS;
	owner = holder_of(lock, flags);
	if (!owner)
		return 0;
	pid = BPF_CORE_READ((struct task_struct *)owner, pid);
	holder = bpf_task_from_pid(pid);
	if (!holder)
		return 0;
	t = (u64)holder == owner ? task_ctx(holder) : NULL;
	if (t) {
		t->holds = HOLDS;
		if (t->queue != VTRR_NONE)
			wanted = pid;
	}
	bpf_task_release(holder);
	return 0;
}

/* Take who is wanted to this CPU, if it waits and may run here; true: it did. */
static bool fetch_wanted(s32 cpu)
{
	s32 pid = __sync_lock_test_and_set(&wanted, 0);
	struct task_struct *p = bpf_task_from_pid(pid), *other;
	struct task_ctx *t;
	bool moved = false;
	u32 q, looks = 0;

	if (!p)
		return false;
	t = task_ctx(p);
	q = t ? t->queue : VTRR_NONE;
	bpf_task_release(p);
	if (q >= TIX_QUEUES_MAX)
		return false;
	bpf_for_each(scx_dsq, other, DSQ(q), 0) {
		if (other->pid == pid) {
			if (bpf_cpumask_test_cpu(cpu, other->cpus_ptr) && !migration_disabled(other)) {
				scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, slice_ns);
				moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, other, SCX_DSQ_LOCAL, 0);
			}
			break;
		}
		if (++looks >= FETCH_MOST)
			break;
	}
	if (moved)
		unfile(q);
	return moved;
}

#endif
