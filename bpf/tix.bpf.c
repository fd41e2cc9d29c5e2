/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tix: the sched_ext operations, a thin shell around core/.
 *
 * A principal is a cgroup with runnable threads. It has one account for the machine
 * (core/account.h); its threads wait in the queues of the CPUs that they were woken up on
 * (core/queue.h), by tags from that account. A CPU runs what waits in its own queue, which
 * keeps threads where their caches are, and takes a thread over from another one whose clock
 * is behind (balance.bpf.h).
 *
 * The kernel side stands alone: cgroups are mirrored into the funding graph here, funded
 * by their parent with cpu.weight tickets. The daemon adds what differs (control.bpf.h).
 */
#include <scx/common.bpf.h>
#include "enums.bpf.h"
#include "intf.h"
#include "core/queue.h"
#include "core/account.h"

#ifndef TIX_HOST	/* there each machine has its own (lab/) */
#define STATE
#define RODATA const volatile
#endif

char _license[] SEC("license") = "GPL";

const volatile u32 layout = TIX_LAYOUT;
RODATA u32 nr_cpu_ids = 1;
RODATA u64 slice_ns = 1000000;	/* Q: the quantum */

#include "state.bpf.h"
#include "limit.bpf.h"
#include "members.bpf.h"
#include "nodes.bpf.h"
#include "queue.bpf.h"
#include "activity.bpf.h"
#include "timer.bpf.h"
#include "balance.bpf.h"
#include "place.bpf.h"
#include "hold.bpf.h"
#include "owner.bpf.h"
#include "lock.bpf.h"
#include "hotplug.bpf.h"
#include "control.bpf.h"
#include "handover.bpf.h"
#include "usage.bpf.h"
#include "core.bpf.h"
#include "dump.bpf.h"

#define TRIES 8		/* picks of one decision: a thread may be gone by then, or have to wait for a limit */

s32 BPF_STRUCT_OPS(tix_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = thread_of(p);
	bool idle = false;
	s32 cpu;

	USES_ARENA();
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (idle && i && !(nr_limits && may_have_limit(THREADS[i].node)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* Thread `i` waits no longer, neither for a CPU nor for a limit. */
static __always_inline void leave_queue(u32 i)
{
	if (THREADS[i].queue)
		tix_unlink(i);
	unhold(i);
}

void BPF_STRUCT_OPS(tix_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct tix_cpu *c = CPU(cpu);
	u32 i = thread_of(p);
	struct tix_thread *t = &THREADS[i];
	bool wakes = enq_flags & SCX_ENQ_WAKEUP, is_owner;
	u64 now;
	s32 idle;

	USES_ARENA();
	/* One that has ended may have no pid any longer, by which a decision would find it. */
	if (!i || p->exit_state || is_kernel_pinned(p)) {
		scx_bpf_dsq_insert(p, i ? SCX_DSQ_LOCAL : SCX_DSQ_GLOBAL, slice_ns,
				   enq_flags | (i && wakes ? SCX_ENQ_PREEMPT : 0));
		return;
	}
	leave_queue(i);
	t->pid = p->pid;
	t->cpus = cpus_of(p, cpu);
	t->cpu = cpu;
	if (c->next && c->running == i)		/* it made room for that one */
		go_on(c, scx_bpf_now());
	if (t->placed && !c->idle_ns && t->sum_ns == p->se.sum_exec_runtime) {
		/* It made room in a decision here, which has charged and placed it, and waits since then. */
		now = c->slice_end_ns - c->granted_ns;
	} else {
		now = scx_bpf_now();
		charge(p, i);
		tix_place(i, cpu, now, count_runnable(p, i), 0);
	}
	if (nr_limits && may_have_limit(t->node) && tix_seems_spent(t->node) && !tix_hold(i, now))
		return;
	if (wakes && !WAITS[i].lock && !(nr_limits && may_have_limit(t->node)) && goes_on(cpu, c, i, now)) {
		c->next = i;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, c->slice_end_ns - now, enq_flags);
		COUNTS(cpu).picks++;
		return;
	}
	link_thread(cpu, i, now);
	if (!ACCOUNTS[t->payer].epoch)
		c->stale = i;	/* nobody knows yet what it is worth */
	is_owner = wakes && WAITS[i].lock;
	if (is_owner)
		c->boosted = i;
	if (is_owner || (wakes && goes_before_running(c, t, now))) {
		preempt(cpu, c);
	} else if (!wakes && nr_cpu_ids > 1) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, 0);
	}
	/* This CPU found nobody to run a moment ago, and may have somebody now. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
}

static bool may_run(struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && (!migration_disabled(p) || scx_bpf_task_cpu(p) == cpu);
}

/* For how long limits let thread `i` run, ns; 0: it waits for one from now on. */
static __always_inline u32 allowed_by_limits(u32 i, u64 now)
{
	if (!nr_limits || !may_have_limit(THREADS[i & (TIX_THREADS_MAX - 1)].node))
		return ~0u;
	return tix_hold(i, now);
}

/* Place thread `i`: it has not been counted since it was held, owns a lock, or is worth another value. */
static __always_inline void place_anew(u32 cpu, u32 i, u64 now)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	struct task_struct *p;
	u32 first = 0;

	if (!t->weight || WAITS[i & (TIX_THREADS_MAX - 1)].lock) {
		p = bpf_task_from_pid(t->pid);
		if (!p)
			return;
		first = count_runnable(p, i);
		if (WAITS[i & (TIX_THREADS_MAX - 1)].lock)
			first |= tix_set_payer(i, tix_payer_for(p, i, now), now);
		bpf_task_release(p);
	}
	make_known(t->payer);
	tix_place(i, cpu, now, first, 0);
}

