/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tix: the sched_ext operations, glue between the kernel and vtrr.h and funding.h.
 *
 * A principal is a cgroup with runnable threads. Its threads wait in a DSQ ordered by
 * virtual time inside it (weighted by nice), one per CPU that they are at home on; those
 * queues are the clients of the CPU's struct vtrr. A CPU runs its own threads,
 * which keeps them where their caches are, and takes over what is overdue elsewhere.
 * Threads bound to a CPU wait in queues and a struct vtrr apart, charged alike and never
 * in the way of another CPU's pick; so do those that may use some CPUs, which one of these
 * takes over if it would be idle (help.bpf.h).
 *
 * Who sleeps most of the time and wakes up is served before who is not late (link_locked),
 * and at once (hurry).
 *
 * The kernel side stands alone: cgroups are mirrored into the funding graph here, funded
 * by their parent with cpu.weight tickets. The daemon adds what differs (control.bpf.h).
 *
 * Every runnable thread runs at least every 10 s: a queue's period is at most ROUND_NS
 * divided by its threads, whatever its share; slices get shorter for that, down to
 * MIN_SLICE_NS, and only then is the queue given more than its share. Where that is not
 * enough (the shares of those on one CPU may add up to several), who has waited for
 * OVERDUE_NS goes first. Inside a principal nobody is overtaken for ever: place(),
 * turn_locked().
 */
#include <scx/common.bpf.h>
#include "enums.bpf.h"
#include "intf.h"
#include "vtrr.h"
#include "lead.h"

char _license[] SEC("license") = "GPL";

#include "state.bpf.h"

const volatile u32 layout = TIX_LAYOUT;
const volatile u32 nr_cpu_ids = 1;
const volatile u64 slice_ns = 1000000;	/* Q: the quantum */

#define MIN_SLICE_NS 100000ull
/*
 * The 10 s rule: a queue gets ahead by two rounds at most, a thread of it is overtaken for
 * two turns and one round; the rest is room for what switches cost.
 */
#define ROUND_NS 1500000000ull
#define TURN_NS 1650000000ull		/* longer than a round, so that it changes nothing in a steady crowd */
#define TIMER_MIN_NS 50000ull
#define LAG_PERIODS 4			/* how far a tag may be behind V */
#define LEAD_PERIODS 2			/* and ahead of it, beside what runs */
#define SLACK_NS 64000000ull		/* a tag may be twice this further behind V or ahead of it for what is on other CPUs */
#define STEAL_NS 20000000ull		/* what is on a CPU that is behind by this another takes over */
#define CROWD_STEALS 4			/* by so many of it, if it is no more apart from its own there (crowds_locked) */
#define CATCH_UP_NS 100000000ull	/* and the next one after this */
#define MANY_MORE 16			/* queues more than twice as many as here: there the next one */
#define CATCH_UP_MANY_NS 1500000ull	/* goes so soon after this */
#define LEAD_LOG 4			/* how many picks a CPU's mean is of, 2^this */
#define CAP_SLICES 32			/* what threads that cannot use it are due all the same (run_over_locked) */
#define CAP_EVERY_NS 4000000ull		/* how often that is looked at */
#define OVERDUE_NS 4000000000ull	/* who waits longer goes first */
/* Who is owed service when it wakes up is filed as if it had been due long ago, apart from the others. */
#define BRIEF_GROUP 0
#define BRIEF_LEAD (1ull << 56)
#define SPARE_QUEUES 64		/* ready for threads that come to another CPU, */
#define SPARE_MORE 2048		/* and for each node one on each other CPU, but so many at most */

#define TRIES 16			/* picks of one decision: a queue may be empty by then, or have to wait for a limit */
#define SHUT 3				/* picks of threads that are there and do not come: the kernel gives this CPU none */

#include "task.bpf.h"
#include "kernel.bpf.h"
#include "pages.bpf.h"
#include "folio.bpf.h"
#include "grace.bpf.h"
#include "limit.bpf.h"
#include "overdue.bpf.h"
#include "account.bpf.h"
#include "share.bpf.h"
#include "run.bpf.h"
#include "file.bpf.h"
#include "take.bpf.h"
#include "beside.bpf.h"
#include "hand.bpf.h"
#include "turns.bpf.h"
#include "help.bpf.h"
#include "timer.bpf.h"
#include "pick.bpf.h"
#include "hold.bpf.h"
#include "nodes.bpf.h"
#include "owner.bpf.h"
#include "lock.bpf.h"
#include "hotplug.bpf.h"
#include "control.bpf.h"
#include "lead.bpf.h"
#include "usage.bpf.h"
#include "core.bpf.h"
#include "dump.bpf.h"

