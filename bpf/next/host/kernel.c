// SPDX-License-Identifier: GPL-2.0-only
/*
 * A machine on the host that runs the whole BPF program: CPUs, threads, sleeps, locks and timers
 * as the kernel's core has them (kernel/sched/ext.c, 7.2), in simulated time.
 *
 * A decision takes no time, but for what a switch is said to cost. A thread does what its
 * program says (lab_next): compute, sleep, yield, wake another, take and release a lock. Each
 * host thread has a machine of its own: all state is thread-local.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../tix.bpf.c"
#include "kernel.h"

#define CPUS_MOST 64
#define TICK_NS 4000000ull
#define SLICE_DEFAULT_NS 20000000ull
#define NEVER (~0ull)

enum state { ASLEEP, RUNNABLE, DEAD };

struct lab_lock {
	struct mutex mutex;	/* its address is the lock's */
	u32 first, last;	/* waiters, by index; 0: none */
};

struct lab_task {
	struct task_struct p;
	struct cpumask cpus;
	struct cgroup *cgroup;
	enum state state;
	u32 cpu, index;
	bool in_bpf;		/* the scheduler has it: it is in no local queue and not running */
	bool in_local;
	u32 next_local, prev_local;
	u64 run_left;		/* of its present computation, ns */
	u64 wake_at;		/* NEVER: somebody wakes it */
	u64 woke_at;		/* 0: it has run since */
	u32 pending_wake;
	u64 started_at;
	/* locks */
	struct lab_lock *wants;
	struct mutex_waiter waiter;
	u32 next_waiter;
	bool waiting, yields;
	u64 runs, migrations;
};

struct lab_cpu {
	u32 curr;		/* 0: idle */
	u32 first, last, nr;	/* local queue */
	bool resched, idle, offline;
	u64 exec_at, tick_at;
};

struct map_entry {
	const void *map;
	u64 key;
	void *value;
	bool used;
};

#define MAP_SLOTS 8192u
#define LOCKS_MOST 64u

struct machine {
	u64 now, seed;
	u32 nr_cpus, this_cpu, current;
	u32 nr_tasks, nr_cgroups;
	u64 switch_ns, decisions, switches;
	bool in_dispatch;
	struct lab_cpu cpu[CPUS_MOST];
	struct lab_task **task;		/* 1 ... */
	u32 tasks_room;
	u32 *heap;			/* of sleepers, by wake_at */
	u32 nr_heap;
	struct cgroup **cgroup;		/* 0: the root */
	u32 *cgroup_parent;
	struct map_entry *map;
	struct lab_lock *lock;
	char *arena;
	struct bpf_timer *timers[CPUS_MOST + 1];
	u32 timer_key[CPUS_MOST + 1];
	u32 nr_timers;
	lab_next_fn *next;
	lab_ran_fn *ran;
	void *ctx;
	char failure[256];
};

static _Thread_local struct machine *M;
_Thread_local struct bpf_spin_lock *lock_held;

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

/* Maps: a table for all, by the map's address and the key. */

static u64 key_of(const void *key, size_t size)
{
	u64 k = 0;

	memcpy(&k, key, size);
	return k;
}

static struct map_entry *map_find(const void *map, u64 key)
{
	u64 at = ((u64)map * 31 + key) * 0x9e3779b97f4a7c15ull >> 40;
	u32 n;

	for (n = 0; n < MAP_SLOTS; n++, at++) {
		struct map_entry *e = &M->map[at % MAP_SLOTS];

		if (!e->map || (e->map == map && e->key == key))
			return e;
	}
	fprintf(stderr, "the simulated maps are full\n");
	abort();
}

void *lab_lookup(const void *map, const void *key, size_t key_size, size_t value_size, bool array,
		 size_t max)
{
	u64 k = key_of(key, key_size);
	struct map_entry *e = map_find(map, k);

	if (array && k >= max)
		return NULL;
	if (e->used)
		return e->value;
	if (!array)
		return NULL;
	e->map = map;
	e->key = k;
	e->used = true;
	if (!e->value)
		e->value = calloc(1, value_size);
	return e->value;
}

