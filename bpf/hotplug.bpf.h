/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs that come and go. */
#ifndef TIX_HOTPLUG_BPF_H
#define TIX_HOTPLUG_BPF_H

/* What queues' slices are computed from. */
static void count_online(u32 more)
{
	bpf_spin_lock(&tix_lock);
	nr_online += more;
	GRAPH->epoch++;
	bpf_spin_unlock(&tix_lock);
}

void BPF_STRUCT_OPS(tix_cpu_online, s32 cpu)
{
	USES_ARENA();
	cpu_ctx(cpu)->offline = 0;
	count_online(1);
}

/*
 * Put anew what waits in queue `q`. Before 7.1 nobody can ask for that: there the kernel takes it over, whose queue the
 * CPU empties before it goes.
 */
static void put_anew(u32 q)
{
	struct task_struct *p;

	if (__COMPAT_has_generic_reenq()) {
		scx_bpf_dsq_reenq(DSQ(q), 0);
		return;
	}
	bpf_rcu_read_lock();	/* a timer of a program that may sleep has none, the verifier says */
	bpf_for_each(scx_dsq, p, DSQ(q), 0) {
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0))
			moved_away(p);
	}
	bpf_rcu_read_unlock();
}

/*
 * From here on the kernel runs what is on this CPU's local queue until it is empty, and
 * asks us for nothing more: have everything that waits here put again. So it is done with what waited for a limit's next
 * period meanwhile, when that begins.
 */
__noinline int tix_evacuate(u32 at)
{
	u32 q;

	USES_ARENA();
	if (at >= VT_NR)
		return 0;
	while (can_loop) {
		bpf_spin_lock(&tix_lock);
		vtrr_peek(VT(at), now_v);
		q = vtrr_first(VT(at));
		if (q < TIX_QUEUES_MAX)
			vtrr_unlink(VT(at), CLIENTS, q);
		bpf_spin_unlock(&tix_lock);
		if (q >= TIX_QUEUES_MAX)
			break;
		put_anew(q);
	}
	return 0;
}

void BPF_STRUCT_OPS(tix_cpu_offline, s32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	USES_ARENA();
	count_online(-1);
	c->offline = 1;
	if (c->left < TIX_NODES_MAX)
		tix_leave(c->left, VTRR_NONE);
	c->left = VTRR_NONE;
	c->runs = VTRR_NONE;
	tix_evacuate(VT_HOME(cpu & (TIX_CPUS_MAX - 1)));
	tix_evacuate(VT_SOME(cpu & (TIX_CPUS_MAX - 1)));
	tix_evacuate(VT_BOUND(cpu & (TIX_CPUS_MAX - 1)));
}

#endif
