/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of the kernel's: a waiter donates its turn to the lock's owner.
 *
 * The problem: a thread that takes a mutex or a read-write semaphore of the kernel's (cgroup_mutex,
 * say) and is then one of a crowd whose share is small keeps everybody waiting who wants it,
 * whatever their shares: a user who makes cgroups all day would keep root from logging in.
 *
 * The rule (ticket transfers, Waldspurger and Weihl 1994 §3.1): while a thread waits, the owner is
 * placed by the account of the waiter's principal, if that is further behind than its own, and what
 * it uses is charged there, whole. A principal that is ahead donates nothing. So contention moves
 * nobody else's share, and two principals that wait for each other in turn get no more than if
 * they had used the CPU themselves.
 *
 * Of the readers of a semaphore the kernel names the last one to come, at most. Where nobody owns a
 * lock the first waiter does as good as: it has been woken up, and the rest are behind it.
 *
 * Cost: a thread that neither owns nor awaits a lock that others wait for pays for one comparison.
 */
#ifndef TIX_LOCK_BPF_H
#define TIX_LOCK_BPF_H

#define CHAIN_MOST 4	/* owners that wait for others in turn */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);	/* where there are more, owners pay themselves */
	__type(key, u64);		/* the lock's address */
	__type(value, u32);		/* the thread that waits, and donates */
} donors SEC(".maps");

/* By what the owner of `lock` is known: a writer of this semaphore does not say who it is, but holds the mutex. */
static u64 known_by(u64 lock)
{
	if (&cgroup_mutex && lock && lock == (u64)&cgroup_threadgroup_rwsem)
		return (u64)&cgroup_mutex;
	return lock;
}

/* Whether thread `i` waits for `lock` yet. */
static __always_inline bool waits_for(u32 i, u64 lock)
{
	return i && i < TIX_THREADS_MAX && WAITS[i].waits && WAITS[i].lock == lock;
}

/* How far principal `node` is ahead of the clock of CPU `cpu`: if it sleeps, where it would come back. */
static __always_inline s64 lag_on(u32 node, u32 cpu, u64 now)
{
	struct tix_account *a = top_of(node);
	u64 clock = clock_of(CPU(cpu), now);
	s64 lag = tix_position(node) - a->vtime;

	return lag + (a->nr_busy ? (s64)(a->vtime - clock) : account_lag(a, clock, now));
}

/* The principal that pays for the next run of thread `i`, whose task is `p`: its own, or a donor's. */
__noinline u32 tix_payer_for(struct task_struct *p __arg_trusted, u32 i, u64 now)
{
	struct tix_wait *w = &WAITS[i & (TIX_THREADS_MAX - 1)];
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 own = t->node, *donor, node;
	u64 lock = w->lock;
	s64 lag;

	USES_ARENA();
	if (!has(p, lock, w->kind)) {
		if (!w->waits)
			w->lock = 0;
		return own;
	}
	donor = bpf_map_lookup_elem(&donors, &lock);
	if (!donor || *donor == i || !waits_for(*donor, lock))
		return own;
	node = THREADS[*donor].node;
	if (node == own || node >= TIX_NODES_MAX || !ACCOUNTS[node].inverse)
		return own;
	lag = lag_on(node, t->cpu, now);
	return lag < 0 && lag < lag_on(own, t->cpu, now) ? node : own;
}

/* Thread `i` waits for `lock`: it is the donor, unless one of a larger share is. */
static void offer_donor(u64 lock, u32 i)
{
	u32 *of = bpf_map_lookup_elem(&donors, &lock), other = of ? *of : 0;

	if (waits_for(other, lock) && other != i &&
	    ACCOUNTS[THREADS[other].node].inverse <= ACCOUNTS[THREADS[i].node].inverse)
		return;
	bpf_map_update_elem(&donors, &lock, &i, BPF_ANY);
}

/* Thread `i`, whose task is `p` and which may wait for a CPU, owns a lock that others wait for: it is placed anew there. */
static __always_inline void boost(struct task_struct *p, u32 i, u64 now)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 cpu = t->queue - 1;

	if (cpu >= TIX_CPUS_MAX || tix_payer_for(p, i, now) == t->payer)
		return;
	CPU(cpu)->boosted = i;
	preempt(cpu, CPU(cpu));
}

/* Boost the owner of `lock`; if it waits for another lock in turn, that one is the result, else 0. */
static __noinline u64 boost_owner(u64 lock, u32 kind, u32 *next_kind, u64 now)
{
	u64 owner = holder_of(lock, kind), next = 0;
	struct task_struct *p;
	u32 i;

	if (!owner || owner == bpf_get_current_task())
		return 0;
	p = bpf_task_from_pid(BPF_CORE_READ((struct task_struct *)owner, pid));
	if (!p)
		return 0;
	i = thread_of(p);
	if ((u64)p == owner && i) {
		if (WAITS[i].waits && WAITS[i].lock != lock) {
			next = WAITS[i].lock;
			*next_kind = WAITS[i].kind;
		} else if (!WAITS[i].waits) {
			WAITS[i].kind = kind;
			WAITS[i].lock = lock;
		}
		boost(p, i, now);
	}
	bpf_task_release(p);
	return next;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(tix_contention, void *lock, u32 flags)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u64 at = known_by((u64)lock), now = scx_bpf_now();
	u32 i = thread_of(p), kind = flags, n;

	USES_ARENA();
	/* The kernel's own threads wait on everybody's behalf: whoever has them work would be paid for by root. */
	if (!i || flags & LCB_F_SPIN || p->flags & PF_KTHREAD)
		return 0;
	WAITS[i].lock = at;
	WAITS[i].kind = flags;
	WAITS[i].waits = 1;
	bpf_for(n, 0, CHAIN_MOST) {
		if (!at)
			break;
		offer_donor(at, i);
		at = boost_owner(at, kind, &kind, now);
	}
	return 0;
}

/* It has been given the lock, or has given up. */
SEC("tp_btf/contention_end")
int BPF_PROG(tix_contention_end, void *lock, int err)
{
	u64 at = known_by((u64)lock);
	u32 i = thread_of(bpf_get_current_task_btf()), *of;

	USES_ARENA();
	if (!i || !WAITS[i].waits || WAITS[i].lock != at)	/* a spinlock's, of it or of an interrupt */
		return 0;
	WAITS[i].waits = 0;
	of = bpf_map_lookup_elem(&donors, &at);
	if (of && *of == i)
		bpf_map_delete_elem(&donors, &at);
	return 0;
}

#endif