int lab_update(const void *map, const void *key, const void *value, size_t key_size,
	       size_t value_size)
{
	u64 k = key_of(key, key_size);
	struct map_entry *e = map_find(map, k);

	e->map = map;
	e->key = k;
	e->used = true;
	if (!e->value)
		e->value = calloc(1, value_size);
	memcpy(e->value, value, value_size);
	return 0;
}

int lab_delete(const void *map, const void *key, size_t key_size)
{
	map_find(map, key_of(key, key_size))->used = false;
	return 0;
}

void *lab_arena(u64 offset)
{
	return M->arena + offset;
}

/* Time and CPUs. */

u64 scx_bpf_now(void) { return M->now; }
u32 bpf_get_smp_processor_id(void) { return M->this_cpu; }

static struct lab_task *task_of(const struct task_struct *p)
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

static void local_insert(u32 cpu, struct lab_task *t, bool front)
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

static void local_remove(struct lab_task *t)
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
	local_insert(cpu, t, flags & SCX_ENQ_HEAD);
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
	M->timers[M->nr_timers] = timer;
	M->timer_key[M->nr_timers] = M->nr_timers < M->nr_cpus ? M->nr_timers : LIMITS_TIMER;
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

/* Sleepers, the earliest first. */

static bool wakes_before(u32 a, u32 b)
{
	const struct lab_task *x = M->task[a], *y = M->task[b];

	return x->wake_at != y->wake_at ? x->wake_at < y->wake_at : a < b;
}

static void heap_push(u32 i)
{
	u32 at = M->nr_heap++;

	while (at && wakes_before(i, M->heap[(at - 1) / 2])) {
		M->heap[at] = M->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	M->heap[at] = i;
}

static u32 heap_pop(void)
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

/* Threads. */

static void update_curr(u32 cpu)
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

static void as_current(u32 cpu)
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
		tix_dequeue(&t->p, 0);
		t->in_bpf = false;
	} else if (t->in_local) {
		local_remove(t);
	}
	t->p.scx.flags &= ~SCX_TASK_QUEUED;
	tix_quiescent(&t->p, flags);
}

static void wake(struct lab_task *t, bool is_new)
{
	bool allowed = t->cpus.bits[0] >> t->cpu & 1;
	s32 cpu = t->cpu;

	if (t->state != ASLEEP)
		return;
	t->state = RUNNABLE;
	t->woke_at = M->now;
	t->wake_at = NEVER;
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
	if (!i)
		return;
	if (!t->p.scx.slice)
		t->p.scx.slice = SLICE_DEFAULT_NS;
	t->runs++;
	if (t->woke_at) {
		M->ran(M->ctx, i, M->now - t->woke_at);
		t->woke_at = 0;
	}
	if (c->tick_at <= M->now)
		c->tick_at = (M->now / TICK_NS + 1) * TICK_NS + cpu * 100000;
}

/* __schedule(), balance_one() and put_prev_task_scx() of the kernel. */
static void schedule(u32 cpu)
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

/* Locks: a mutex of the kernel's, first come, first served; who runs may take it before. */

static void lock_wait(struct lab_task *t, struct lab_lock *l)
{
	t->next_waiter = 0;
	t->waiting = true;
	t->wants = l;
	t->waiter.task = &t->p;
	if (l->first)
		M->task[l->last]->next_waiter = t->index;
	else
		l->first = t->index;
	l->last = t->index;
	l->mutex.first_waiter = &M->task[l->first]->waiter;
	tix_contention(&l->mutex, LCB_F_MUTEX);
	t->state = ASLEEP;
	t->wake_at = NEVER;
}

