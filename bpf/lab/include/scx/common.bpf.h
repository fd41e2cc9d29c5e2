/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF program takes from the kernel, for a program on the host: types with the fields
 * that it reads, its helpers as functions of the simulated machine (kernel.c), and nothing where
 * only the verifier or the loader would look.
 */
#ifndef TIX_HOST_COMMON_H
#define TIX_HOST_COMMON_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint16_t u16;
typedef uint8_t u8;

#define TIX_HOST 1
#define SEC(name)
#define __noinline __attribute__((noinline, unused))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline, unused))
#define __weak __attribute__((weak))
#define __ksym
#define __arena
#define __arg_arena
#define __arg_trusted
#define private(name) static STATE
#define can_loop true
/* What the program keeps outside of its arena: each machine has its own. */
#define STATE _Thread_local
#define RODATA _Thread_local
#define barrier() __asm__ volatile("" ::: "memory")

#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]

#define BPF_STRUCT_OPS(name, args...) name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)
#define BPF_PROG(name, args...) name(args)
#define SCX_OPS_DEFINE(name, ...) struct unused_##name { int unused; }
#define BPF_SEQ_PRINTF(seq, ...) ((void)(seq))
#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)

#define bpf_core_enum_value(type, value) value
#define bpf_core_field_exists(field) 1
#define bpf_core_type_exists(type) 1
#define bpf_core_field_offset(type, field) offsetof(type, field)
#define BPF_CORE_READ(p, ...) READ_EACH(__VA_ARGS__, READ_3, READ_2, READ_1)(p, __VA_ARGS__)
#define READ_EACH(a, b, c, name, ...) name
#define READ_1(p, a) ((p)->a)
#define READ_2(p, a, b) ((p)->a->b)
#define READ_3(p, a, b, c) ((p)->a->b->c)
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_KERNEL_VERSION KERNEL_VERSION(7, 2, 0)

enum { PF_KTHREAD = 0x200000, KTHREAD_IS_PER_CPU = 0, PF_EXITING = 4 };
enum KTHREAD_BITS { KTHREAD_BITS_NONE };
enum { BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_ARENA, BPF_MAP_TYPE_PERCPU_ARRAY };
enum { BPF_ANY, BPF_NOEXIST, BPF_F_MMAPABLE = 1 << 10, BPF_F_NO_PREALLOC = 1, BPF_F_TIMER_CPU_PIN = 2 };
enum { NUMA_NO_NODE = -1, CLOCK_MONOTONIC_ = 1, SCX_EXIT_ERROR = 1024 };
#define CLOCK_MONOTONIC 1
enum scx_dsq_id_flags : u64 {
	SCX_DSQ_GLOBAL = 1ull << 63 | 1,
	SCX_DSQ_LOCAL = 1ull << 63 | 2,
	SCX_DSQ_LOCAL_ON = 3ull << 62,
};
enum scx_enq_flags : u64 {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_HEAD = 16,
	SCX_ENQ_PREEMPT = 1ull << 32,
	SCX_ENQ_LAST = 1ull << 41,
};
enum scx_deq_flags { SCX_DEQ_SLEEP = 1 };
enum scx_kick_flags { SCX_KICK_IDLE = 1, SCX_KICK_PREEMPT = 2 };
enum scx_ent_flags { SCX_TASK_QUEUED = 1 };
enum cgroup_subsys_id { cpu_cgrp_id };

struct cpumask {
	u64 bits[1];
};