/* Thread `i`, which was linked on some queue until now, runs on this CPU next; false: it is gone. */
static __always_inline bool run_thread(u32 cpu, u32 i, u64 now)
{
	struct tix_cpu *c = CPU(cpu);
	struct task_struct *p;
	u32 slice, most;
	bool is_late;

	if (i >= TIX_THREADS_MAX)
		return false;
	most = allowed_by_limits(i, now);
	if (!most)
		return false;
	if (THREADS[i].weight)
		make_known(THREADS[i].payer);
	else		/* it was held by a limit until now: no thread runs uncounted */
		place_anew(cpu, i, now);
	is_late = (s64)(now - CLIENTS[i].since) > (s64)OVERDUE_NS;
	slice = is_late ? MIN_SLICE_NS : THREADS[i].slice_ns;
	if (slice > most)
		slice = most;
	p = bpf_task_from_pid(THREADS[i].pid);
	if (!p)
		return false;
	if (thread_of(p) != i || (nr_cpu_ids > 1 && !may_run(p, cpu))) {
		THREADS[i].cpus &= ~(1ull << (cpu & 63));
		if (thread_of(p) == i)
			tix_link(THREADS[i].cpu, i, now);
		bpf_task_release(p);
		return false;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, 0);
	bpf_task_release(p);
	/*
	 * The wait of one that waited too long is over when it has run (spent), as a real-time thread may
	 * interrupt it at once. Cost: whoever has others interrupt it each time is late again, and has an
	 * eighth of the CPU's time with all that are late, charged as any other.
	 */
	if (!is_late)
		CLIENTS[i].since = 0;
	run_until(cpu, c, i, now, slice);
	COUNTS(cpu).picks++;
	return true;
}

#define AGAIN (-1)

/* Have somebody else run on this CPU next; 0: nobody goes before `running`, which may be 0; AGAIN, in the `try`th place. */
__noinline int tix_run_next(u32 cpu, u32 running, bool runnable, u64 now, u32 try)
{
	u32 i = 0;

	USES_ARENA();
	if (nr_cpu_ids > 1)
		i = tix_balance(cpu, runnable, now);
	if (!i && CPU(cpu)->queue.vt.nr)
		i = tix_pick(cpu, running, now, try < REFILES);
	if (!i)
		return 0;
	return run_thread(cpu, i, now) ? 1 : AGAIN;
}

