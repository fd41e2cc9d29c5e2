/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs that come and go. */
#ifndef TIX_HOTPLUG_BPF_H
#define TIX_HOTPLUG_BPF_H

/* What slices are computed from. */
static void count_online(u32 more)
{
	nr_online += more;
	__sync_fetch_and_add(&GRAPH->epoch, 1);
}

void BPF_STRUCT_OPS(tix_cpu_online, s32 cpu)
{
	USES_ARENA();
	CPU(cpu)->offline = 0;
	count_online(1);
}

/*
 * From here on the kernel runs what is on this CPU's local queue until it is empty, and asks us for
 * nothing more: what waits here waits on another CPU from now on, which takes it if it may.
 */
void BPF_STRUCT_OPS(tix_cpu_offline, s32 cpu)
{
	u64 now = scx_bpf_now();
	u32 n, i, to;

	USES_ARENA();
	count_online(-1);
	CPU(cpu)->offline = 1;
	bpf_for(to, 0, nr_cpu_ids)
		if (to != cpu && !CPU(to)->offline)
			break;
	bpf_for(n, 0, TIX_THREADS_MAX) {
		i = CPU(cpu)->queue.vt.oldest;
		if (!CPU(cpu)->queue.vt.nr || i >= TIX_THREADS_MAX)
			break;
		if (tix_unlink(i)) {
			THREADS[i].cpu = to;
			tix_link(to, i, now);
		}
	}
	scx_bpf_kick_cpu(to, 0);
}

#endif
