/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of the kernel's: who holds one that others wait for is not kept waiting.
 *
 * A thread that takes a mutex or a read-write semaphore of the kernel's (cgroup_mutex, say)
 * and is then one of a crowd whose share is small keeps everybody who wants it waiting,
 * whatever their shares: a user who makes cgroups all day would keep root from logging in.
 * So a waiter donates its turn to the lock's owner (ticket transfers, Waldspurger and Weihl
 * 1994 §3.1). The rule:
 *
 * - The owner runs when the waiter's queue would be picked if it had a thread on that CPU: no
 *   sooner, so that nobody waits longer than for the waiter itself.
 * - The run is charged to the waiter's queue, whole, and a slice in advance: the next one to
 *   ask sees it. Of several waiters the one with the largest share donates.
 * - A principal that is ahead of its due donates nothing. What its siblings received before
 *   counts; what it was due while it slept does not.
 *
 * Hence contention moves nobody else's share, and two principals that wait for each other in
 * turn get no more than if they had used the CPU themselves. Without a donor the owner waits
 * for its own principal's turn, first of its threads, and is looked at again every RETRY_NS.
 *
 * Of the readers of a semaphore the kernel names the last one to come, at most. Where somebody
 * waits for them, whoever was interrupted in a system call, before that or meanwhile, may be
 * one, and goes first. Of who forks, and so reads the one that whoever moves a process waits
 * for, it is known for how long, but for its first steps: it is not interrupted then, and whoever
 * forks is not guessed to read it at other times than in a call that does.
 *
 * Who has waited for a lock and is the first of those has it soon after waking up, and the rest
 * are behind it: all this is for it as well. Between two such threads the kernel hands the lock
 * over, so one slow thread among them would set the pace of all. Whoever has let go of it, by the
 * kernel's own word on the owner, is one of the crowd again: a hundred who go first are nobody.
 *
 * Who reads by RCU is like one who holds a lock: a grace period, which whoever moves a process between
 * cgroups waits for, ends when the last one that has begun to read before it is done. What it has been
 * given to finish in (grace) is too little if it waits for a lock that spins, whose holder's CPU another
 * machine on the same host has, say. No tracepoint reports who waits, so it has no donor.
 */
#ifndef TIX_LOCK_BPF_H
#define TIX_LOCK_BPF_H

#define HOLDS_NS 64000000ull	/* of CPU for which a thread goes first for one wait */
#define GUESS_NS 300000ull	/* the same for one that may hold it: of a fork that is part of it, and hundreds may be guessed wrong */
#define LOOKS_MOST 4096	/* threads of a queue that are looked at for who is wanted, */
#define LOOK_NS 1024	/* and on average one in so long: a look takes some 190 instructions */
#define CHAIN_MOST 4	/* holders that wait for others in turn */
#define RETRY_NS 100000ull
#define RETRY_MOST 256	/* threads looked at again, a power of two; the rest wait their turn */
#define SKIPS_MOST 16	/* of them that have let go meanwhile, and of who was cut short and is nobody to help, in one decision */

/* For what a thread waits, beside the tracepoint's flags: with these, for readers; alone, for a page (folio.bpf.h). */
#define WAITS_FOR_READERS (1u << 31)
#define WAITS_FOR_PAGE (1u << 30)
#define TASK_UNINTERRUPTIBLE 2u		/* the kernel's */

/* Who pays for the holder of a lock. */
struct transfer {
	u32 payer;	/* a queue */
	s32 waiter;	/* pid of who waits, on its own behalf or with the payer behind it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);	/* where there are more, holders pay themselves */
	__type(key, u64);		/* the lock's address, or the page's number (folio.bpf.h) */
	__type(value, struct transfer);
} transfers SEC(".maps");

/* By what the holder of `lock` is known: a writer of this semaphore does not say who it is, but holds the mutex. */
static u64 known_by(u64 lock)
{
	if (&cgroup_mutex && lock && lock == (u64)&cgroup_threadgroup_rwsem)
		return (u64)&cgroup_mutex;
	return lock;
}