static __always_inline bool used_up(const struct task_struct *p, const struct task_ctx *t)
{
	u32 q = t->ran_from;
	u64 slice = q < TIX_QUEUES_MAX ? QUEUES[q].slice : slice_ns;

	if (t->payer < TIX_QUEUES_MAX && t->grant < slice)
		slice = t->grant;
	return p->se.sum_exec_runtime - t->sum + TIMER_MIN_NS >= slice;
}

/* Whether `p` may have to wait for the next period of a limit: who files it looks closer. */
static __always_inline bool has_to_wait(struct task_struct *p)
{
	struct task_ctx *t;

	if (!nr_limits)
		return false;
	t = task_ctx(p);
	return t && seems_spent(t->node);
}

s32 BPF_STRUCT_OPS(tix_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 here = bpf_get_smp_processor_id(), cpu;
	bool idle = false, joins = joins_waker(p, here, wake_flags);

	USES_ARENA();
	if (joins && prev_cpu == here && was_handed_by(cpu_ctx(here), p))
		return here;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle && !has_to_wait(p))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return joins && !idle ? here : cpu;
}

/*
 * A decision is due on `cpu`: who runs makes room, unless it was in a hurry, too, a moment ago; for
 * a sleeper that is served at once (`brief`), or as nobody times who runs there.
 */
static __always_inline void hurry(s32 cpu, bool brief)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (!untimed(c) && c->brief && (s64)(scx_bpf_now() - c->began) < (s64)MIN_SLICE_NS)
		return;
	c->kicked = brief ? PREEMPTED : 1;
	stats.preempts++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	part_pair(cpu, c);
}

void BPF_STRUCT_OPS(tix_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p), idle = -1;
	struct tix_queue *queue;
	struct tix_node *n;
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 vtime, high;
	bool waited_for, at_once, first, own = p == bpf_get_current_task_btf(), asked;
	u32 q;

	USES_ARENA();
	if (!t)
		return;
	if ((p->flags & PF_KTHREAD) && goes_first(p, t)) {
		enq_flags |= preempts(c, is_kernel_pinned(p), enq_flags);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | (c->handed ? SCX_ENQ_HEAD : 0));
		return;
	}
	if ((own && c->turns && takes_turns(c, p, t)) || hands_over(cpu, c, p, t, enq_flags)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	if (p->se.sum_exec_runtime != t->sum || t->grant)
		charge(p, t);
	count(p, t);
	asked = own && c->asked == p->pid;
	t->yields = asked && c->yielded;
	if (own) {
		c->asked = 0;
		if (!asked && c->kicked != PREEMPTED && grace(c, p, t, false)) {
			/*
			 * Its slice was over, but a higher class took the CPU before we were asked, or one
			 * that is waited for goes first, for which we are not. Its end is not looked at, so
			 * not where somebody is to be served at once.
			 */
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, MIN_SLICE_NS, enq_flags | SCX_ENQ_HEAD);
			if (c->limited)	/* else it is up to a ms, which who moves pages needs */
				run_until(cpu, c, scx_bpf_now(), MIN_SLICE_NS, false);
			return;
		}
		c->graces = 0;
		if (reads_rcu(p))
			reads_yet(p, t);
	}

	at_once = (p->flags & PF_KTHREAD) && moves_pages(p, t);
	waited_for = is_waited_for(p, t) || at_once;
	t->payer = VTRR_NONE;
	if (waited_for && find_donor(t, cpu, c->runs, at_once)) {
		/* Behind a sleeper that has just preempted it. */
		if (!own || !c->brief)
			enq_flags |= SCX_ENQ_HEAD;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->grant, enq_flags | preempts(c, false, enq_flags));
		return;
	}
	if (is_forking(p, t) || (own && !(asked && c->yielded) && in_call(p)))
		cut_short(p);

	if (nr_limits && is_pinned(p) && seems_spent(t->node)) {
		q = tix_home_queue(t, vt_of_pinned(p, cpu));
		if (q == VTRR_NONE)
			q = t->node;
	} else if (is_pinned(p)) {
		if (p->nr_cpus_allowed > 1 && !migration_disabled(p)) {
			idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
			if (idle < 0)
				cpu = choose_allowed(p, cpu);
		} else if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
			idle = cpu;
		}
		if (idle >= 0) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice_ns, enq_flags);
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
		q = tix_home_queue(t, vt_of_pinned(p, cpu));
		if (q == VTRR_NONE) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, MIN_SLICE_NS, enq_flags | preempts(cpu_ctx(cpu), false, enq_flags));
			return;
		}
	} else if (nr_cpu_ids > 1) {
		q = tix_home_queue(t, VT_HOME(cpu));
		if (q == VTRR_NONE)
			q = t->node;
	} else {
		q = t->node;
	}

	if (t->queue != VTRR_NONE) {	/* put anew without having been taken out */
		__sync_fetch_and_add(&QUEUES[t->queue].load, -t->load);
		__sync_fetch_and_add(&QUEUES[t->queue].nr, -1);
	}
	n = &NODES[t->node];
	queue = &QUEUES[q];
	first = queue->nr && (waited_for || is_forking(p, t) || has_pages(p, t, own && !c->yielded));
	vtime = place(q, t, enq_flags & SCX_ENQ_WAKEUP, first);
	high = n->high;
	while ((s64)(vtime - high) > 0 && can_loop) {
		u64 was = __sync_val_compare_and_swap(&n->high, high, vtime);

		if (was == high)
			break;
		high = was;
	}
	t->queue = q;
	__sync_fetch_and_add(&queue->load, t->load);
	promise(queue);
	scx_bpf_dsq_insert_vtime(p, DSQ(q), queue->slice ?: slice_ns, vtime, enq_flags);
	if (waited_for)
		retry_later(p->pid);
	if (!CLIENTS[q].linked && !is_beside(t, q, enq_flags)) {
		tix_file(q, enq_flags & SCX_ENQ_WAKEUP, t);
		if (limit_due)
			tix_arm_limits();
		if (queue->brief || untimed(cpu_ctx(cpu)))
			hurry(cpu, queue->brief);
	}
	if (!own && !(enq_flags & SCX_ENQ_WAKEUP))
		put_again(p, q);
	/* This CPU found nobody to run a moment ago, and may have somebody now. */
	if ((enq_flags & SCX_ENQ_LAST) && CLIENTS[q].linked)
		scx_bpf_kick_cpu(cpu, 0);
}

