/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who yields lets others go first, and where those do nothing but yield in turn each decision is for a few microseconds. So one is
 * for two: who yields, and who was picked and yielded when it ran last, take turns for MIN_SLICE_NS, the shortest slice, without
 * asking anybody. Who yields goes straight behind the other one, to what the kernel runs next. What was granted is of who was picked;
 * the first to yield after that time is charged then, the other one when it stops next.
 *
 * They are of different principals, of which nobody else waits on this CPU: whom one of them may be waiting for is not kept waiting
 * by its own principal. Who yields has had its due, or hardly more: else it would run each time, with whom is due then, and
 * those that are a little behind that one never. No limit is on either, and no CPU is idle.
 *
 * Whoever is to be served at once, or the end of the slice, where one of them yields no more, parts them as it does pairs (part_pair). On several CPUs nobody else
 * finds who goes straight behind another; one that is further ahead has them stay apart for a while (keep_apart_locked).
 */
#ifndef TIX_TURNS_BPF_H
#define TIX_TURNS_BPF_H

static __always_inline bool any_idle(void)
{
	const struct cpumask *idle;
	bool none;

	if (nr_cpu_ids == 1)
		return false;
	idle = scx_bpf_get_idle_cpumask();
	none = bpf_cpumask_empty(idle);
	scx_bpf_put_idle_cpumask(idle);
	return !none;
}

/* Nobody waits on CPU `other` for `cpu` to take over. If two take turns there, and `cpu` is further ahead, one of them is to wait. */
static __always_inline void keep_apart_locked(u32 cpu, u32 other)
{
	struct cpu_ctx *c = &cpu_ctxs[other];

	if (!c->turns)
		return;
	units_locked();
	if (cpu_ctxs[cpu].lead - c->lead > (s64)v_steal)
		c->apart = now_ns + CATCH_UP_NS;
}

/* `prev`, which yielded, and `c->took`, who was picked and is next on CPU `c`, are to take turns, if they may. */
static __always_inline void begin_turns(struct cpu_ctx *c, const struct task_struct *prev, const struct task_ctx *t)
{
	const struct pick *pick = &c->pick;
	u64 v = now_v - tix_mul_q32(pick->grant, pick->rate);	/* when it was picked */
	u32 q = pick->prev_queue, other = pick->queue;

	if (!__COMPAT_has_generic_reenq() || q >= TIX_QUEUES_MAX || other >= TIX_QUEUES_MAX || (s64)(c->apart - c->now) > 0)
		return;
	/* A forced run (compute_locked) would pass V at another rate than its tag. */
	if (QUEUES[q].nr || pick->waiting != 1 || QUEUES[q].node == QUEUES[other].node || QUEUES[q].forced)
		return;
	if ((nr_limits && (c->limited || may_have_limit(t->node))) || any_idle())
		return;
	/* Beside whom it has had hardly more: who was picked here lately, and a CPU that has less to do is ahead of V with all of them. */
	if (nr_cpu_ids > 1)
		v += c->lead;
	if ((s64)(QUEUES[q].tag - v) > (s64)tix_mul_q32(MIN_SLICE_NS / 4, QUEUES[q].inverse))
		return;
	c->partner = prev->pid;
	c->handed = c->took;
	c->returned = 0;
	c->runs = q;	/* until it is put back, which is at once */
	c->aside = other;
	c->turns = 1;
}

/* Whether `p` is in the middle of a sched_yield(2), by its number; of a 32-bit program's it is not known. */
static __always_inline bool in_yield(struct task_struct *p)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);

#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax == 24;
#elif defined(__TARGET_ARCH_arm64)
	return regs->syscallno == 124;
#else
	return false;
#endif
}

/*
 * Whether `p`, which ran on CPU `c` and is put back, goes straight behind the other one; else, if it was one of two, it no longer
 * is.
 */
static __always_inline bool takes_turns(struct cpu_ctx *c, struct task_struct *p, struct task_ctx *t)
{
	u64 now = scx_bpf_now();
	u32 q = t->ran_from;

	if (c->partner != p->pid || !c->handed)
		return false;
	if (c->kicked || any_waited_for() || t->waits || t->holds || q >= TIX_QUEUES_MAX || QUEUES[q].nr ||
	    now - c->began >= MIN_SLICE_NS || (s64)(c->apart - now) > 0) {
		if (!c->kicked && in_yield(p)) {
			c->asked = p->pid;
			c->yielded = 1;
		}
		c->turns = c->partner = c->handed = 0;
		c->runs = c->aside;
		return false;
	}
	if (CLIENTS[q].linked)	/* by the decision, for others that there are not */
		tix_unfile(q);
	c->asked = 0;
	c->partner = c->handed;
	c->handed = p->pid;
	c->runs = c->aside;
	c->aside = q;
	return true;
}

/* `p`, which took turns with another, goes to sleep; the next decision may be that one's. */
static __noinline void sleeps_in_turns(struct cpu_ctx *c, struct task_struct *p, struct task_ctx *t)
{
	if (c->partner == p->pid)
		c->runs = c->aside;
	charge(p, t);
	bpf_spin_lock(&tix_lock);
	emptied_locked(t);
	bpf_spin_unlock(&tix_lock);
}

#endif