/*
 * The lag of queue `q` as a donor, up to date; positive: it is ahead. Credit that it collected
 * asleep is dropped: a sleeper brings none along when it wakes up either.
 */
static __always_inline s64 update_donor_lag_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];
	u32 idx = queue->node, top;
	s64 lag;

	if (NODES[idx].self_active) {
		tell_locked(q);
		if (nr_cpu_ids > 1 && !queue->forced)
			return account_locked(idx);
		return (s64)(queue->tag - now_v);
	}
	lag = not_below_0(owes_locked(q));
	if (FUNDS[idx].nr_active) {
		queue->tag = now_v + weighed(lag, queue->inverse);
		return lag;
	}
	top = fund_asleep(GRAPH, FUNDS, idx);
	FUNDS[top].lead = lag;
	FUNDS[top].due_then = FUNDS[top].due;
	queue->tag = now_v;
	return lag;
}

/*
 * Whether `cpu` would pick queue `q`, which is not ahead, if it had a thread there, before all
 * that wait there and before queue `running`, whose thread runs there and is not linked.
 */
static __noinline bool would_pick_locked(u32 q, u32 cpu, u32 running)
{
	struct tix_queue *queue = &QUEUES[q];
	u64 finish = queue->tag + vtrr_period(queue->group);
	u32 i, at;

	if (running < TIX_QUEUES_MAX && running != q && (s64)(QUEUES[running].tag - now_v) <= 0 &&
	    (s64)(QUEUES[running].tag + QUEUES[running].period - finish) < 0)
		return false;
	for (i = 0; i < 4 && can_loop; i++) {
		at = i ? VT_HOME(cpu & (TIX_CPUS_MAX - 1)) + i - 1 : VT_ANY;
		if (!VT(at)->nr)
			continue;
		vtrr_peek(VT(at), now_v);
		if (VT(at)->choice.eligible && vtrr_first(VT(at)) != q &&
		    (s64)(VT(at)->choice.finish - finish) < 0)
			return false;
	}
	return true;
}

/*
 * Charge queue `q` a slice in advance for a run of `t` on `cpu`, if it is `q`'s turn there, or
 * `at_once`, and `q` is not ahead. Global, as all that are named tix_: verified once.
 */
__noinline int tix_charge_donor(u32 q, struct task_ctx *t, u32 cpu, u32 running, bool at_once)
{
	u64 slice = 0, rate = 0;
	struct tix_queue *queue;

	USES_ARENA();
	if (!t || q >= TIX_QUEUES_MAX || !QUEUES[q].inverse)
		return false;
	queue = &QUEUES[q];
	bpf_spin_lock(&tix_lock);
	if (update_donor_lag_locked(q) <= 0 && (at_once || would_pick_locked(q, cpu, running))) {
		slice = queue->slice && queue->slice < slice_ns ? queue->slice : slice_ns;
		rate = queue->forced ? (GRAPH->rate >> 16) * queue->forced : GRAPH->rate;
		now_v += tix_mul_q32(slice, rate);
		had_locked(q, slice);
	}
	bpf_spin_unlock(&tix_lock);
	if (!slice)
		return false;
	t->payer = q;
	t->grant = slice;
	t->rate = rate;
	return true;
}

/* Give the donor of `t`, which does not run after all, its slice back. */
static __noinline void refund_donor(struct task_ctx *t)
{
	u32 q = t->payer;

	if (q >= TIX_QUEUES_MAX)
		return;
	bpf_spin_lock(&tix_lock);
	now_v -= weighed(t->grant, t->rate);
	had_locked(q, -(s64)t->grant);
	bpf_spin_unlock(&tix_lock);
	t->payer = VTRR_NONE;
	t->grant = t->rate = 0;
}

int tix_waits_yet(s32 pid, u64 lock);

/*
 * Charge the waiter for `lock`, which `t` may own, for a run of `t`; false: not now. A waiter
 * that is gone is none, and its queue may be another principal's by now.
 */
