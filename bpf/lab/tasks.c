// SPDX-License-Identifier: GPL-2.0-only
/* Threads: sleeping, waking, being switched to, and leaving. */
#include "machine.h"

/* Sleepers, the earliest first. */

static bool wakes_before(u32 a, u32 b)
{
	const struct lab_task *x = M->task[a], *y = M->task[b];

	return x->wake_at != y->wake_at ? x->wake_at < y->wake_at : a < b;
}

void heap_push(u32 i)
{
	u32 at = M->nr_heap++;

	while (at && wakes_before(i, M->heap[(at - 1) / 2])) {
		M->heap[at] = M->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	M->heap[at] = i;
}

u32 heap_pop(void)
{
	u32 top = M->heap[0], last = M->heap[--M->nr_heap], at = 0;

	for (;;) {
		u32 child = at * 2 + 1;

		if (child >= M->nr_heap)
			break;
		if (child + 1 < M->nr_heap && wakes_before(M->heap[child + 1], M->heap[child]))
			child++;
		if (!wakes_before(M->heap[child], last))
			break;
		M->heap[at] = M->heap[child];
		at = child;
	}
	M->heap[at] = last;
	return top;
}

void update_curr(u32 cpu)
{
	struct lab_cpu *c = &M->cpu[cpu];
	struct lab_task *t;
	u64 ran;

	if (!c->curr || M->now <= c->exec_at)
		return;
	t = M->task[c->curr];
	ran = M->now - c->exec_at;
	c->exec_at = M->now;
	t->p.se.sum_exec_runtime += ran;
	t->p.scx.slice -= ran < t->p.scx.slice ? ran : t->p.scx.slice;
	t->run_left -= ran < t->run_left ? ran : t->run_left;
}

void as_current(u32 cpu)
{
	M->this_cpu = cpu;
	M->current = M->cpu[cpu].curr;
}

/* Into the hands of the scheduler. */
static void enqueue(struct lab_task *t, u64 flags)
{
	t->p.scx.flags |= SCX_TASK_QUEUED;
	t->in_bpf = true;
	tix_enqueue(&t->p, flags);
	if (!M->cpu[t->cpu].curr)
		M->cpu[t->cpu].resched = true;
}

/* Out of its hands, wherever it is. */
static void dequeue(struct lab_task *t, u64 flags)
{
	update_curr(t->cpu);
	if (t->in_bpf) {
		t->in_bpf = false;
	} else if (t->in_local) {
		local_remove(t);
	}
	t->p.scx.flags &= ~SCX_TASK_QUEUED;
	tix_quiescent(&t->p, flags);
}

void wake(struct lab_task *t, bool is_new)
{
	bool allowed = t->cpus.bits[0] >> t->cpu & 1;
	s32 cpu = t->cpu;

	if (t->state != ASLEEP)
		return;
	t->state = RUNNABLE;
	t->wake_at = NEVER;
	if (t->p.scx.flags & SCX_TASK_QUEUED)	/* it was about to sleep, and goes on */
		return;
	M->event(M->ctx, LAB_WAKES, t->index, t->cpu, M->now);
	if (t->p.nr_cpus_allowed > 1 && !t->p.migration_disabled)
		cpu = tix_select_cpu(&t->p, t->cpu, is_new ? 0 : SCX_ENQ_WAKEUP);
	else if (!allowed)
		cpu = tix_ctz64(t->cpus.bits[0]);
	if (t->in_local)	/* select_cpu inserted it: into the queue of the CPU that it named */
		local_remove(t), local_insert(cpu, t, false);
	if (t->cpu != (u32)cpu)
		t->migrations++;
	t->cpu = cpu;
	if (t->in_local) {
		t->p.scx.flags |= SCX_TASK_QUEUED;
		M->cpu[cpu].resched |= !M->cpu[cpu].curr;
		return;
	}
	enqueue(t, is_new ? 0 : SCX_ENQ_WAKEUP);
}

static void run_as(u32 cpu, u32 i)
{
	struct lab_cpu *c = &M->cpu[cpu];
	struct lab_task *t = i ? M->task[i] : NULL;

	if (i && c->curr != i) {
		t->run_left += M->switch_ns;
		M->switches++;
	}
	c->curr = i;
	c->exec_at = M->now;
	c->idle = !i;
	M->event(M->ctx, LAB_RUNS, i, cpu, M->now);
	if (!i)
		return;
	if (!t->p.scx.slice)
		t->p.scx.slice = SLICE_DEFAULT_NS;
	t->runs++;
	if (c->tick_at <= M->now)
		c->tick_at = (M->now / TICK_NS + 1) * TICK_NS + cpu * 100000;
}

/* __schedule(), balance_one() and put_prev_task_scx() of the kernel. */
void schedule(u32 cpu)
{
	struct lab_cpu *c = &M->cpu[cpu];
	u32 was = c->curr, next;
	struct lab_task *prev = was ? M->task[was] : NULL;
	bool keep = false, queued;

	c->resched = false;
	if (c->offline)
		return;
	update_curr(cpu);
	as_current(cpu);
	if (prev && prev->state != RUNNABLE && prev->p.scx.flags & SCX_TASK_QUEUED) {
		prev->p.scx.flags &= ~SCX_TASK_QUEUED;
		tix_quiescent(&prev->p, SCX_DEQ_SLEEP);
		M->event(M->ctx, LAB_SLEEPS, was, cpu, M->now);
	}
	queued = prev && prev->p.scx.flags & SCX_TASK_QUEUED;
	if (queued && prev->p.scx.slice) {
		keep = true;
	} else if (!c->nr) {
		M->in_dispatch = true;
		M->decisions++;
		tix_dispatch(cpu, prev ? &prev->p : NULL);
		M->in_dispatch = false;
		keep = queued && prev->p.scx.slice && !c->nr;
	}
	if (keep) {
		run_as(cpu, was);
		return;
	}
	if (queued) {
		if (prev->p.scx.slice) {
			local_insert(cpu, prev, true);
		} else {
			c->curr = 0;
			if (c->nr)
				enqueue(prev, 0);
			else
				enqueue(prev, SCX_ENQ_LAST);
		}
	}
	next = c->first;
	if (next)
		local_remove(M->task[next]);
	run_as(cpu, next);
	if (!next)
		c->resched |= c->nr > 0;
}

void leave(struct lab_task *t)
{
	struct scx_exit_task_args args = {};

	if (t->state == DEAD)
		return;
	if (t->p.scx.flags & SCX_TASK_QUEUED)
		dequeue(t, SCX_DEQ_SLEEP);
	t->state = DEAD;
	tix_disable(&t->p);
	tix_exit_task(&t->p, &args);
}

/* What is done to a thread that may wait or run: the kernel takes it out, and puts it back. */
bool taken_out(struct lab_task *t)
{
	bool queued = t->p.scx.flags & SCX_TASK_QUEUED;

	if (queued)
		dequeue(t, 0);
	return queued;
}

void put_back(struct lab_task *t, bool was_queued)
{
	struct lab_cpu *c = &M->cpu[t->cpu];

	if (!was_queued)
		return;
	if (c->curr == t->index && t->cpus.bits[0] >> t->cpu & 1) {
		/* It runs: straight into the local queue, and out of it as the next again. */
		t->p.scx.flags |= SCX_TASK_QUEUED;
		return;
	}
	if (c->curr == t->index) {
		c->curr = 0;
		c->resched = true;
	}
	if (!(t->cpus.bits[0] >> t->cpu & 1)) {
		t->cpu = tix_ctz64(t->cpus.bits[0]);
		t->migrations++;
	}
	enqueue(t, 0);
}
