/* SPDX-License-Identifier: GPL-2.0-only */
/* The CPUs' queues, each under its lock. Functions named tix_ are global: verified once. */
#ifndef TIX_QUEUE_BPF_H
#define TIX_QUEUE_BPF_H

struct queue_lock {
	struct bpf_spin_lock lock;
	char own_line[60];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIX_CPUS_MAX);
	__type(key, u32);
	__type(value, struct queue_lock);
} queue_locks SEC(".maps");

/*
 * Thread `t` waits on `cpu` from now on, unless it does already: where it is woken up, and a decision that found that it
 * may not run there puts it back, two CPUs may try at once, each under its own lock.
 */
static __always_inline void link_thread(u32 cpu, u32 t, u64 now)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &cpu);

	if (!l || t >= TIX_THREADS_MAX)
		return;
	bpf_spin_lock(&l->lock);
	if (!__sync_val_compare_and_swap(&THREADS[t].queue, 0, cpu + 1))
		queue_link(&CPU(cpu)->queue, CLIENTS, &THREADS[t], t, now);
	bpf_spin_unlock(&l->lock);
}

__noinline int tix_link(u32 cpu, u32 t, u64 now)
{
	USES_ARENA();
	link_thread(cpu, t, now);
	return 0;
}

/* Thread `t` waits no longer, wherever it did; false: it did not. */
__noinline int tix_unlink(u32 t)
{
	struct queue_lock *l;
	u32 cpu, was;

	USES_ARENA();
	if (t >= TIX_THREADS_MAX)
		return 0;
	cpu = THREADS[t].queue - 1;
	if (cpu >= TIX_CPUS_MAX)
		return 0;
	l = bpf_map_lookup_elem(&queue_locks, &cpu);
	if (!l)
		return 0;
	bpf_spin_lock(&l->lock);
	was = THREADS[t].queue == cpu + 1;
	if (was) {
		queue_unlink(&CPU(cpu)->queue, CLIENTS, t);
		THREADS[t].queue = 0;
	}
	bpf_spin_unlock(&l->lock);
	return was;
}

/*
 * Whether thread `i`, which waits, was placed as of values that are others now, or as one of many more siblings or
 * far fewer.
 */
static __always_inline bool is_stale(u32 i)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 load = ACCOUNTS[t->node < TIX_NODES_MAX ? t->node : 0].load;

	return t->as_of != (u32)GRAPH->epoch || (t->of_load && t->of_load - load + load / 8 > load / 4);
}

/*
 * The thread to run next on `cpu`, which waits no longer; 0: `running`, which may go on and is not
 * linked, goes before all that wait, or nobody waits; QUEUE_AGAIN, if that `may` be.
 */
__noinline u32 tix_pick(u32 cpu, u32 running, u64 now, bool may)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &cpu);
	struct tix_thread *own = NULL;
	struct tix_cpu *c = CPU(cpu);
	u32 t, refile = VTRR_NONE;

	USES_ARENA();
	if (!l || running >= TIX_THREADS_MAX)
		return 0;
	if (running)
		own = &THREADS[running];
	bpf_spin_lock(&l->lock);
	t = queue_pick(&c->queue, CLIENTS, THREADS, own, now, may, &refile);
	if (t < TIX_THREADS_MAX) {
		THREADS[t].queue = 0;
		COUNTS(cpu).overdue += (s64)(now - CLIENTS[t].since) > (s64)OVERDUE_NS;
	}
	c->stale = 0;
	if (c->queue.vt.nr && t != QUEUE_AGAIN) {
		refile = queue_review(&c->queue, CLIENTS);
		if (refile < TIX_THREADS_MAX && is_stale(refile))
			c->stale = refile;
		/* One that counts elsewhere in the mean than where it is counts anew. */
		if (refile < TIX_THREADS_MAX && CLIENTS[refile].counted == THREADS[refile].tag)
			refile = VTRR_NONE;
	}
	if (refile < TIX_THREADS_MAX)
		queue_refile(&c->queue, CLIENTS, &THREADS[refile], refile);
	bpf_spin_unlock(&l->lock);
	return t == VTRR_NONE ? 0 : t;
}

/* Whether thread `t`, which waits nowhere, goes before all that wait on `cpu`. */
__noinline int tix_goes_first(u32 cpu, u32 t, u64 now)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &cpu);
	bool first;

	USES_ARENA();
	if (!l || t >= TIX_THREADS_MAX)
		return false;
	bpf_spin_lock(&l->lock);
	first = queue_goes_first(&CPU(cpu)->queue, CLIENTS, &THREADS[t], now);
	bpf_spin_unlock(&l->lock);
	return first;
}

/* Thread `t` has been placed anew while it waits on `cpu`. */
__noinline int tix_refile(u32 cpu, u32 t)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &cpu);

	USES_ARENA();
	if (!l || t >= TIX_THREADS_MAX)
		return 0;
	bpf_spin_lock(&l->lock);
	if (THREADS[t].queue == cpu + 1)
		queue_refile(&CPU(cpu)->queue, CLIENTS, &THREADS[t], t);
	bpf_spin_unlock(&l->lock);
	return 0;
}

#define LOOKS_MOST 8	/* threads of another CPU's that are looked at for one that may be taken over */

/* Whether thread `t` waits since `before` or earlier, and may run on the CPUs of `bit`. */
static __always_inline bool may_take(u32 t, u64 bit, u64 before)
{
	return THREADS[t].cpus & bit && (s64)(CLIENTS[t].since - before) <= 0;
}

/*
 * A thread that waits on CPU `from`, since `before` or earlier, and may run on `cpu`; it waits no longer. 0: there is
 * none.
 */
__noinline int tix_take_over(u32 from, u32 cpu, u64 before)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &from);
	u64 bit = 1ull << (cpu & 63);
	struct tix_queue *q;
	u32 t, i;

	USES_ARENA();
	if (!l)
		return 0;
	q = &CPU(from)->queue;
	bpf_spin_lock(&l->lock);
	t = vtrr_peek(&q->vt, q->clock);
	for (i = tix_unknown(0, q->clock); i < LOOKS_MOST && t < TIX_THREADS_MAX && !may_take(t, bit, before) && can_loop; i++)
		t = i ? CLIENTS[t].newer : q->vt.oldest;
	if (t < TIX_THREADS_MAX && i < LOOKS_MOST) {
		queue_unlink(q, CLIENTS, t);
		THREADS[t].queue = 0;
	} else {
		t = 0;
	}
	bpf_spin_unlock(&l->lock);
	return t;
}

#endif