static bool charge_waiter(u64 lock, struct task_ctx *t, u32 cpu, u32 running)
{
	struct transfer *of = lock ? bpf_map_lookup_elem(&transfers, &lock) : NULL;

	return of && tix_waits_yet(of->waiter, lock) &&
	       tix_charge_donor(of->payer, t, cpu, running, false);
}

/*
 * Find a donor for a run of `t` on `cpu` now, its own principal or a waiter, and charge it.
 * `at_once`: its own principal need not wait for its turn.
 */
static __always_inline bool find_donor(struct task_ctx *t, u32 cpu, u32 running, bool at_once)
{
	u32 q = t->ran_from;

	if (q < TIX_QUEUES_MAX && QUEUES[q].node == t->node &&
	    tix_charge_donor(q, t, cpu, running, at_once))
		return true;
	return charge_waiter(t->held, t, cpu, running) ||
	       charge_waiter(known_by(t->awaited), t, cpu, running) ||
	       charge_waiter(t->also, t, cpu, running);
}

/* Whether `p` is in the kernel: it may hold any lock there. */
static bool is_inside(struct task_struct *p, const struct task_ctx *t)
{
	return t->waits || (p->flags & PF_KTHREAD) || in_call(p) || in_fault(p);
}

/* Whether `p` has waited for a page that another waits for, and may have it. */
static bool may_have_page(struct task_struct *p, const struct task_ctx *t)
{
	struct transfer *of = t->awaited_kind == WAITS_FOR_PAGE && in_that_fault(p, t) ?
			      bpf_map_lookup_elem(&transfers, &t->awaited) : NULL;

	return of && of->waiter != p->pid;
}

/*
 * Whether `p` may hold a lock that somebody waits for, or reads by RCU.
 */
__noinline int tix_may_hold(struct task_struct *p __arg_trusted, struct task_ctx *t)
{
	if (!t)
		return false;
	if (reads_rcu(p) || may_have_page(p, t))
		return true;
	if (has(p, t->held, t->held_kind) || has(p, t->awaited, t->awaited_kind) || has(p, t->also, t->also_kind))
		return true;
	if ((!t->held || !is_read(t->held, t->held_kind)) && (!t->awaited || !is_read(t->awaited, t->awaited_kind)))
		return false;
	return is_inside(p, t);	/* of those who read one is known at most */
}

/* `p` waits no longer. */
static void have_done(const struct task_struct *p, struct task_ctx *t)
{
	u64 known = known_by(t->awaited);
	struct transfer *of;

	t->waits = 0;
	of = bpf_map_lookup_elem(&transfers, &known);
	if (of && of->waiter == p->pid)
		bpf_map_delete_elem(&transfers, &known);
}

static bool is_waited_for(struct task_struct *p, struct task_ctx *t)
{
	if (!t->holds)
		return false;
	if (t->waits == WAITS_FOR_PAGE)	/* it has been woken up */
		have_done(p, t);
	if ((s64)(p->se.sum_exec_runtime - t->holds) < 0 && tix_may_hold(p, t))
		return true;
	t->holds = t->held = t->also = 0;
	return false;
}

/* `p`, which is put back into its queue, reads by RCU. */
static void reads_yet(struct task_struct *p, struct task_ctx *t)
{
	if (is_waited_for(p, t))
		return;
	t->awaited = 0;	/* it has nothing that others are known to wait for: nobody but its own principal pays */
	t->holds = p->se.sum_exec_runtime + HOLDS_NS;
}

/* `p` has `lock`, or may, and somebody waits for it: it goes first until it has had so much CPU. */
static void holds(struct task_struct *p, struct task_ctx *t, u64 lock, u32 flags, u64 ns)
{
	if (t->held != lock && has(p, t->held, t->held_kind)) {
		t->also = t->held;
		t->also_kind = t->held_kind;
	}
	t->held = lock;
	t->held_kind = flags;
	t->holds = p->se.sum_exec_runtime + ns;
}