void BPF_STRUCT_OPS(tix_dequeue, struct task_struct *p, u64 deq_flags)
{
	USES_ARENA();
	taken(p, deq_flags);
}

/*
 * Whether `prev` goes on rather than the first thread of the same queue: the one that is
 * due earlier runs.
 */
static bool prev_is_behind(struct task_struct *prev, struct task_ctx *t, u32 q)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(DSQ(q));

	return !first || (s64)(place(q, t, false, reads_rcu(prev) || is_forking(prev, t) || has_pages(prev, t, true)) - first->scx.dsq_vtime) <= 0;
}

void BPF_STRUCT_OPS(tix_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct pick *pick = &c->pick;
	struct task_ctx *t = prev ? task_ctx(prev) : NULL;
	bool runnable = t && (prev->scx.flags & SCX_TASK_QUEUED), kicked = c->kicked;
	bool preempted = c->kicked == PREEMPTED;
	u32 first;
	u64 now;

	USES_ARENA();
	if (c->partner)
		settle_pair(cpu, c, prev);
	else if (nr_cpu_ids == 1 && t && !runnable && pass_on(cpu, prev, t))
		return;
	now = scx_bpf_now();
	c->now = now;
	c->asked = runnable ? prev->pid : 0;
	c->yielded = c->spared = c->turns = c->kicked = 0;
	pick->prev_queue = VTRR_NONE;
	pick->yielded = 0;
	pick->first = 1;
	if (t) {
		pick->slept = !runnable;
		/* Its slice is at an end, but neither used up nor ended by us: it yielded. */
		if (runnable && !prev->scx.slice && !kicked && !used_up(prev, t))
			pick->yielded = c->yielded = 1;
		/* All of the machine waits for a reader of RCU that waits: it may finish. */
		if (runnable && grace(c, prev, t, pick->yielded)) {
			c->asked = 0;
			c->spared = 1;
			scx_bpf_task_set_slice(prev, MIN_SLICE_NS);
			run_until(cpu, c, now, MIN_SLICE_NS, false);
			return;
		}
		c->graces = 0;
		pick->sum = prev->se.sum_exec_runtime;
		pick->weight = prev->scx.weight;
		if (runnable && !is_kernel_pinned(prev)) {
			count(prev, t);
			pick->prev_queue = queue_of(prev, t, cpu);
		}
	}

	first = any_waited_for() && !preempted ? fetch_waited_for(cpu, pick->prev_queue, now) : 0;
	if (first) {
		tix_file_beside(now);
		c->runs = VTRR_NONE;	/* who ran is charged when it is put back, or seen next */
		run_until(cpu, c, now, first, false);
		return;
	}
	if (t && nr_limits)
		tix_debit(t->node, pick->sum - t->sum, now);
	pick->now = now;
	pick->cpu = cpu;
	pick->refile = VTRR_NONE;
	pick->left = c->left;
	pick->allowed = ~0ull;
	pick->held = 0;
	c->left = VTRR_NONE;
	pick->shut = 0;
	pick->elsewhere = VTRR_NONE;
	for (pick->tries = 0; pick->tries < TRIES && can_loop; pick->tries++) {
		pick->again = 0;
		tix_decide(pick, t);
		pick->first = 0;
		if (limit_due)
			tix_arm_limits();
		if (pick->again)
			continue;
		if (pick->queue == VTRR_NONE) {
			if (nr_cpu_ids < 3 || !any_some || runnable || pick->elsewhere != VTRR_NONE)
				break;
			pick->elsewhere = waits_elsewhere(cpu);
			if (pick->elsewhere == VTRR_NONE)
				break;
			pick->grant = 0;	/* nothing was granted this time */
			continue;
		}
		c->limited = pick->allowed != ~0ull;
		if (t && pick->queue == pick->prev_queue &&
		    (!pick->waiting || prev_is_behind(prev, t, pick->queue))) {
			t->ran_from = pick->queue;
			t->grant = pick->grant;
			t->rate = pick->rate;
			scx_bpf_task_set_slice(prev, pick->slice);
			c->asked = 0;
			run_until(cpu, c, now, pick->slice, false);
			stats.keeps++;
			return;
		}
		c->granting = pick->queue;
		c->took = 0;
		if (take(pick->queue, cpu)) {
			c->graces = 0;
			if (prev && t && pick->yielded && c->took)
				begin_turns(c, prev, t);
			run_until(cpu, c, now, pick->slice, pick->brief);
			return;
		}
		/* Promised, but not there yet: let it be found again, and look elsewhere. */
		c->granting = VTRR_NONE;
		pick->refile = pick->queue;
		stats.missed++;
		if (scx_bpf_dsq_nr_queued(DSQ(pick->queue)) > 0 && ++pick->shut == SHUT)
			break;
	}
	if (pick->refile != VTRR_NONE || pick->tries == TRIES) {
		if (pick->queue != VTRR_NONE)
			tix_undo(pick->refile, pick->grant, pick->rate);
		/* While the kernel prepares for a CPU to go it asks, but gives it nothing: tens of ms for which it would look in vain. */
		if (pick->shut < SHUT)
			scx_bpf_kick_cpu(cpu, 0);
		c->idle = !runnable && pick->shut == SHUT;
		c->left = pick->left;	/* the last one that has to wait for a limit: the next decision sees to it */
		c->runs = VTRR_NONE;
		return;
	}
	runnable &= !pick->held;
	c->idle = !runnable;
	if (runnable) {	/* pinned by the kernel itself */
		scx_bpf_task_set_slice(prev, slice_ns);
		run_until(cpu, c, now, slice_ns, false);
	}
	if (!runnable)
		c->lead = 0;	/* it is behind nobody */
	if (pick->queue == VTRR_NONE)
		c->runs = VTRR_NONE;
}

