/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locked pages: whoever needs one waits for who has it, and the kernel tells nobody who waits for whom there. So who has some is
 * not interrupted for a moment, and goes before its own principal's others, who pay. Among them is who makes room for large
 * blocks of memory (kcompactd): interrupted in the middle it kept thirty pages from all others until its next turn, and a login,
 * which needs a hundred that were moved, for seconds.
 */
#ifndef TIX_PAGES_BPF_H
#define TIX_PAGES_BPF_H

#define MOVES_NS 64000000ull	/* of CPU, should nobody say when it ends */

/* Whether `p` is moving pages, some of which are locked meanwhile. */
static __always_inline bool moves_pages(const struct task_struct *p, const struct task_ctx *t)
{
	return (s64)(p->se.sum_exec_runtime - t->moves) < 0;
}

/*
 * Whether `p` may have locked pages: it moves some, looks for memory, or has read ahead and not told the disk yet (that is
 * plugged, and stays so when it is interrupted).
 */
static __always_inline bool has_pages(const struct task_struct *p, const struct task_ctx *t)
{
	return moves_pages(p, t) || p->plug || (p->flags & (PF_MEMALLOC | PF_KTHREAD)) == PF_MEMALLOC;
}

/* The current thread moves pages until it has used `ns` more of CPU. */
static __always_inline void moves(u64 ns)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);

	if (t)
		t->moves = p->se.sum_exec_runtime + ns;
}

SEC("tp_btf/mm_migrate_pages_start")
int BPF_PROG(tix_moves)
{
	moves(MOVES_NS);
	return 0;
}

SEC("tp_btf/mm_migrate_pages")
int BPF_PROG(tix_moved)
{
	moves(0);
	return 0;
}

#endif
