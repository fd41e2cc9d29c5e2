/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own threads that move pages about pause for what they had more than the root cgroup could pay for.
 *
 * While they have pages locked they go before all (pages.bpf.h), for up to a second of CPU where thousands of processes have these
 * in use. What of that the root cgroup can pay it does. The rest nobody is charged for, and no V passes, as for an interrupt: were
 * V to pass, all others would be behind it by that, and whoever wakes up would wait until they had caught up; were the root cgroup
 * to be ahead by it, its other threads would wait. Instead the thread itself waits afterwards until it has had a 32nd of the
 * time; not where a CPU would be idle, and not for so long that the 10 s rule (tix.bpf.c) would be at risk. It does not count as
 * runnable meanwhile: a crowd's turns are a part of what passes of V (compute_locked), which would be slow for somebody who is not
 * to be served.
 */
#ifndef TIX_PAUSE_BPF_H
#define TIX_PAUSE_BPF_H

#define MOVES_AHEAD 8		/* who is ahead by so much of SLACK_NS (8 ms) begins no more of it */

static u64 pauses_upto;	/* nobody pauses any longer from then on */

/* Whether `p`, a thread of the kernel's that ran until now, is not one of those that are chosen from. */
static __noinline bool is_apart(struct task_struct *p, const struct task_ctx *t, u64 now)
{
	return moves_pages(p, t) || t->payer == NOBODY_PAYS || (s64)(t->pause - now) > 0 || is_kernel_pinned(p);
}

/* Put `p`, a thread of the kernel's which is runnable, where it runs at once, if it moves pages, or pauses; false: it is one like all. */
static __always_inline bool is_paced(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u64 now = scx_bpf_now();
	s32 idle;

	if (moves_pages(p, t)) {
		/* Of a principal that is away the tag says nothing: it would pay for all of it, and V pass. */
		t->payer = NODES[t->node].self_active ? payer_of(t) : VTRR_NONE;
		if (t->payer == VTRR_NONE)
			t->payer = NOBODY_PAYS;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_HEAD);
		return true;
	}
	if ((s64)(t->pause - now) <= 0)
		return false;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice_ns, enq_flags);
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		return true;
	}
	pauses_upto = now + 2 * PAUSE_MOST;
	if (uncount(t))
		tix_leave(t->node, t->ran_from);
	scx_bpf_dsq_insert_vtime(p, PAUSED, MIN_SLICE_NS, t->pause, enq_flags);
	return true;
}

SEC("tp_btf/mm_migrate_pages")
int BPF_PROG(tix_moved)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);
	u64 now = scx_bpf_now();
	s64 ahead;
	u32 q;

	USES_ARENA();
	if (!t)
		return 0;
	t->moves = 0;
	q = t->ran_from;
	ahead = q < TIX_QUEUES_MAX ? QUEUES[q].tag - now_v : 0;
	/* What it had in advance, or nobody pays for, it gives back now: the next ones are locked in a moment. */
	if (ahead > (s64)(v_slack / MOVES_AHEAD) || t->payer == NOBODY_PAYS || (s64)(t->pause - now) > 0)
		end_soon(bpf_get_smp_processor_id(), now);
	return 0;
}

/* Take one to this CPU that has paused until `now`; for how long, ns; 0: there is none. A global function, so that the verifier looks at it once. */
__noinline int tix_go_on(u64 now)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(PAUSED);

	if (!p || (s64)(p->scx.dsq_vtime - now) > 0)
		return 0;
	return scx_bpf_dsq_move_to_local(PAUSED, 0) ? MIN_SLICE_NS : 0;	/* then it counts again */
}

#endif
