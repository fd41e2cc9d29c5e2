// SPDX-License-Identifier: GPL-2.0-only
/* The whole BPF program, and what the Rust side asks of the machine below it. */
#include <sys/mman.h>

#include "machine.h"
#include "../tix.bpf.c"

_Thread_local struct machine *M;
_Thread_local struct bpf_spin_lock *lock_held;

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
int lab_new(u32 cpus, u64 switch_ns, lab_next_fn *next, lab_event_fn *event, void *ctx)
{
	struct scx_cgroup_init_args args = { .weight = 100 };
	u32 i;

	M = calloc(1, sizeof(*M));
	M->now = 1000000000;
	M->nr_cpus = cpus;
	M->limits_timer = LIMITS_TIMER;
	M->switch_ns = switch_ns;
	M->next = next;
	M->event = event;
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

u32 lab_thread(u32 cgroup, u32 nice_weight, u64 cpus, bool is_kernel)
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
	if (is_kernel) {
		t->p.flags = PF_KTHREAD;
		t->kthread.flags = 1ul << KTHREAD_IS_PER_CPU;
		t->p.worker_private = &t->kthread;
	}
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
struct tix_counts lab_counts(void)
{
	struct tix_counts all = {};

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		all.picks += stats.cpu[cpu].picks;
		all.keeps += stats.cpu[cpu].keeps;
		all.taken_over += stats.cpu[cpu].taken_over;
		all.preempts += stats.cpu[cpu].preempts;
		all.overdue += stats.cpu[cpu].overdue;
		all.lent_ns += stats.cpu[cpu].lent_ns;
	}
	return all;
}

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

int lab_cap(struct tix_limit_args *args)
{
	tix_limit(args);
	return args->err;
}

void lab_total(u64 total)
{
	struct tix_total_args args = { .total = total };

	tix_set_total(&args);
}

/* Where `v` is from the clock of the first CPU, us. */
static long long lab_us(u64 v)
{
	return (s64)(v - CPU(0)->queue.clock) / (s64)(passes(1000) ?: 1);
}

/* For whoever looks for a fault: what there is, in us of the machine's time. */
void lab_dump(void)
{
	u64 unit = passes(1000) ?: 1;

	fprintf(stderr, "at %llu us\n", (unsigned long long)(M->now / 1000));
	for (u32 i = 0; i < M->nr_cpus; i++)
		fprintf(stderr, "cpu %u: clock %+lld, %u wait, price %u, runs %u\n", i,
			lab_us(CPU(i)->queue.clock), CPU(i)->queue.vt.nr, CPU(i)->price, M->cpu[i].curr);
	for (u32 i = 0; i < nodes_hi; i++)
		fprintf(stderr, " node %u in %u: account %+lld, %u busy, %u runnable, worth 2^32/%llu\n", i,
			ACCOUNTS[i].above, lab_us(ACCOUNTS[i].vtime), ACCOUNTS[i].nr_busy,
			ACCOUNTS[i].nr_runnable, (unsigned long long)ACCOUNTS[i].inverse_all);
	for (u32 i = 1; i <= M->nr_tasks; i++) {
		const struct lab_task *p = M->task[i];
		const struct tix_thread *t = &THREADS[thread_of(&p->p)];

		fprintf(stderr, "  %u of node %u: %s, cpu %u of %llx, tag %+lld, period %llu, slice %u, account %+lld\n", i,
			t->node, p->state == ASLEEP ? "asleep" : t->queue ? "waits" : "runs", p->cpu,
			(unsigned long long)p->cpus.bits[0], lab_us(t->tag), (unsigned long long)(t->period / unit),
			t->slice_ns, lab_us(tix_position(t->node)));
	}
}

/* A line: the time, each CPU's clock and what runs there, and where each thread is, all in us of the machine. */
void lab_trace(void)
{
	u64 unit = passes(1000) ?: 1;

	fprintf(stderr, "%.2f ms", M->now / 1e6);
	for (u32 i = 0; i < M->nr_cpus; i++)
		fprintf(stderr, " [%+lld runs %u price %u]", lab_us(CPU(i)->queue.clock), M->cpu[i].curr, CPU(i)->price);
	for (u32 i = 1; i <= M->nr_tasks; i++) {
		const struct lab_task *p = M->task[i];
		const struct tix_thread *t = &THREADS[thread_of(&p->p)];

		fprintf(stderr, " %u on %u%s: %+lld of %llu, account %+lld;", i, p->cpu,
			p->state == ASLEEP ? " sleeps" : t->queue ? " waits" : " runs", lab_us(t->tag),
			(unsigned long long)(t->period / unit), lab_us(top_of(t->node)->vtime));
	}
	fprintf(stderr, "\n");
}
