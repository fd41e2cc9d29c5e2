/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two threads of one principal that wake each other, as over a pipe, hand a slice to and fro. Who is woken up by who runs, of
 * their principal nobody else waits there, goes straight to what the kernel runs next on that CPU: nothing is filed, and when
 * the other one goes to sleep nobody is asked. What was granted stays with who was picked; what each of the two has used is
 * charged at the next decision (settle_pair), which is once a slice. They are a pair until then: who else is woken up waits as
 * always.
 *
 * Whoever is to be served at once, or the end of the slice, puts an end to it: who waits so is put into its queue, and filed.
 * The kernel can be asked for that since 7.1.
 *
 * On several CPUs nobody else finds who waits so. So it is only for who is woken up by somebody that is about to sleep, the
 * kernel says (SCX_WAKE_SYNC), while no CPU is idle; and then the two come together on one.
 */
#ifndef TIX_HAND_BPF_H
#define TIX_HAND_BPF_H

/*
 * Whether `p`, who is woken up on CPU `here`, is to run there next, where who runs is of the same principal and about to sleep.
 * `c->sync` is `p` then, until it is put there.
 */
static __always_inline bool joins_waker(struct task_struct *p, s32 here, u64 wake_flags)
{
	struct cpu_ctx *c = cpu_ctx(here);
	struct task_ctx *t;
	u32 q = c->runs;

	c->sync = 0;
	if (!__COMPAT_has_generic_reenq() || !(wake_flags & SCX_WAKE_SYNC) || q >= TIX_QUEUES_MAX)
		return false;
	if (QUEUES[q].nr || is_pinned(p))
		return false;
	t = task_ctx(p);
	if (!t || t->node != QUEUES[q].node)
		return false;
	c->sync = p->pid;
	return true;
}

/* Whether the current thread, of CPU `c`, has been handed its slice by `p`. */
static __always_inline bool was_handed_by(const struct cpu_ctx *c, const struct task_struct *p)
{
	return c->partner == p->pid && c->handed == bpf_get_current_task_btf()->pid;
}

/* Whether `p`, which wakes up on CPU `cpu`, is handed the slice of who runs there; what it used before is accounted for. */
static __always_inline bool hands_over(s32 cpu, struct cpu_ctx *c, struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u32 q = t->node, curr;
	struct tix_node *n;
	u64 used;

	if (!__COMPAT_has_generic_reenq() || !(enq_flags & SCX_ENQ_WAKEUP))
		return false;
	if (nr_cpu_ids > 1) {
		if (c->sync != p->pid || cpu != bpf_get_smp_processor_id() || t->home_vt != VT_HOME(cpu))
			return false;
		c->sync = 0;
		q = t->home;
		if (q >= TIX_QUEUES_MAX)
			return false;
	}
	if (c->runs != q || t->ran_from != q || QUEUES[q].nr || CLIENTS[q].linked)
		return false;
	if (c->idle || c->kicked || c->spared || c->turns || any_waited_for() || (nr_limits && (c->limited || seems_spent(t->node))))
		return false;
	if (t->waits || t->holds || t->payer < TIX_QUEUES_MAX || (p->flags & PF_KTHREAD))
		return false;
	curr = bpf_get_current_task_btf()->pid;
	if (!curr || (c->partner && !was_handed_by(c, p)))
		return false;
	c->returned = c->partner;
	c->partner = curr;
	c->handed = p->pid;

	n = &NODES[t->node];
	used = p->se.sum_exec_runtime - t->sum;
	n->used_ns += used;
	n->vtime += per_weight(used, n->load);
	t->sum += used;
	t->vtime += per_weight(used, p->scx.weight);
	t->grant -= used;	/* less than nothing, perhaps: what it will be charged for */
	count(p, t);
	return true;
}

/*
 * The pair on CPU `cpu` hands over no more until the next decision, and who waits so is put into its queue: others wait. Whether
 * the two have handed to and fro and who runs is inside a system call, so that it goes to sleep soon.
 */
static __always_inline bool part_pair(s32 cpu, struct cpu_ctx *c)
{
	bool soon = c->handed && c->returned && in_call(bpf_get_current_task_btf());

	if (!__COMPAT_has_generic_reenq() || !c->handed)
		return false;
	if (c->handed != bpf_get_current_task_btf()->pid)	/* else it runs */
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
	c->handed = 0;
	return soon;
}

/*
 * A decision is due on CPU `cpu`: the one of the pair that is not `prev`, who ran last and is seen to by that, is charged for what
 * it used.
 */
static __noinline void settle_pair(s32 cpu, struct cpu_ctx *c, const struct task_struct *prev)
{
	bool other = !prev || prev->pid != c->partner;
	struct task_struct *p = other ? bpf_task_from_pid(c->partner) : NULL;
	struct task_ctx *t;

	c->partner = c->handed = 0;
	if (!p)
		return;
	t = task_ctx(p);
	if (t && t->sum != ELSEWHERE && scx_bpf_task_cpu(p) == cpu)	/* else it is charged where it is by now */
		charge(p, t);
	bpf_task_release(p);
}

#endif
