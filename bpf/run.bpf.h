/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On one CPU V has passed for all of the slice of who runs, or for too little where nobody ended it, and at the rate that
 * there was. Who comes or goes meanwhile has nothing to do with what was used before. So V is set back to where it was when
 * that much was used, and what is left passes at the new rate. On several CPUs the same would have to be done for each.
 *
 * It is done where there are limits, where all below one come and go at once, each period, and V would go further and further.
 */
#ifndef TIX_RUN_BPF_H
#define TIX_RUN_BPF_H

#define TICK_MOST_NS 10000000ll		/* sum_exec_runtime is brought up to date once a tick */

struct run {
	struct task_ctx *t;	/* who runs and will be charged for it, or nobody */
	s64 left;		/* of its grant, ns; less than nothing if nobody ended it */
};

static s64 run_left;		/* that, while somebody may come or go; else nothing */
static u64 run_rate;
static u32 run_forced;

/* Without the lock. */
static __always_inline void look_at_run(struct run *r, u64 now)
{
	struct task_struct *p = bpf_get_current_task_btf();
	s64 by_time = cpu_ctx(0)->slice_end - now;

	r->left = 0;
	r->t = task_ctx(p);
	if (!r->t || !r->t->grant) {	/* of another class */
		r->t = NULL;
		return;
	}
	r->left = r->t->grant - (p->se.sum_exec_runtime - r->t->sum);
	if (by_time < r->left)
		r->left = by_time > r->left - TICK_MOST_NS ? by_time : r->left - TICK_MOST_NS;
}

static __always_inline void begin_run_locked(const struct run *r)
{
	if (!r->t)
		return;
	run_left = r->left;
	run_rate = r->t->rate;
	run_forced = r->t->ran_from < TIX_QUEUES_MAX && QUEUES[r->t->ran_from].forced;
}

static __always_inline void end_run_locked(const struct run *r)
{
	if (!r->t)
		return;
	r->t->rate = run_rate;
	run_left = 0;
}

static __always_inline void to_used_locked(void)
{
	now_v -= weighed(run_left, run_rate);
}

static __always_inline void to_granted_locked(void)
{
	if (!run_forced)
		run_rate = GRAPH->rate;
	now_v += weighed(run_left, run_rate);
}

#endif
