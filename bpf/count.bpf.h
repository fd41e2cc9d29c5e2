/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is runnable counts in its principal, with its nice weight. */
#ifndef TIX_COUNT_BPF_H
#define TIX_COUNT_BPF_H

/*
 * `p`, which is runnable, counts in its principal from now on. Not before somebody asks: who
 * finds a CPU idle and sleeps again soon is in nobody's way.
 */
static __always_inline void count(const struct task_struct *p, struct task_ctx *t)
{
	if (t->load)
		return;
	t->load = p->scx.weight;
	__sync_fetch_and_add(&NODES[t->node].load, t->load);
	__sync_fetch_and_add(&NODES[t->node].nr_runnable, 1);
}

/* It counts no longer; whether it was the last one, so that the principal is to be told (tix_leave). */
static __always_inline bool uncount(struct task_ctx *t)
{
	u32 load = t->load;

	if (!load)
		return false;
	t->load = 0;
	__sync_fetch_and_add(&NODES[t->node].load, -load);
	return __sync_fetch_and_add(&NODES[t->node].nr_runnable, -1) == 1;
}

#endif
