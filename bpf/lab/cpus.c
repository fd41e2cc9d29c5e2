// SPDX-License-Identifier: GPL-2.0-only
/* Time, CPUs with their local queues, and timers, as the program asks the kernel for them. */
#include <stdarg.h>

#include "machine.h"

void lab_fail(const char *what)
{
	if (M && !M->failure[0])
		snprintf(M->failure, sizeof(M->failure), "%llu ns: %s", (unsigned long long)M->now, what);
}

void scx_bpf_error(const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	lab_fail(text);
}

u64 scx_bpf_now(void) { return M->now; }
u32 bpf_get_smp_processor_id(void) { return M->this_cpu; }

struct lab_task *task_of(const struct task_struct *p)
{
	return (struct lab_task *)((char *)p - offsetof(struct lab_task, p));
}

static struct task_struct nobody;

struct task_struct *bpf_get_current_task_btf(void)
{
	return M->current ? &M->task[M->current]->p : &nobody;
}

s32 scx_bpf_task_cpu(const struct task_struct *p) { return task_of(p)->cpu; }

static bool take_idle(u32 cpu, u64 allowed)
{
	if (cpu >= M->nr_cpus || !M->cpu[cpu].idle || !(allowed >> cpu & 1))
		return false;
	M->cpu[cpu].idle = false;
	return true;
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus, u64 flags)
{
	for (u32 cpu = 0; cpu < M->nr_cpus; cpu++)
		if (take_idle(cpu, cpus->bits[0]))
			return cpu;
	return -EBUSY;
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev, u64 flags, bool *idle)
{
	s32 cpu = prev;

	*idle = true;
	if (take_idle(prev, p->cpus_ptr->bits[0]))
		return prev;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		return cpu;
	*idle = false;
	return prev;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	struct lab_cpu *c = &M->cpu[cpu];

	if (c->offline || (flags & SCX_KICK_IDLE && c->curr))
		return;
	if (flags & SCX_KICK_PREEMPT && c->curr)
		M->task[c->curr]->p.scx.slice = 0;
	c->resched = true;
}

void scx_bpf_task_set_slice(struct task_struct *p, u64 slice) { p->scx.slice = slice; }

struct task_struct *bpf_task_from_pid(s32 pid)
{
	if (pid <= 0 || (u32)pid > M->nr_tasks || M->task[pid]->state == DEAD)
		return NULL;
	return &M->task[pid]->p;
}

struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgroup, u32 level)
{
	u32 i = cgroup->kn->id - 1;

	while (M->cgroup[i]->level > level)
		i = M->cgroup_parent[i];
	return M->cgroup[i];
}

/* Local queues. */

void local_insert(u32 cpu, struct lab_task *t, bool front)
{
	struct lab_cpu *c = &M->cpu[cpu];

	if (t->in_local)
		lab_fail("a thread is inserted twice");
	if (t->cpu != cpu)
		t->migrations++;
	t->in_bpf = false;
	t->in_local = true;
	t->cpu = cpu;
	t->next_local = t->prev_local = 0;
	if (!c->nr) {
		c->first = c->last = t->index;
	} else if (front) {
		t->next_local = c->first;
		M->task[c->first]->prev_local = t->index;
		c->first = t->index;
	} else {
		t->prev_local = c->last;
		M->task[c->last]->next_local = t->index;
		c->last = t->index;
	}
	c->nr++;
}

void local_remove(struct lab_task *t)
{
	struct lab_cpu *c = &M->cpu[t->cpu];

	if (t->prev_local)
		M->task[t->prev_local]->next_local = t->next_local;
	else
		c->first = t->next_local;
	if (t->next_local)
		M->task[t->next_local]->prev_local = t->prev_local;
	else
		c->last = t->prev_local;
	c->nr--;
	t->in_local = false;
}

s32 scx_bpf_dsq_nr_queued(u64 dsq)
{
	return M->cpu[(u32)dsq & (CPUS_MOST - 1)].nr;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	struct lab_task *t = task_of(p);
	u32 cpu = M->in_dispatch ? M->this_cpu : t->cpu;

	if ((dsq & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON)
		cpu = (u32)dsq;
	if (t->state != RUNNABLE)
		return;
	if (!(t->cpus.bits[0] >> cpu & 1))
		lab_fail("a thread is inserted where it may not run");
	p->scx.slice = slice;
	local_insert(cpu, t, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT));
	if (!M->cpu[cpu].curr) {
		M->cpu[cpu].resched = true;
	} else if (flags & SCX_ENQ_PREEMPT) {
		M->task[M->cpu[cpu].curr]->p.scx.slice = 0;
		M->cpu[cpu].resched = true;
	}
}

/* Timers. */

int bpf_timer_init(struct bpf_timer *timer, void *map, u64 clock)
{
	M->timer_map = map;
	M->timers[M->nr_timers] = timer;
	M->timer_key[M->nr_timers] = M->nr_timers < M->nr_cpus ? M->nr_timers : M->limits_timer;
	M->nr_timers++;
	return 0;
}

int bpf_timer_set_callback(struct bpf_timer *timer, int (*fired)())
{
	timer->fired = fired;
	return 0;
}

int bpf_timer_start(struct bpf_timer *timer, u64 in, u64 flags)
{
	timer->at = M->now + in;
	timer->on = true;
	timer->pinned = M->this_cpu;
	return 0;
}