/* Place thread `i`, which waits on this CPU, anew: what it is worth has changed since, or who pays for it may have. */
__noinline int tix_review(u32 cpu, u32 i, u64 now)
{
	USES_ARENA();
	if (i >= TIX_THREADS_MAX || THREADS[i].queue != cpu + 1)
		return 0;
	place_anew(cpu, i, now);
	return tix_refile(cpu, i);
}

void BPF_STRUCT_OPS(tix_dispatch, s32 cpu, struct task_struct *prev)
{
	struct tix_cpu *c = CPU(cpu);
	u32 own = prev ? thread_of(prev) : 0, running = 0, try, slice, first;
	s32 done = AGAIN;
	bool runnable = own && (prev->scx.flags & SCX_TASK_QUEUED) && !is_kernel_pinned(prev);
	struct tix_thread *t = &THREADS[own];
	u64 now = scx_bpf_now();
	bool yields;
	u64 cost;

	USES_ARENA();
	if (c->idle_ns) {
		c->queue.clock = clock_of(c, now);
		c->idle_ns = now;
	}
	if (first_changed || GRAPH->moved) {
		END_BRANCHES();
		tix_change_nodes();
	}
	if (c->first_lingering && is_over(c->first_lingering - 1, now))
		tix_end_lingering(cpu, now);
	if (runnable) {
		/* Its slice is at an end, but neither used up nor ended by us: it yielded. */
		yields = !c->kicked && c->running == own && c->slice_end_ns > now + TIMER_MIN_NS;
		/* A slice used up ends what short runs were believed. */
		if (c->running == own && (s64)(now - c->slice_end_ns) >= 0)
			t->burst_ns = slice_ns;
		t->cpus = cpus_of(prev, cpu);
		cost = spent(prev, own);
		if (reads_rcu(prev))
			goes_before_siblings(&ACCOUNTS[t->node], t);
		first = count_runnable(prev, own);
		make_known(t->node);
		if (yields)
			CLIENTS[own].since = 0;
		if (yields && (s64)(t->tag - clock_to_yield(c)) < 0)
			first |= YIELDS;
		/* A lock's owner gives up its own, and nothing of its donor's. */
		if (WAITS[own].lock) {
			charge_node(t->node, cost, clock_to_yield(c), first & YIELDS);
			cost = 0;
			first &= ~YIELDS;
			first |= tix_set_payer(own, tix_payer_for(prev, own, now), now);
			make_known(t->payer);
		}
		tix_place(own, cpu, now, first | RAN, cost);
		if (!yields)
			running = own;
	}
	c->kicked = c->next = 0;
	if (c->stale)
		tix_review(cpu, c->stale, now);
	if (c->boosted) {
		tix_review(cpu, c->boosted, now);
		c->boosted = 0;
	}
	for (try = 0; try < TRIES && done == AGAIN && can_loop; try++)
		done = tix_run_next(cpu, running, runnable, now, try);
	if (done > 0)
		return;
	if (!runnable) {
		if (done == AGAIN)
			scx_bpf_kick_cpu(cpu, 0);	/* others wait yet */
		c->idle_ns = now;
		c->running = 0;
		if (c->first_lingering && !c->timer_ns)
			start_timer(cpu, c, now, LINGER_NS);
		return;
	}
	slice = t->slice_ns;
	if (nr_limits && may_have_limit(t->node)) {
		if (tix_seems_spent(t->node))
			return;		/* it is put back, and waits (tix_enqueue) */
		slice = slice_ns;
	}
	if (!c->queue.vt.nr)
		tix_pick(cpu, own, now, false);	/* nobody: the clock goes on */
	scx_bpf_task_set_slice(prev, slice);
	run_until(cpu, c, own, now, slice);
	COUNTS(cpu).keeps++;
}

/*
 * It goes to sleep. Or it is taken out for a moment, maybe while it runs, to be changed (below): then it still counts. What
 * it has used is charged here before that.
 */
