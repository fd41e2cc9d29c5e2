/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who waits for a page of a file that is locked. The kernel gives it to one after the other, first come, first served, and whoever has
 * it does a few microseconds' work with it, once it has a CPU. If it is a page of a program that thousands run, and has just been moved,
 * or been taken from them because memory is short, all of them come to wait for it as they have their turns; each of those that are
 * before a login has to have one more first, and so would the login wait for all of the crowd, whatever its share.
 *
 * So a thread that has waited for a page that another waits for is like the owner of a lock
 * (lock.bpf.h): of those that wait the one with the largest share donates its turn. Which page it is the kernel tells where the fault is looked into; who goes to
 * sleep in the same fault waits for it, and who wakes up in it has the page, or is about to. Who has locked one without waiting nobody
 * knows (has_pages).
 */
#ifndef TIX_FOLIO_BPF_H
#define TIX_FOLIO_BPF_H

#define PAGES_APART 0x9e3779b97f4a7c15ull	/* odd, and all its bits matter: pages are told apart by a number */

static __always_inline u64 faults_of(const struct task_struct *p)
{
	return p->min_flt + p->maj_flt;	/* counted when they are over */
}

/* Whether `p` is in the fault in which it was looked for `t->page`. */
static __always_inline bool in_that_fault(const struct task_struct *p, const struct task_ctx *t)
{
	return t->page && t->faults == faults_of(p);
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(tix_fault, struct address_space *mapping, unsigned long index)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);

	if (!t)
		return 0;
	/* From there it is a number for the verifier, no pointer any longer. */
	WRITE_ONCE(t->page, (u64)mapping);
	t->page = READ_ONCE(t->page) * PAGES_APART + index;
	t->faults = faults_of(p);
	return 0;
}

#endif