void BPF_STRUCT_OPS(tix_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx(p);
	struct cpu_ctx *c;

	USES_ARENA();
	/* Who changes its class, cgroup or nice value while it waits: there is no ops.dequeue for it. */
	if (!TOLD_OF_ALL)
		taken(p, deq_flags ?: SCX_DEQ_SLEEP);
	if (!t)
		return;
	c = cpu_ctx(bpf_get_smp_processor_id());
	if (p == bpf_get_current_task_btf()) {
		sleeps(p, t);
		if (c->turns && (deq_flags & SCX_DEQ_SLEEP))
			sleeps_in_turns(c, p, t);
	}
	if (!t->load)
		return;
	__sync_fetch_and_add(&NODES[t->node].load, -t->load);
	t->load = 0;
	if (__sync_fetch_and_add(&NODES[t->node].nr_runnable, -1) != 1)
		return;
	if (p == bpf_get_current_task_btf() && c->left == VTRR_NONE && !c->offline && !(c->turns && (deq_flags & SCX_DEQ_SLEEP)))
		c->left = t->node;	/* the next decision, which is at once, sees to it */
	else
		tix_leave(t->node, t->ran_from);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(tix_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *t;

	USES_ARENA();
	if (args->fork)
		forks(FORKS_NS);
	t = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		if (args->fork)
			forks(0);	/* there will be no child */
		return -ENOMEM;
	}
	__builtin_memset(t, 0, sizeof(*t));	/* it may be from the last time that this was in force */
	t->queue = t->home = t->ran_from = t->payer = VTRR_NONE;
	t->sum = ELSEWHERE;
	t->node = node_of(args->cgroup);
	task_join(t);
	spare_queues();
	return 0;
}