/* Whether `pid` waits for `lock` yet: that it no longer does may have been missed. */
__noinline int tix_waits_yet(s32 pid, u64 lock)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct task_ctx *t;
	bool waits;

	if (!p)
		return false;
	t = task_ctx(p);
	waits = t && t->waits && known_by(t->awaited) == lock;
	bpf_task_release(p);
	return waits;
}

/* Queue `payer`, of `waiter` or behind it, pays for who holds `lock`, unless one with a larger share does. */
static void transfer(u64 lock, u32 payer, s32 waiter)
{
	struct transfer new = { .payer = payer, .waiter = waiter };
	struct transfer *of = bpf_map_lookup_elem(&transfers, &lock);

	if (payer >= TIX_QUEUES_MAX)
		return;
	if (of && of->payer < TIX_QUEUES_MAX && of->waiter != waiter &&
	    QUEUES[of->payer].inverse <= QUEUES[payer].inverse && tix_waits_yet(of->waiter, lock))
		return;
	bpf_map_update_elem(&transfers, &lock, &new, BPF_ANY);
}

/* `p`, which goes on waiting for a CPU, was interrupted in a system call. */
static void cut_short(const struct task_struct *p)
{
	u32 at = __sync_fetch_and_add(&cuts.tail, 1);

	cuts.of[at % CUTS_MOST].sum = p->se.sum_exec_runtime;
	cuts.of[at % CUTS_MOST].pid = p->pid;
	if (!cuts.lock)
		return;
	if (tix_waits_yet(cuts.waiter, cuts.lock))
		cuts.upto = at + 1;
	else
		cuts.lock = 0;
}

/* Whether `p` ends, or is in a system call that forks, starts a program or ends: these read the semaphore of all cgroups for a moment. */
static bool in_reading_call(struct task_struct *p)
{
	struct pt_regs *regs;

	if (p->flags & (PF_KTHREAD | PF_EXITING | PF_SIGNALED))
		return !(p->flags & PF_KTHREAD);
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
#if defined(__TARGET_ARCH_x86)
	switch (regs->orig_ax) {
	case 56: case 57: case 58: case 435:	/* clone, fork, vfork, clone3 */
	case 59: case 322:			/* execve, execveat */
	case 60: case 231:			/* exit, exit_group */
		return true;
	}
#elif defined(__TARGET_ARCH_arm64)
	switch (regs->syscallno) {
	case 220: case 435:
	case 221: case 281:
	case 93: case 94:
		return true;
	}
#endif
	return false;
}

/* Whether `p` may read what is waited for: of who has forked, now and then, more is known than that it is in the kernel. */
static bool may_read(struct task_struct *p, const struct task_ctx *t)
{
	return !(cuts.kind & WAITS_FOR_READERS) || !t->forks || is_forking(p, t) || in_reading_call(p);
}

/* One of those who were cut short, if it has not run since, or 0: it goes first, for GUESS_NS unless it is known to read. */
static s32 cut_next(void)
{
	u32 head = cuts.head, upto = cuts.upto, i;
	struct task_struct *p;
	struct task_ctx *t;
	s32 pid = 0;

	if (upto - head > CUTS_MOST)
		head = upto - CUTS_MOST;
	for (i = 0; i < SKIPS_MOST && head != upto && !pid && can_loop; i++) {
		p = bpf_task_from_pid(cuts.of[head % CUTS_MOST].pid);
		if (p) {
			t = task_ctx(p);
			if (t && t->queue != VTRR_NONE && may_read(p, t) &&
			    p->se.sum_exec_runtime == cuts.of[head % CUTS_MOST].sum) {
				pid = p->pid;
				if (!is_waited_for(p, t))
					holds(p, t, cuts.lock, cuts.kind, is_forking(p, t) ? HOLDS_NS : GUESS_NS);
			}
			bpf_task_release(p);
		}
		head++;
	}
	cuts.head = head;
	return pid;
}

