/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling: on the siblings of a core run threads of one cookie at a time, and the kernel has us say
 * whose turn it is. It holds the locks of all of the core's run queues then and asks about every pair
 * there: nothing is written or locked here, and what is read may be a decision old.
 */
#ifndef TIX_CORE_BPF_H
#define TIX_CORE_BPF_H

/* The queue that `p` waits in, or, while it runs, came from; VTRR_NONE: none, as of the kernel's threads that are bound to a CPU. */
static u32 core_queue(struct task_struct *p, struct task_ctx **t)
{
	*t = task_ctx(p);
	if (!*t)
		return VTRR_NONE;
	return (*t)->queue != VTRR_NONE ? (*t)->queue : (*t)->ran_from;
}

/* Whether `a` goes before `b`: as its queue's turn ends earlier, or, in the same queue, as it is due earlier there. */
bool BPF_STRUCT_OPS(tix_core_sched_before, struct task_struct *a, struct task_struct *b)
{
	struct task_ctx *of_a, *of_b;
	u32 q = core_queue(a, &of_a), r = core_queue(b, &of_b);

	USES_ARENA();
	if (q >= TIX_QUEUES_MAX || r >= TIX_QUEUES_MAX)
		return q >= TIX_QUEUES_MAX && r < TIX_QUEUES_MAX;
	if (q == r)
		return of_a && of_b && (s64)(of_a->vtime - of_b->vtime) < 0;
	return (s64)(QUEUES[q].tag + QUEUES[q].period - QUEUES[r].tag - QUEUES[r].period) < 0;
}

#endif