/* `t` runs and wants the lock; false: it waits. */
static bool lock_take(struct lab_task *t, struct lab_lock *l)
{
	if (l->mutex.owner.counter) {
		if (!t->waiting)
			lock_wait(t, l);
		else
			t->state = ASLEEP;
		return false;
	}
	l->mutex.owner.counter = (u64)&t->p;
	t->wants = NULL;
	if (t->waiting) {
		u32 i = l->first, before = 0;

		while (i != t->index) {
			before = i;
			i = M->task[i]->next_waiter;
		}
		if (before)
			M->task[before]->next_waiter = t->next_waiter;
		else
			l->first = t->next_waiter;
		if (l->last == t->index)
			l->last = before;
		l->mutex.first_waiter = l->first ? &M->task[l->first]->waiter : NULL;
		t->waiting = false;
		tix_contention_end(&l->mutex, 0);
	}
	return true;
}

static void lock_release(struct lab_lock *l)
{
	l->mutex.owner.counter = 0;
	if (l->first)
		wake(M->task[l->first], false);
}

static void leave(struct lab_task *t)
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
static bool taken_out(struct lab_task *t)
{
	bool queued = t->p.scx.flags & SCX_TASK_QUEUED;

	if (queued)
		dequeue(t, 0);
	return queued;
}

static void put_back(struct lab_task *t, bool was_queued)
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

/* Programs. */

static void step(u32 cpu)
{
	struct lab_cpu *c = &M->cpu[cpu];
	struct lab_task *t = M->task[c->curr];
	struct lab_action a;
	u32 n;

	as_current(cpu);
	for (n = 0; n < 1000; n++) {
		if (t->wants && !lock_take(t, t->wants)) {
			c->resched = true;
			return;
		}
		memset(&a, 0, sizeof(a));
		M->next(M->ctx, t->index, M->now, &a);
		as_current(cpu);
		switch (a.what) {
		case LAB_RUN:
			t->run_left += a.arg;
			if (a.arg)
				return;
			break;
		case LAB_SLEEP:
		case LAB_WAIT:
			if (a.what == LAB_WAIT && t->pending_wake) {
				t->pending_wake = 0;
				break;
			}
			t->state = ASLEEP;
			t->wake_at = NEVER;
			if (a.what == LAB_SLEEP) {
				t->wake_at = M->now + a.arg;
				heap_push(t->index);
			}
			c->resched = true;
			return;
		case LAB_YIELD:
			t->p.scx.slice = 0;
			c->resched = true;
			t->yields = true;
			return;
		case LAB_WAKE:
			if (a.arg && a.arg <= M->nr_tasks) {
				struct lab_task *o = M->task[a.arg];

				if (o->state == ASLEEP && o->wake_at == NEVER && !o->waiting)
					wake(o, false);
				else
					o->pending_wake = 1;
			}
			break;
		case LAB_LOCK:
			t->wants = &M->lock[a.arg % LOCKS_MOST];
			if (t->wants->mutex.owner.counter == (u64)&t->p)
				t->wants = NULL;
			break;
		case LAB_UNLOCK:
			if (M->lock[a.arg % LOCKS_MOST].mutex.owner.counter == (u64)&t->p)
				lock_release(&M->lock[a.arg % LOCKS_MOST]);
			break;
		case LAB_MOVE:
			lab_move(t->index, a.arg);
			break;
		case LAB_NICE:
			lab_nice(t->index, a.arg);
			break;
		case LAB_CPUS:
			lab_cpus(t->index, a.arg);
			if (c->curr != t->index)
				return;
			break;
		case LAB_EXIT:
			update_curr(cpu);
			t->state = DEAD;
			t->p.exit_state = 1;
			t->state = RUNNABLE;
			leave(t);
			c->curr = 0;
			c->resched = true;
			return;
		}
		if (c->resched && c->curr == t->index && !t->p.scx.slice)
			return;
	}
	lab_fail("a program does nothing");
	t->run_left = 1000000;
}