struct kthread {
	unsigned long flags;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct scx_task {
	u64 slice, dsq_vtime;
	u32 weight, flags;
};

struct task_struct {
	s32 pid;
	u32 flags;
	int exit_state, nr_cpus_allowed, migration_disabled, rcu_read_lock_nesting;
	struct cpumask *cpus_ptr;
	void *worker_private;
	struct sched_entity se;
	struct scx_task scx;
};

struct cgroup_subsys_state {
	int unused;
};

struct task_group {
	struct cgroup_subsys_state css;
	int idle;
	unsigned long shares;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	u32 level;
	struct kernfs_node *kn;
	struct cgroup_subsys_state *subsys[1];
};

struct mutex_waiter {
	struct task_struct *task;
};

struct atomic {
	u64 counter;
};

struct list_head {
	struct list_head *next;
};

struct mutex {
	struct atomic owner;
	struct mutex_waiter *first_waiter;
};

struct rwsem_waiter {
	struct task_struct *task;
};

struct rw_semaphore {
	struct atomic owner;
	struct rwsem_waiter *first_waiter;
};

struct sched_ext_ops {
	int cgroup_set_idle;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us, bw_quota_us, bw_burst_us;
};

struct scx_exit_info {
	int kind;
	s64 exit_code;
	const char *reason, *msg, *dump;
};

struct scx_dump_ctx {
	int kind;
};

struct seq_file {
	int unused;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 seq_num;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key, *value;
};

struct bpf_spin_lock {
	int held;
};

struct bpf_timer {
	int (*fired)();
	u64 at;
	u32 pinned, on;
};

/* Two of them are never held at once, and none is taken twice. */
extern _Thread_local struct bpf_spin_lock *lock_held;
void lab_fail(const char *what);

static inline void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	if (lock_held)
		lab_fail("a lock is taken under a lock");
	lock_held = lock;
}

static inline void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	if (lock_held != lock)
		lab_fail("a lock is let go that is not held");
	lock_held = NULL;
}

void *lab_lookup(const void *map, const void *key, size_t key_size, size_t value_size, bool array,
		 size_t max);
int lab_update(const void *map, const void *key, const void *value, size_t key_size,
	       size_t value_size);
int lab_delete(const void *map, const void *key, size_t key_size);
#define IS_ARRAY(map) (sizeof(*(map)->type) / sizeof(int) == BPF_MAP_TYPE_ARRAY)
#define bpf_map_lookup_elem(map, k)                                                                \
	lab_lookup(map, k, sizeof(*(map)->key), sizeof(*(map)->value), IS_ARRAY(map),              \
		   sizeof(*(map)->max_entries) / sizeof(int))
#define bpf_map_update_elem(map, k, v, flags)                                                      \
	lab_update(map, k, v, sizeof(*(map)->key), sizeof(*(map)->value))
#define bpf_map_delete_elem(map, k) lab_delete(map, k, sizeof(*(map)->key))

void *lab_arena(u64 offset);
#define arena_at(offset) lab_arena(offset)
#define USES_ARENA() ((void)0)
#define BEGIN_LOOPS() ((void)0)
#define END_BRANCHES() ((void)0)
#define bpf_arena_alloc_pages(map, at, n, node, flags) ((void *)(at))
#define bpf_arena_free_pages(map, at, n) ((void)(at))

/* No task of the simulated machine leaves the class, so nobody asks for what is kept there. */
static u32 lab_kept;
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define bpf_task_storage_get(map, p, value, flags) ((flags) ? &lab_kept : (u32 *)NULL)
u64 scx_bpf_now(void);
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev, u64 flags, bool *idle);
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags);
s32 scx_bpf_task_cpu(const struct task_struct *p);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus, u64 flags);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
void scx_bpf_task_set_slice(struct task_struct *p, u64 slice);
s32 scx_bpf_dsq_nr_queued(u64 dsq);
void scx_bpf_error(const char *format, ...);
#define scx_bpf_dump(...) ((void)0)
struct task_struct *bpf_task_from_pid(s32 pid);
#define bpf_task_release(p) ((void)(p))
u32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);
#define bpf_get_current_task() ((u64)bpf_get_current_task_btf())
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgroup, u32 level);
#define bpf_cgroup_release(cgroup) ((void)(cgroup))
#define bpf_cpumask_test_cpu(cpu, mask) ((mask)->bits[0] >> (cpu) & 1)
int bpf_timer_init(struct bpf_timer *timer, void *map, u64 clock);
int bpf_timer_set_callback(struct bpf_timer *timer, int (*fired)());
int bpf_timer_start(struct bpf_timer *timer, u64 in, u64 flags);
#define bpf_probe_read_kernel(to, size, from) memcpy(to, from, size)
#define bpf_probe_read_kernel_str(to, size, from) ((void)(to), (void)(from))

#endif