/* `pid` waits for a CPU, is waited for, and nobody pays, or it is not found now. */
static void retry_later(s32 pid)
{
	u32 at = __sync_fetch_and_add(&retries.tail, 1);

	retries.pids[at % RETRY_MOST] = pid;
}

struct chain {
	u64 lock;
	u32 flags;
	u32 payer;
	s32 waiter;
};

/* Who holds the chain's lock goes first; if it waits for another in turn, the chain goes on there. */
static bool help_holder(struct chain *c)
{
	u64 owner = holder_of(c->lock, c->flags), lock = c->lock;
	struct task_struct *holder;
	struct task_ctx *t;
	bool on = false;
	s32 other;

	if (!owner || owner == bpf_get_current_task())
		return false;
	c->waiter = BPF_CORE_READ((struct task_struct *)owner, pid);
	holder = bpf_task_from_pid(c->waiter);
	if (!holder)
		return false;
	t = (u64)holder == owner ? task_ctx(holder) : NULL;
	if (t) {
		holds(holder, t, lock, c->flags, HOLDS_NS);
		if (t->queue != VTRR_NONE) {
			other = __sync_lock_test_and_set(&wanted, c->waiter);
			if (other && other != c->waiter)
				retry_later(other);
		}
		c->lock = known_by(t->awaited);
		c->flags = t->waits;
		on = t->waits && c->lock != lock;	/* who waits first for it has no other before it */
	}
	bpf_task_release(holder);
	return on;
}

/* The current thread, `p`, is about to sleep until it is given `lock`. */
static __noinline void wait_for(struct task_struct *p, struct task_ctx *t, u64 lock, u32 flags)
{
	struct chain chain = { .lock = known_by(lock), .flags = flags };
	u32 i;

	t->awaited = lock;
	t->waits = t->awaited_kind = flags;
	t->holds = p->se.sum_exec_runtime + HOLDS_NS;
	chain.payer = t->ran_from;
	chain.waiter = p->pid;
	for (i = 0; i < CHAIN_MOST; i++) {
		transfer(chain.lock, chain.payer, chain.waiter);
		if (is_read(chain.lock, chain.flags)) {
			cuts.lock = chain.lock;
			cuts.kind = chain.flags;
			cuts.waiter = chain.waiter;
			cuts.upto = cuts.tail;
		}
		if (!help_holder(&chain))
			break;
	}
}

SEC("tp_btf/contention_begin")
int BPF_PROG(tix_contention, void *lock, u32 flags)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t;

	USES_ARENA();
	if (flags & LCB_F_SPIN)
		return 0;
	t = task_ctx(p);
	if (t)
		wait_for(p, t, (u64)lock, flags);
	return 0;
}

/* It has been given the lock, or has given up. */
SEC("tp_btf/contention_end")
int BPF_PROG(tix_contention_end, void *lock, int err)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);

	if (t && t->waits && t->awaited == (u64)lock)	/* else a spinlock's, of it or of an interrupt */
		have_done(p, t);
	return 0;
}

/*
 * The current thread, `p`, goes to sleep: perhaps until the readers of the semaphore that all who fork or end read are gone, who
 * has it for writing as good as already; or until it is given a page. Of that the kernel's tracepoints do not tell. It is told to
 * have ended when it sleeps next, or is to run.
 */
static __always_inline void sleeps(struct task_struct *p, struct task_ctx *t)
{
	const struct percpu_rw_semaphore *sem = (const void *)&cgroup_threadgroup_rwsem;

	if (t->waits & (WAITS_FOR_READERS | WAITS_FOR_PAGE))
		have_done(p, t);
	if (!(p->__state & TASK_UNINTERRUPTIBLE))
		return;
	if (sem && (u64)BPF_CORE_READ(sem, writer.task) == (u64)p)
		wait_for(p, t, (u64)sem, LCB_F_PERCPU | LCB_F_WRITE | WAITS_FOR_READERS);
	else if (!t->waits && in_that_fault(p, t))
		wait_for(p, t, t->page, WAITS_FOR_PAGE);
}

