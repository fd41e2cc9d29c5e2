/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel prints about tix when it ends it, or on sysrq-D: virtual times relative
 * to V, so that one sees who is behind and who was forgotten.
 */
#ifndef TIX_DUMP_BPF_H
#define TIX_DUMP_BPF_H

/* Without the lock and its scratch memory: others may be deciding. */
static void dump_queues(u32 at, const char *what)
{
	struct vtrr *v = VT(at);
	u32 oldest = v->oldest;

	if (!v->nr || oldest >= TIX_QUEUES_MAX)
		return;
	scx_bpf_dump("%s: %u queues, queue %u was filed %llu us ago\n", what, v->nr, oldest,
		     (now_ns - CLIENTS[oldest].since) / 1000);
}

void BPF_STRUCT_OPS(tix_dump, struct scx_dump_ctx *dump)
{
	USES_ARENA();
	scx_bpf_dump("V %llu us, rate %llu / 2^32, %u CPUs, at %llu us\n", now_v / 1000,
		     GRAPH->rate, nr_online, scx_bpf_now() / 1000);
	scx_bpf_dump("looks %u picks %llu missed %llu stolen %llu forced %llu overdue %llu\n",
		     jump_looks, stats.picks, stats.missed, stats.stolen, stats.forced, stats.overdue);
	dump_queues(VT_ANY, "anywhere");
	/* It has failed, and threads have not begun to leave it: what they take along is lost. */
	if (dump->kind >= SCX_EXIT_ERROR)
		keep_leads();
}

void BPF_STRUCT_OPS(tix_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	USES_ARENA();
	scx_bpf_dump("idle %d, slice ends %llu us, timer %llu us\n", c->idle, c->slice_end / 1000,
		     c->timer_at / 1000);
	dump_queues(VT_HOME(cpu & (TIX_CPUS_MAX - 1)), "at home");
	dump_queues(VT_SOME(cpu & (TIX_CPUS_MAX - 1)), "here or on some others");
	dump_queues(VT_BOUND(cpu & (TIX_CPUS_MAX - 1)), "bound");
}

void BPF_STRUCT_OPS(tix_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);
	struct tix_node *n;
	struct tix_queue *queue;

	USES_ARENA();
	if (!t)
		return;
	n = &NODES[t->node];
	scx_bpf_dump("node %u: %u runnable of weight %u, inverse %llu / 2^16, active %u\n", t->node,
		     n->nr_runnable, n->load, n->inverse >> 16, n->self_active);
	if (t->queue >= TIX_QUEUES_MAX)
		return;
	queue = &QUEUES[t->queue];
	scx_bpf_dump("queue %u of %u: %u threads (%d there) of weight %u, linked %u\n", t->queue,
		     queue->vt, queue->nr, scx_bpf_dsq_nr_queued(DSQ(t->queue)), queue->load,
		     CLIENTS[t->queue].linked);
	scx_bpf_dump("tag %lld us, filed %lld us after V; period %llu us, slice %u us\n",
		     (s64)(queue->tag - now_v) / 1000, (s64)(CLIENTS[t->queue].tag - now_v) / 1000,
		     queue->period / 1000, queue->slice / 1000);
	scx_bpf_dump("due in %lld us of its principal's time\n", (s64)(t->vtime - n->vtime) / 1000);
}

#endif
