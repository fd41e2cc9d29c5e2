/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel prints about tix when it ends it, or on sysrq-D: virtual times relative
 * to the CPU's clock, so that one sees which thread is behind and which was forgotten.
 */
#ifndef TIX_DUMP_BPF_H
#define TIX_DUMP_BPF_H

void BPF_STRUCT_OPS(tix_dump, struct scx_dump_ctx *dump)
{
	USES_ARENA();
	scx_bpf_dump("rate %llu / 2^32, %u CPUs, at %llu us\n", GRAPH->rate, nr_online, scx_bpf_now() / 1000);
	/* It has failed, and threads have not begun to leave it: what they take along is lost. */
	if (dump->kind >= SCX_EXIT_ERROR)
		keep_leads();
}

void BPF_STRUCT_OPS(tix_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	struct tix_cpu *c = CPU(cpu);
	u32 oldest;

	USES_ARENA();
	scx_bpf_dump("clock %llu us, idle %d, slice ends %llu us, timer %llu us\n", c->queue.clock / 1000, !!c->idle_ns,
		     c->slice_end_ns / 1000, c->timer_ns / 1000);
	oldest = c->queue.vt.oldest;
	if (c->queue.vt.nr && oldest < TIX_THREADS_MAX)
		scx_bpf_dump("%u threads wait, pid %d since %llu us ago\n", c->queue.vt.nr, THREADS[oldest].pid,
			     (scx_bpf_now() - CLIENTS[oldest].since) / 1000);
}

void BPF_STRUCT_OPS(tix_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	u32 i = thread_of(p);
	struct tix_thread *t = &THREADS[i];
	struct tix_account *own;

	USES_ARENA();
	if (!i || t->node >= TIX_NODES_MAX)
		return;
	own = &ACCOUNTS[t->node];
	scx_bpf_dump("node %u: %u runnable of weight %u, inverse %llu / 2^16, active %u\n", t->node,
		     own->nr_runnable, own->load, own->inverse >> 16, NODES[t->node].self_active);
	scx_bpf_dump("on queue %d, tag %lld us after its clock, account %lld us; period %llu us, slice %u us\n",
		     t->queue - 1, (s64)(t->tag - CPU(t->cpu)->queue.clock) / 1000,
		     (s64)(own->vtime - CPU(t->cpu)->queue.clock) / 1000, t->period / 1000, t->slice_ns / 1000);
}

#endif