/* Enters this class: for the first time, or back from another, whose CPU time is not ours. */
void BPF_STRUCT_OPS(tix_enable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	USES_ARENA();
	if (t) {
		t->sum = t->light_sum = p->se.sum_exec_runtime;
		t->vtime = NODES[t->node].vtime;
	}
	forks(0);
}

/* Leaves it, for another or for ever. */
void BPF_STRUCT_OPS(tix_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	USES_ARENA();
	if (!t)
		return;
	charge(p, t);
	t->sum = ELSEWHERE;
}

void BPF_STRUCT_OPS(tix_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx(p);

	USES_ARENA();
	if (t)
		task_leave(t);
	if (args->cancelled)
		forks(0);
}

void BPF_STRUCT_OPS(tix_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *t = task_ctx(p);

	USES_ARENA();
	if (!t)
		return;
	if (t->sum != ELSEWHERE)
		charge(p, t);
	task_leave(t);
	t->node = node_of(to);
	t->home = t->ran_from = VTRR_NONE;
	task_join(t);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(tix_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	USES_ARENA();
	node_mirror(cgrp, weight_at_init(cgrp, args->weight));
	if (bpf_core_field_exists(args->bw_quota_us))
		node_limit(own_node(cgrp), args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return 0;	/* a mkdir never fails because of tix */
}

void BPF_STRUCT_OPS_SLEEPABLE(tix_cgroup_exit, struct cgroup *cgrp)
{
	USES_ARENA();
	node_unmirror(cgrp);
}

void BPF_STRUCT_OPS(tix_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	USES_ARENA();
	node_weight(own_node(cgrp), weight);
}

/* cpu.idle: as little as there is, and as in the kernel's own scheduler the default when that is over. */
void BPF_STRUCT_OPS(tix_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	USES_ARENA();
	node_weight(own_node(cgrp), idle ? IDLE_WEIGHT : DEFAULT_WEIGHT);
}

void BPF_STRUCT_OPS(tix_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	USES_ARENA();
	node_limit(own_node(cgrp), period_us, quota_us, burst_us);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(tix_init)
{
	s32 err;

	USES_ARENA();
	start_ticks();
	err = nodes_init();
	err = err ?: timers_init();
	return err ?: limits_init();
}

void BPF_STRUCT_OPS(tix_exit, struct scx_exit_info *ei)
{
	ended = 1;
	bpf_probe_read_kernel_str(last_exit.reason, sizeof(last_exit.reason), ei->reason);
	bpf_probe_read_kernel_str(last_exit.message, sizeof(last_exit.message), ei->msg);
	last_exit.code = ei->exit_code;
	last_exit.kind = ei->kind;
	bpf_probe_read_kernel_str(last_exit.dump, sizeof(last_exit.dump), ei->dump);
}

SCX_OPS_DEFINE(tix_ops,
	       .select_cpu = (void *)tix_select_cpu,
	       .enqueue = (void *)tix_enqueue,
	       .dequeue = (void *)tix_dequeue,
	       .dispatch = (void *)tix_dispatch,
	       .quiescent = (void *)tix_quiescent,
	       .init_task = (void *)tix_init_task,
	       .enable = (void *)tix_enable,
	       .disable = (void *)tix_disable,
	       .exit_task = (void *)tix_exit_task,
	       .cgroup_init = (void *)tix_cgroup_init,
	       .cgroup_exit = (void *)tix_cgroup_exit,
	       .cgroup_move = (void *)tix_cgroup_move,
	       .cgroup_set_weight = (void *)tix_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)tix_cgroup_set_bandwidth,
	       .cgroup_set_idle = (void *)tix_cgroup_set_idle,
	       .core_sched_before = (void *)tix_core_sched_before,
	       .cpu_online = (void *)tix_cpu_online,
	       .cpu_offline = (void *)tix_cpu_offline,
	       .init = (void *)tix_init,
	       .exit = (void *)tix_exit,
	       .dump = (void *)tix_dump,
	       .dump_cpu = (void *)tix_dump_cpu,
	       .dump_task = (void *)tix_dump_task,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	       .timeout_ms = 30000,
	       .name = "tix");
