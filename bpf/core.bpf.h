/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling: on the siblings of a core run threads of one cookie at a time, and the kernel has us say
 * whose turn it is. It holds the locks of all of the core's run queues then and asks about every pair
 * there: nothing is written or locked here, and what is read may be a decision old.
 */
#ifndef TIX_CORE_BPF_H
#define TIX_CORE_BPF_H

/* Whether `a` goes before `b`: as its turn ends earlier. */
bool BPF_STRUCT_OPS(tix_core_sched_before, struct task_struct *a, struct task_struct *b)
{
	u32 i = thread_of(a), j = thread_of(b);

	USES_ARENA();
	if (!i || !j || is_kernel_pinned(a))
		return !!j;
	return (s64)(THREADS[i].tag + THREADS[i].period - THREADS[j].tag - THREADS[j].period) < 0;
}

#endif