static u64 next_event(void)
{
	u64 at = NEVER;
	u32 i;

	for (i = 0; i < M->nr_cpus; i++) {
		struct lab_cpu *c = &M->cpu[i];

		if (!c->curr)
			continue;
		if (c->exec_at + M->task[c->curr]->run_left < at)
			at = c->exec_at + M->task[c->curr]->run_left;
		if (c->tick_at < at)
			at = c->tick_at;
	}
	for (i = 0; i < M->nr_timers; i++)
		if (M->timers[i]->on && M->timers[i]->at < at)
			at = M->timers[i]->at;
	if (M->nr_heap && M->task[M->heap[0]]->wake_at < at)
		at = M->task[M->heap[0]]->wake_at;
	return at;
}

static void settle(void)
{
	u32 i, n = 0;
	bool again = true;

	while (again) {
		again = false;
		for (i = 0; i < M->nr_cpus; i++) {
			if (M->cpu[i].resched) {
				schedule(i);
				again = true;
			}
			if (M->cpu[i].curr && !M->task[M->cpu[i].curr]->run_left && !M->cpu[i].resched) {
				step(i);
				again = true;
			}
		}
		if (n++ > 100000) {
			lab_fail("time does not go on");
			return;
		}
	}
}

static void events(void)
{
	u32 i;

	for (i = 0; i < M->nr_cpus; i++) {
		struct lab_cpu *c = &M->cpu[i];

		update_curr(i);
		if (c->curr && c->tick_at <= M->now) {
			c->tick_at += TICK_NS;
			if (!M->task[c->curr]->p.scx.slice)
				c->resched = true;
		}
	}
	for (i = 0; i < M->nr_timers; i++) {
		struct bpf_timer *t = M->timers[i];
		u32 key = M->timer_key[i];

		if (!t->on || t->at > M->now)
			continue;
		t->on = false;
		as_current(key < M->nr_cpus ? t->pinned : 0);
		t->fired(&timers, &key, (void *)t);
	}
	while (M->nr_heap && M->task[M->heap[0]]->wake_at <= M->now) {
		struct lab_task *t = M->task[heap_pop()];

		as_current(t->cpu);
		if (t->state == ASLEEP && t->wake_at <= M->now)
			wake(t, false);
	}
	settle();
}

u64 lab_run(u64 until)
{
	settle();
	while (!M->failure[0]) {
		u64 at = next_event();

		if (at > until)
			break;
		if (at > M->now)
			M->now = at;
		events();
	}
	M->now = until;
	for (u32 i = 0; i < M->nr_cpus; i++)
		update_curr(i);
	return M->now;
}

/* What the Rust side asks for. */

static struct cgroup *cgroup_new(u32 parent, u32 level)
{
	struct cgroup *cgrp = calloc(1, sizeof(*cgrp));

	M->cgroup = realloc(M->cgroup, (M->nr_cgroups + 1) * sizeof(*M->cgroup));
	M->cgroup_parent = realloc(M->cgroup_parent, (M->nr_cgroups + 1) * sizeof(u32));
	cgrp->kn = calloc(1, sizeof(*cgrp->kn));
	cgrp->kn->id = M->nr_cgroups + 1;
	cgrp->level = level;
	M->cgroup[M->nr_cgroups] = cgrp;
	M->cgroup_parent[M->nr_cgroups] = parent;
	M->nr_cgroups++;
	return cgrp;
}

