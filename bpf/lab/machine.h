/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The simulated machine that runs the whole BPF program: CPUs, threads, sleeps, locks and timers
 * as the kernel's core has them (kernel/sched/ext.c, 7.2), in simulated time.
 *
 * A decision takes no time, but for what a switch is said to cost. A thread does what its
 * program says (kernel.h): compute, sleep, yield, wake another, take and release a lock. Each
 * host thread has a machine of its own: all state is thread-local.
 */
#ifndef TIX_HOST_MACHINE_H
#define TIX_HOST_MACHINE_H

#include <stdio.h>
#include <stdlib.h>
#include <scx/common.bpf.h>

#include "../core/arch.h"
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
	u32 pending_wake;
	u64 started_at;
	/* locks */
	struct lab_lock *wants;
	struct mutex_waiter waiter;
	u32 next_waiter;
	bool waiting, yields, holds;
	struct kthread kthread;		/* of one of the kernel's own */
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
	u32 nr_timers, limits_timer;	/* the key of the last one */
	void *timer_map;
	lab_next_fn *next;
	lab_event_fn *event;
	void *ctx;
	char failure[256];
};

extern _Thread_local struct machine *M;

/* cpus.c */
struct lab_task *task_of(const struct task_struct *p);
void local_insert(u32 cpu, struct lab_task *t, bool front);
void local_remove(struct lab_task *t);

/* tasks.c */
void heap_push(u32 i);
u32 heap_pop(void);
void update_curr(u32 cpu);
void as_current(u32 cpu);
void wake(struct lab_task *t, bool is_new);
void schedule(u32 cpu);
void leave(struct lab_task *t);
bool taken_out(struct lab_task *t);
void put_back(struct lab_task *t, bool was_queued);

/* locks.c */
bool lock_take(struct lab_task *t, struct lab_lock *l);
void lock_release(struct lab_lock *l);

/* programs.c */
void settle(void);

/* The scheduler's operations (tix.bpf.c). */
s32 tix_select_cpu(struct task_struct *p, s32 prev, u64 flags);
void tix_enqueue(struct task_struct *p, u64 flags);
void tix_dispatch(s32 cpu, struct task_struct *prev);
void tix_quiescent(struct task_struct *p, u64 flags);
void tix_disable(struct task_struct *p);
void tix_exit_task(struct task_struct *p, struct scx_exit_task_args *args);
int tix_contention(void *lock, u32 flags);
int tix_contention_end(void *lock, int err);

#endif
