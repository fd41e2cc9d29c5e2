/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads leave their queues: for a CPU, or because something about them changes.
 *
 * Since 7.1 the kernel tells of both by ops.dequeue. Before, it says nothing of those that it takes for a CPU, whichever
 * they are: there we move them ourselves, and so know.
 */
#ifndef TIX_TAKE_BPF_H
#define TIX_TAKE_BPF_H

#define TOLD_OF_ALL bpf_core_enum_value_exists(enum scx_deq_flags, SCX_DEQ_SCHED_CHANGE)

/* `p` has left its queue: for a CPU (no flags), or because something about it changes. */
static __always_inline void taken(struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx(p);
	struct cpu_ctx *c;
	u32 q;

	if (!t || t->queue == VTRR_NONE)
		return;
	q = t->queue;
	t->queue = VTRR_NONE;
	t->ran_from = q;
	__sync_fetch_and_add(&QUEUES[q].load, -t->load);
	if (!deq_flags) {
		c = cpu_ctx(bpf_get_smp_processor_id());
		if (c->granting == q) {
			t->grant = c->pick.grant;
			t->rate = c->pick.rate;
			c->granting = VTRR_NONE;
			c->took = t->yields ? p->pid : 0;
		}
		__sync_fetch_and_add(&QUEUES[q].nr, -1);
	} else if (__sync_fetch_and_add(&QUEUES[q].nr, -1) == 1) {
		tix_unfile(q);
	}
}

/* The same for a CPU, after a move of our own. */
static __always_inline void moved_away(struct task_struct *p)
{
	if (!TOLD_OF_ALL)
		taken(p, 0);
}

static __noinline bool take_by_hand(u32 q, s32 cpu)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, DSQ(q), 0) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (migration_disabled(p) && scx_bpf_task_cpu(p) != cpu)
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0)) {
			taken(p, 0);
			return true;
		}
	}
	return false;
}

/* The first thread of queue `q` that may run on this CPU is to run here next; false: there is none. */
static __always_inline bool take(u32 q, s32 cpu)
{
	if (TOLD_OF_ALL)
		return scx_bpf_dsq_move_to_local(DSQ(q), 0);
	return take_by_hand(q, cpu);
}

#endif