/* The CPUs are the program's read-only data elsewhere. */
int lab_new(u32 cpus, u64 switch_ns, lab_next_fn *next, lab_ran_fn *ran, void *ctx)
{
	struct scx_cgroup_init_args args = { .weight = 100 };
	u32 i;

	M = calloc(1, sizeof(*M));
	M->now = 1000000000;
	M->nr_cpus = cpus;
	M->switch_ns = switch_ns;
	M->next = next;
	M->ran = ran;
	M->ctx = ctx;
	M->map = calloc(MAP_SLOTS, sizeof(*M->map));
	M->lock = calloc(LOCKS_MOST, sizeof(*M->lock));
	M->arena = mmap(NULL, ARENA_PAGES * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (M->arena == MAP_FAILED)
		return -ENOMEM;
	M->task = calloc(1, sizeof(*M->task));
	nr_cpu_ids = nr_online = cpus;
	for (i = 0; i < cpus; i++)
		M->cpu[i].idle = true;
	if (tix_init())
		return -EINVAL;
	return tix_cgroup_init(cgroup_new(0, 0), &args);
}

void lab_free(void)
{
	u32 i;

	for (i = 1; i <= M->nr_tasks; i++)
		free(M->task[i]);
	for (i = 0; i < M->nr_cgroups; i++) {
		free(M->cgroup[i]->kn);
		free(M->cgroup[i]);
	}
	for (i = 0; i < MAP_SLOTS; i++)
		free(M->map[i].value);
	munmap(M->arena, ARENA_PAGES * PAGE);
	free(M->task);
	free(M->heap);
	free(M->cgroup);
	free(M->cgroup_parent);
	free(M->map);
	free(M->lock);
	free(M);
	M = NULL;
}

u32 lab_cgroup(u32 parent, u32 weight)
{
	struct scx_cgroup_init_args args = { .weight = weight };
	u32 id = M->nr_cgroups;

	M->this_cpu = 0;
	tix_cgroup_init(cgroup_new(parent, M->cgroup[parent]->level + 1), &args);
	return id;
}

u32 lab_thread(u32 cgroup, u32 nice_weight, u64 cpus)
{
	struct scx_init_task_args args = { .fork = true, .cgroup = M->cgroup[cgroup] };
	struct lab_task *t = calloc(1, sizeof(*t));
	u32 i = ++M->nr_tasks, allowed = 0, cpu;

	if (i + 1 > M->tasks_room) {
		M->tasks_room = (i + 1) * 2;
		M->task = realloc(M->task, M->tasks_room * sizeof(*M->task));
		M->heap = realloc(M->heap, M->tasks_room * sizeof(*M->heap));
	}
	M->task[i] = t;
	t->index = i;
	t->p.pid = i;
	t->cgroup = M->cgroup[cgroup];
	t->cpus.bits[0] = cpus & (M->nr_cpus == 64 ? ~0ull : (1ull << M->nr_cpus) - 1);
	for (cpu = 0; cpu < M->nr_cpus; cpu++)
		allowed += t->cpus.bits[0] >> cpu & 1;
	t->p.cpus_ptr = &t->cpus;
	t->p.nr_cpus_allowed = allowed;
	t->p.scx.weight = nice_weight;
	t->p.rcu_read_lock_nesting = 0;
	t->cpu = (i - 1) % M->nr_cpus;
	if (!(t->cpus.bits[0] >> t->cpu & 1))
		t->cpu = tix_ctz64(t->cpus.bits[0]);
	t->wake_at = NEVER;
	as_current(t->cpu);
	if (tix_init_task(&t->p, &args))
		lab_fail("no room for a thread");
	tix_enable(&t->p);
	wake(t, true);
	return i;
}

void lab_weight(u32 cgroup, u32 weight)
{
	tix_cgroup_set_weight(M->cgroup[cgroup], weight);
}

void lab_limit(u32 cgroup, u64 period_us, u64 quota_us)
{
	tix_cgroup_set_bandwidth(M->cgroup[cgroup], period_us, quota_us, 0);
}

void lab_move(u32 thread, u32 cgroup)
{
	struct lab_task *t = M->task[thread];
	struct cgroup *from = t->cgroup;
	bool queued;

	if (t->state == DEAD || cgroup >= M->nr_cgroups || from == M->cgroup[cgroup])
		return;
	queued = taken_out(t);
	tix_cgroup_move(&t->p, from, M->cgroup[cgroup]);
	t->cgroup = M->cgroup[cgroup];
	put_back(t, queued);
}

void lab_nice(u32 thread, u32 weight)
{
	struct lab_task *t = M->task[thread];
	bool queued;

	if (t->state == DEAD)
		return;
	queued = taken_out(t);
	t->p.scx.weight = weight;
	tix_set_weight(&t->p, weight);
	put_back(t, queued);
}

void lab_cpus(u32 thread, u64 cpus)
{
	struct lab_task *t = M->task[thread];
	u32 cpu, allowed = 0;
	bool queued;

	cpus &= M->nr_cpus == 64 ? ~0ull : (1ull << M->nr_cpus) - 1;
	if (t->state == DEAD || !cpus)
		return;
	queued = taken_out(t);
	for (cpu = 0; cpu < M->nr_cpus; cpu++)
		allowed += cpus >> cpu & 1;
	t->cpus.bits[0] = cpus;
	t->p.nr_cpus_allowed = allowed;
	put_back(t, queued);
}

void lab_wake(u32 thread)
{
	struct lab_task *t = M->task[thread];

	as_current(t->cpu);
	if (t->state == ASLEEP && !t->waiting)
		wake(t, false);
	settle();
}

void lab_exit(u32 thread)
{
	struct lab_task *t = M->task[thread];

	if (M->cpu[t->cpu].curr == thread) {
		update_curr(t->cpu);
		leave(t);
		M->cpu[t->cpu].curr = 0;
		M->cpu[t->cpu].resched = true;
	} else {
		leave(t);
	}
	settle();
}

u64 lab_used(u32 thread) { return M->task[thread]->p.se.sum_exec_runtime; }
u64 lab_moves(u32 thread) { return M->task[thread]->migrations; }
bool lab_is_runnable(u32 thread) { return M->task[thread]->state == RUNNABLE; }
bool lab_is_running(u32 thread) { return M->cpu[M->task[thread]->cpu].curr == thread; }
u32 lab_cpu_of(u32 thread) { return M->task[thread]->cpu; }
u64 lab_now(void) { return M->now; }
u64 lab_decisions(void) { return M->decisions; }
u64 lab_switches(void) { return M->switches; }
const char *lab_failure(void) { return M->failure; }
struct tix_stats lab_stats(void) { return stats; }

u32 lab_node(u32 cgroup) { return own_node(M->cgroup[cgroup]); }

int lab_fund(struct tix_funding_args *args)
{
	tix_funding(args);
	return args->err;
}

int lab_name(struct tix_name_args *args)
{
	tix_name(args);
	return args->err;
}

void lab_total(u64 total)
{
	struct tix_total_args args = { .total = total };

	tix_set_total(&args);
}

/* For whoever looks for a fault: what there is, in us of the machine's time. */
void lab_dump(void)
{
	u64 unit = passes(1000) ?: 1;

	for (u32 i = 0; i < M->nr_cpus; i++)
		fprintf(stderr, "cpu %u: clock %+lld us, %u wait, price %u, runs %u\n", i,
			(long long)((s64)(CPU(i)->queue.clock - CPU(0)->queue.clock) / (s64)unit),
			CPU(i)->queue.vt.nr, CPU(i)->price, M->cpu[i].curr);
	for (u32 i = 1; i <= M->nr_tasks; i++) {
		struct tix_thread *t = &THREADS[thread_of(&M->task[i]->p)];
		fprintf(stderr, "  %u: cpu %u, tag %+lld, period %llu, account %+lld, slice %u\n", i,
			M->task[i]->cpu, (long long)((s64)(t->tag - CPU(0)->queue.clock) / (s64)unit),
			(unsigned long long)(t->period / unit),
			(long long)((s64)(position_of(t->node) - CPU(0)->queue.clock) / (s64)unit), t->slice_ns);
	}
}
