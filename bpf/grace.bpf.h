/* SPDX-License-Identifier: GPL-2.0-only */
/* Who goes on for a moment although its slice is over. */
#ifndef TIX_GRACE_BPF_H
#define TIX_GRACE_BPF_H

#define GRACES 40	/* MIN_SLICE_NS each, charged, in a row: for a reader of RCU, and who forks, or moves pages */
#define CALL_GRACES 10	/* and inside a system call, or who may have locked pages */

/* Whether `p`, whose slice is over on this CPU, goes on for a moment, so that others need not wait for it. */
static __always_inline bool grace(struct cpu_ctx *c, struct task_struct *p, const struct task_ctx *t, bool yielded)
{
	if (c->graces >= GRACES)
		return false;
	if (!reads_rcu(p) && !is_forking(p, t) && !moves_pages(p, t) &&
	    (c->graces >= CALL_GRACES || yielded || !(in_call(p) || has_pages(p, t, true))))
		return false;
	c->graces++;
	return true;
}

#endif
