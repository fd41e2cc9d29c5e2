/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On one CPU a slice belongs to a principal, not to a thread. Who wakes up while another of its
 * principal runs waits beside it: it is not filed while that one goes on. And where who runs goes
 * to sleep before the slice is over, the next of its principal has what is left. Nothing needs to
 * be decided then, and two threads that do nothing but wake each other pay for a decision once a
 * slice.
 *
 * Who waits so is filed at the next decision, and a quantum later at the latest
 * (slice_timer_fired). All of this is under the CPU's own runqueue lock, or in its timer.
 *
 * On several CPUs it was tried, too: there other CPUs find too late who waits, or how much there
 * is to do, and threads move a third more often (tix-load migrations).
 */
#ifndef TIX_BESIDE_BPF_H
#define TIX_BESIDE_BPF_H

/* Whether `t`, put into queue `q`, may wait beside who runs. */
static __always_inline bool is_beside(const struct task_ctx *t, u32 q, u64 enq_flags)
{
	const struct cpu_ctx *c = cpu_ctx(0);

	return nr_cpu_ids == 1 && (enq_flags & SCX_ENQ_WAKEUP) && c->runs == q && t->ran_from == q && !c->idle;
}

/* Whether anybody waits so. */
static __always_inline bool any_beside(void)
{
	u32 q = cpu_ctx(0)->runs;

	return nr_cpu_ids == 1 && q < TIX_QUEUES_MAX && QUEUES[q].nr && !CLIENTS[q].linked;
}

/* They are filed; the queue of who goes on is, too, elsewhere (prev_locked). */
static __always_inline void beside_locked(u32 prev_queue)
{
	u32 q = cpu_ctx(0)->runs;

	if (q != prev_queue && any_beside())
		file_locked(q, false);
}

__noinline int tix_file_beside(u64 now)
{
	USES_ARENA();
	if (!any_beside())
		return 0;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	beside_locked(VTRR_NONE);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/* `prev` went to sleep before its slice was over: the next of its queue has the rest. */
static __noinline bool pass_on(s32 cpu, struct task_struct *prev, struct task_ctx *t)
{
	u64 sum = prev->se.sum_exec_runtime, used = sum - t->sum;
	u32 q = t->ran_from, weight = prev->scx.weight;
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct tix_node *n;

	if (q != c->runs || t->payer < TIX_QUEUES_MAX || q >= TIX_QUEUES_MAX || !QUEUES[q].nr || QUEUES[q].node != t->node)
		return false;
	if ((s64)(used + TIMER_MIN_NS - t->grant) >= 0 || c->brief || c->kicked || c->spared || any_waited_for())
		return false;
	n = &NODES[t->node];
	n->used_ns += used;
	n->vtime += per_weight(used, n->load);
	if (nr_limits)
		tix_debit(t->node, used, c->now);
	t->sum = sum;
	t->vtime += per_weight(used, weight);
	c->asked = 0;
	c->pick.grant = t->grant - used;
	c->pick.rate = t->rate;
	c->granting = q;
	t->grant = t->rate = 0;
	if (take(q, cpu))
		return true;
	c->granting = VTRR_NONE;
	t->grant = c->pick.grant;
	t->rate = c->pick.rate;
	return false;
}

#endif
