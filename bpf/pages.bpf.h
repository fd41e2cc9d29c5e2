/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locked pages: whoever needs one waits for who has it, and the kernel tells nobody who waits for whom there. So who has some is
 * not interrupted for a moment, and goes before its own principal's others, who pay.
 *
 * Whoever runs into a page that is not there locks it until it is, and thirty behind it, and looks for memory to put them into
 * meanwhile: beside a crowd that starts programs a login waited for seconds until one of the crowd had its turn again.
 *
 * The kernel's own threads that make room for large blocks of memory (kcompactd) lock thirty at a time, too, which can take them
 * tenths of a second of CPU if thousands have them in use. They go before all others until these are where they belong, as far as the
 * root cgroup can pay, like who holds a lock that others wait for; and wait then, and not in the middle, until it is no longer ahead.
 */
#ifndef TIX_PAGES_BPF_H
#define TIX_PAGES_BPF_H

#define MOVES_NS 1000000000ull	/* of CPU, should nobody say when it ends */
#define MOVES_AHEAD 8		/* who is ahead by so much of SLACK_NS (8 ms) begins no more of it */
#define FAULT_ENTRY 64		/* bytes of the kernel's entry by a page fault, at most */

#if defined(__TARGET_ARCH_x86)
extern const void asm_exc_page_fault __ksym __weak;
#endif

/*
 * Whether `p` is in a page fault: it came in by that, and has not left. No flag says so; but what it returns to is on its stack, below
 * its registers. Where the kernel is entered otherwise, or does not tell where, nobody is.
 */
static __always_inline bool in_fault(struct task_struct *p)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs;
	u64 back;

	if (p->flags & PF_KTHREAD)
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
	if ((s64)regs->orig_ax >= 0 || !&asm_exc_page_fault)
		return false;
	if (bpf_probe_read_kernel(&back, sizeof(back), (const char *)regs - sizeof(back)))
		return false;
	return back - (u64)&asm_exc_page_fault < FAULT_ENTRY;
#else
	return false;
#endif
}

/* Whether `p` is moving pages, some of which are locked meanwhile. */
static __always_inline bool moves_pages(const struct task_struct *p, const struct task_ctx *t)
{
	return (s64)(p->se.sum_exec_runtime - t->moves) < 0;
}

/*
 * Whether `p` may have locked pages: it moves some, looks for memory, was interrupted in a page fault (`cut`; that takes longest to
 * tell), or has read ahead and not told the disk yet (that is plugged, and stays so when it is interrupted).
 */
static __always_inline bool has_pages(struct task_struct *p, const struct task_ctx *t, bool cut)
{
	return moves_pages(p, t) || p->plug || (p->flags & (PF_MEMALLOC | PF_KTHREAD)) == PF_MEMALLOC || (cut && in_fault(p));
}

SEC("tp_btf/mm_migrate_pages_start")
int BPF_PROG(tix_moves)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);

	if (t)
		t->moves = p->se.sum_exec_runtime + MOVES_NS;
	return 0;
}

SEC("tp_btf/mm_migrate_pages")
int BPF_PROG(tix_moved)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);
	u32 q;

	USES_ARENA();
	if (!t)
		return 0;
	t->moves = 0;
	q = t->ran_from;
	/* What it had in advance it gives back now: the next ones are locked in a moment. */
	if (q < TIX_QUEUES_MAX && (s64)(QUEUES[q].tag - now_v) > (s64)(v_slack / MOVES_AHEAD))
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	return 0;
}

#endif