void BPF_STRUCT_OPS(tix_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 i = thread_of(p);
	struct tix_cpu *c;
	u64 now;

	USES_ARENA();
	if (!i)
		return;
	charge(p, i);
	if (deq_flags & SCX_DEQ_SLEEP) {
		now = scx_bpf_now();
		c = CPU(bpf_get_smp_processor_id());
		learn_burst(&THREADS[i]);
		if (c->running == i && c->next)
			go_on(c, now);
		CLIENTS[i].since = 0;
		uncount(i, now);
	} else {
		leave_queue(i);
	}
}

/* Its nice value is another. What it is ahead of its siblings, in ns, stays. */
void BPF_STRUCT_OPS(tix_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = index_of(p), was;
	struct tix_thread *t = &THREADS[i];
	struct tix_account *own = &ACCOUNTS[t->node];
	s64 lead;

	USES_ARENA();
	was = t->weight;
	t->of_rate = 0;
	if (!i || !was || !weight)
		return;
	lead = within(t->served - own->thread_mean, served_by(DEBT_NS, was));
	t->served = own->thread_mean + scaled(lead, was, weight);
	t->weight = weight;
	__sync_fetch_and_add(&own->load, weight - was);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(tix_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct tix_thread *t;
	u32 i, *kept;

	USES_ARENA();
	kept = bpf_task_storage_get(&indexes, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	i = kept ? thread_alloc() : 0;
	if (!i)
		return -ENOMEM;
	*kept = i;
	t = &THREADS[i];
	t->pid = p->pid;
	t->queue = t->weight = t->held_by = 0;
	CLIENTS[i].since = 0;
	t->of_rate = t->placed = WAITS[i].lock = WAITS[i].waits = 0;
	t->sum_ns = t->slept_sum_ns = p->se.sum_exec_runtime;
	t->node = t->payer = node_of(args->cgroup);
	t->served = ACCOUNTS[t->node].thread_mean;
	t->burst_ns = slice_ns;
	task_join(t->node);
	p->scx.dsq_vtime = i;
	if (thread_of(p) != i)
		scx_bpf_error("dsq_vtime is not ours");
	return 0;
}

/* Enters this class: for the first time, or back from another, whose CPU time is not ours. */
void BPF_STRUCT_OPS(tix_enable, struct task_struct *p)
{
	u32 i = index_of(p);

	USES_ARENA();
	p->scx.dsq_vtime = i;
	THREADS[i].sum_ns = THREADS[i].slept_sum_ns = p->se.sum_exec_runtime;
	THREADS[i].served = ACCOUNTS[THREADS[i].node].thread_mean;
}

/* Leaves it, for another or for ever. */
void BPF_STRUCT_OPS(tix_disable, struct task_struct *p)
{
	u32 i = thread_of(p);

	USES_ARENA();
	if (!i)
		return;
	CLIENTS[i].since = 0;
	uncount(i, scx_bpf_now());
}

void BPF_STRUCT_OPS(tix_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = index_of(p);

	USES_ARENA();
	if (!i)
		return;
	leave_queue(i);
	task_leave(THREADS[i].node);
	thread_free(i);
}

void BPF_STRUCT_OPS(tix_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	u32 i = index_of(p);
	struct tix_thread *t = &THREADS[i];
	u64 now = scx_bpf_now();
	u32 cpu = scx_bpf_task_cpu(p);
	u32 from_node = t->node, weight;
	u64 served;

	USES_ARENA();
	if (!i)
		return;
	tix_set_payer(i, from_node, now);
	weight = t->weight;
	served = t->served;
	t->node = t->payer = node_of(to);
	t->of_rate = t->weight = 0;
	t->served = ACCOUNTS[t->node].thread_mean;
	task_join(t->node);
	/* It may be running, and counts there as it did here: there first, so that nobody above both seems to sleep. */
	if (weight && count_runnable(p, i))
		tix_rise(t->node, cpu, now, CPU(cpu)->running != i);
	/* The thread was picked for the principal that it leaves: a decision asks the one that it comes to. */
	if (CPU(cpu)->running == i)
		preempt(cpu, CPU(cpu));
	tix_count_asleep(from_node, weight, served, now);
	task_leave(from_node);
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
	       .dispatch = (void *)tix_dispatch,
	       .quiescent = (void *)tix_quiescent,
	       .set_weight = (void *)tix_set_weight,
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
