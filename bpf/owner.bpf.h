/* SPDX-License-Identifier: GPL-2.0-only */
/* What a lock of the kernel's says of who holds it, and of who waits for it. */
#ifndef TIX_OWNER_BPF_H
#define TIX_OWNER_BPF_H

/* The kernel's, of its tracepoint contention_begin: BTF has no macros. */
#define LCB_F_SPIN (1u << 0)
#define LCB_F_READ (1u << 1)
#define LCB_F_WRITE (1u << 2)
#define LCB_F_RT (1u << 3)
#define LCB_F_PERCPU (1u << 4)
#define LCB_F_MUTEX (1u << 5)

#define READER_OWNED 1ull	/* the kernel's, of a semaphore's owner */

extern const void cgroup_mutex __ksym __weak;
extern const void cgroup_threadgroup_rwsem __ksym __weak;

/* As Linux 6.16 has them, say, and 7.2 no longer. Of who waits `list` comes first. */
struct mutex___listed {
	struct list_head wait_list;
} __attribute__((preserve_access_index));

struct rw_semaphore___listed {
	struct list_head wait_list;
} __attribute__((preserve_access_index));

/* The task of who waits first for `mutex`, by its address, or 0. */
static u64 first_for_mutex(const struct mutex *mutex)
{
	const struct mutex___listed *listed = (const void *)mutex;
	const struct mutex_waiter *first;

	if (bpf_core_field_exists(mutex->first_waiter)) {
		first = BPF_CORE_READ(mutex, first_waiter);
	} else {
		first = (const void *)BPF_CORE_READ(listed, wait_list.next);
		if ((const void *)first == &listed->wait_list)
			return 0;
	}
	return first ? (u64)BPF_CORE_READ(first, task) : 0;
}

/* The same for a read-write semaphore. */
static u64 first_for_rwsem(const struct rw_semaphore *sem)
{
	const struct rw_semaphore___listed *listed = (const void *)sem;
	const struct rwsem_waiter *first;

	if (bpf_core_field_exists(sem->first_waiter)) {
		first = BPF_CORE_READ(sem, first_waiter);
	} else {
		first = (const void *)BPF_CORE_READ(listed, wait_list.next);
		if ((const void *)first == &listed->wait_list)
			return 0;
	}
	return first ? (u64)BPF_CORE_READ(first, task) : 0;
}

static bool is_mutex(u64 lock, u32 flags)
{
	return (flags & LCB_F_MUTEX) || (&cgroup_mutex && lock == (u64)&cgroup_mutex);
}

/* The word that says who owns `lock`, with flags in its lowest bits; 0: nobody, or nobody can tell. */
static u64 owner_word(u64 lock, u32 flags)
{
	const struct rw_semaphore *sem = (const void *)lock;
	const struct mutex *mutex = (const void *)lock;

	if (is_mutex(lock, flags))
		return BPF_CORE_READ(mutex, owner.counter);
	if (flags & (LCB_F_RT | LCB_F_PERCPU))
		return 0;	/* the kernel helps the one itself, the other does not say */
	if (!(flags & (LCB_F_READ | LCB_F_WRITE)))
		return 0;	/* a counting semaphore has no holder */
	return BPF_CORE_READ(sem, owner.counter);
}

/* Who waits first for `lock`, as the address of its task, or 0. */
static u64 first_for(u64 lock, u32 flags)
{
	if (is_mutex(lock, flags))
		return first_for_mutex((const void *)lock);
	if ((flags & (LCB_F_RT | LCB_F_PERCPU)) || !(flags & (LCB_F_READ | LCB_F_WRITE)))
		return 0;
	return first_for_rwsem((const void *)lock);
}

/*
 * Who holds `lock`, as the address of its task; 0: nobody is known. It may be gone already.
 * Where nobody holds it who waits first does as good as: it has been woken up, and nobody
 * behind it is before it has run and let go of the lock in turn.
 */
static u64 holder_of(u64 lock, u32 flags)
{
	return (owner_word(lock, flags) & ~7ull) ?: first_for(lock, flags);
}

/* Whether `p` holds `lock` alone, or is the next to. */
static bool has(const struct task_struct *p, u64 lock, u32 flags)
{
	u64 owner = lock ? owner_word(lock, flags) : 0;

	if (!lock || (!is_mutex(lock, flags) && (owner & READER_OWNED)))
		return false;
	return (owner & ~7ull) == (u64)p || first_for(lock, flags) == (u64)p;
}

#endif
