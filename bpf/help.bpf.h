/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that have nothing to do, and threads that wait elsewhere: who is at home nowhere else is taken over by whoever
 * looks (choose_locked), who may use some CPUs only by one of those.
 */
#ifndef TIX_HELP_BPF_H
#define TIX_HELP_BPF_H

#define HELPERS_ASKED 8	/* CPUs looked at, each quantum, for one that is idle */

/* The queue that comes first in struct vtrr `at`, or VTRR_NONE. A global function: called where nothing is locked. */
__noinline u32 tix_first(u32 at)
{
	u32 q;

	USES_ARENA();
	if (at >= VT_NR)
		return VTRR_NONE;
	bpf_spin_lock(&tix_lock);
	vtrr_peek(VT(at), now_v);
	q = vtrr_first(VT(at));
	bpf_spin_unlock(&tix_lock);
	return q;
}

/*
 * The CPU `cpu` would be idle: the struct vtrr of another where the first of those that may use some CPUs may use this one,
 * too; or VTRR_NONE. Masks are looked at here: beside a crowd that may not use a CPU nothing is to be picked in vain each time that
 * it becomes idle.
 */
static __noinline u32 waits_elsewhere(s32 cpu)
{
	struct task_struct *p;
	u32 i, q, at;

	bpf_for(i, 0, nr_cpu_ids) {
		at = VT_SOME(i & (TIX_CPUS_MAX - 1));
		if (i == cpu || !VT(at)->nr)
			continue;
		q = tix_first(at);
		if (q >= TIX_QUEUES_MAX)
			continue;
		p = __COMPAT_scx_bpf_dsq_peek(DSQ(q));
		if (p && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return at;
	}
	return VTRR_NONE;
}

/* The first of those that wait on `cpu` and may use some others: one of these is to look, if it is idle. */
static __noinline void call_allowed(u32 cpu)
{
	u32 q = tix_first(VT_SOME(cpu & (TIX_CPUS_MAX - 1)));
	struct task_struct *p;
	s32 idle = -1;

	if (q >= TIX_QUEUES_MAX)
		return;
	bpf_rcu_read_lock();	/* a timer of a program that may sleep has none, the verifier says */
	p = __COMPAT_scx_bpf_dsq_peek(DSQ(q));
	if (p)
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	bpf_rcu_read_unlock();
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/*
 * More threads on `cpu` than run, and others may run them: have an idle CPU look. Only now, a quantum after
 * they came, so that what sleeps again at once does not move.
 */
static void call_for_help(struct cpu_ctx *c, u32 cpu)
{
	u32 i, other = c->helper;

	if (nr_cpu_ids > 2 && VT(VT_SOME(cpu))->nr)
		call_allowed(cpu);
	if (nr_cpu_ids == 1 || !VT(VT_HOME(cpu))->nr)
		return;
	bpf_for(i, 0, HELPERS_ASKED) {
		if (++other >= nr_cpu_ids)
			other = 0;
		if (cpu_ctx(other)->idle) {
			scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
			break;
		}
	}
	c->helper = other;
}

#endif