/* Whether `pid` still waits for a CPU with a lock that somebody waits for. */
__noinline int tix_waits_with_lock(s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct task_ctx *t;
	bool does;

	if (!p)
		return false;
	t = task_ctx(p);
	does = t && t->queue != VTRR_NONE && is_waited_for(p, t);
	bpf_task_release(p);
	return does;
}

/* Who is to be looked at again, or 0. Those are forgotten that others have taken the place of, or that have let go meanwhile. */
static s32 retry_next(u64 now)
{
	u32 head = retries.head, tail = retries.tail, i;
	s32 pid = 0;

	if (head == tail || (s64)(now - retries.at) < (s64)RETRY_NS)
		return 0;
	retries.at = now;
	if (tail - head > RETRY_MOST)
		head = tail - RETRY_MOST;
	for (i = 0; i < SKIPS_MOST && head != tail && !pid && can_loop; i++) {
		pid = __sync_lock_test_and_set(&retries.pids[head++ % RETRY_MOST], 0);
		if (pid && !tix_waits_with_lock(pid))
			pid = 0;
	}
	retries.head = head;
	return pid;
}

/*
 * At how many threads of queue `q` may be looked now for who is wanted; 0: later. Where it is found is not known beforehand, so
 * there must be enough for all.
 */
static u32 looks_for(u32 q, u64 now)
{
	s32 queued = scx_bpf_dsq_nr_queued(DSQ(q));
	u64 most = LOOKS_MOST;

	if (queued < LOOKS_MOST)
		most = queued < 0 ? 0 : queued;
	if ((s64)(now - looks_at) > LOOKS_MOST * LOOK_NS)
		looks_at = now - LOOKS_MOST * LOOK_NS;
	return (s64)(now - looks_at) >= (s64)(most * LOOK_NS) ? most : 0;
}

/* Take `pid`, who is waited for, from its queue to this CPU, if somebody pays; for how long, ns; 0: it did not. */
__noinline int tix_fetch(s32 cpu, s32 pid, u32 running, u64 now)
{
	struct task_struct *p = bpf_task_from_pid(pid), *other;
	struct task_ctx *t;
	bool moved = false, later = false;
	u32 q = VTRR_NONE, looks = 0, most, slice;
	u64 left = 0;

	USES_ARENA();
	if (!p)
		return false;
	t = task_ctx(p);
	if (t && is_waited_for(p, t)) {
		q = t->queue;
		left = t->holds - p->se.sum_exec_runtime + MIN_SLICE_NS;
	}
	bpf_task_release(p);
	if (q >= TIX_QUEUES_MAX)
		return false;
	most = looks_for(q, now);
	if (!most || !find_donor(t, cpu, running, false)) {
		retry_later(pid);
		return false;
	}
	slice = t->grant < left ? t->grant : left;
	bpf_for_each(scx_dsq, other, DSQ(q), 0) {
		looks++;
		if (other->pid == pid) {
			later = !bpf_cpumask_test_cpu(cpu, other->cpus_ptr) || migration_disabled(other);
			if (!later) {
				scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, slice);
				moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, other, SCX_DSQ_LOCAL, 0);
				if (moved)
					moved_away(other);
			}
			break;
		}
		if (looks >= most)
			break;
	}
	looks_at += looks * LOOK_NS;
	if (moved)
		tix_unfile(q);
	else
		refund_donor(t);
	if (later)
		retry_later(pid);
	return moved ? slice : 0;
}

/* Take one of those who are waited for to this CPU; for how long, ns; 0: it did not. */
static u32 fetch_waited_for(s32 cpu, u32 running, u64 now)
{
	s32 pid = wanted ? __sync_lock_test_and_set(&wanted, 0) : cut_next();

	if (!pid)
		pid = retry_next(now);
	return pid ? tix_fetch(cpu, pid, running, now) : 0;
}

#endif
