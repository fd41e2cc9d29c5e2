/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own threads. They are in the root cgroup, which has its share as any cgroup has, and pays for all of them.
 *
 * Those that do the work of one CPU go before all. So do those that use next to nothing: RCU's, the worker that passes on what is
 * typed at a terminal. Else they would wait for what another of them has had, one that moves pages about for seconds (kcompactd) or
 * sends packets without end, and the whole machine for them.
 */
#ifndef TIX_KERNEL_BPF_H
#define TIX_KERNEL_BPF_H

#define LIGHT_PART 50		/* who uses less than that part of one CPU */
#define LIGHT_NS 250000000ull	/* over such a time: 5 ms at once */

/*
 * Whether `p` is one of those that do the work of one CPU. Others may have one alone, too, as all have on a machine of one.
 */
static bool is_kernel_pinned(const struct task_struct *p)
{
	const struct kthread *thread;

	if (!(p->flags & PF_KTHREAD) || p->nr_cpus_allowed != 1)
		return false;
	thread = p->worker_private;
	return !bpf_core_type_exists(struct kthread) ||
	       (BPF_CORE_READ(thread, flags) & (1ul << bpf_core_enum_value(enum KTHREAD_BITS, KTHREAD_IS_PER_CPU)));
}

/* Whether `p`, a thread of the kernel's, has used next to nothing lately. Each time that it becomes runnable, or is put back. */
static bool is_light(const struct task_struct *p, struct task_ctx *t)
{
	u64 sum = p->se.sum_exec_runtime, now = scx_bpf_now(), used = sum - t->light_sum;

	t->light_sum = sum;
	if ((s64)(t->light - (now - LIGHT_NS)) < 0)
		t->light = now - LIGHT_NS;
	t->light += used < LIGHT_NS ? used * LIGHT_PART : LIGHT_NS * LIGHT_PART;
	if ((s64)(t->light - (now + LIGHT_NS)) > 0)
		t->light = now + LIGHT_NS;
	return (s64)(t->light - now) < 0 && t->queue == VTRR_NONE;
}

/* Whether `p`, a thread of the kernel's, goes before all. Not inline, for all the others' sake. */
static __noinline bool goes_first(struct task_struct *p, struct task_ctx *t)
{
	return is_kernel_pinned(p) || is_light(p, t);
}

#endif
