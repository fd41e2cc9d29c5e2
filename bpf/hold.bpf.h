/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads wait for a limit's next period, in the limit's list, and come back into their CPUs'
 * queues when it begins: first come, first served, as many as can have MIN_SLICE_NS each of it.
 * One timer for the machine fires when the first of the limits is due.
 */
#ifndef TIX_HOLD_BPF_H
#define TIX_HOLD_BPF_H

#define RELEASE_MOST 512	/* steps of one firing of the timer, */
#define RELEASE_PAUSE_NS 100000ull	/* and after that many it goes on so much later */

static STATE u64 limit_timer_ns;	/* when the timer fires; 0: it is off */
static STATE u32 releasing, release_left;	/* the limit that is looked at, and how many are left */

/* Have the timer fire when the first of the limits is due. */
__noinline int tix_arm_limits(void)
{
	u64 at, then, now = scx_bpf_now();
	struct slice_timer *timer;
	u32 key = LIMITS_TIMER;

	BEGIN_LOOPS();
	timer = bpf_map_lookup_elem(&timers, &key);
	if (!timer)
		return 0;
	bpf_spin_lock(&tix_lock);
	at = limit_due;
	limit_due = 0;
	if (at && (!limit_timer_ns || (s64)(limit_timer_ns - at) > 0))
		limit_timer_ns = at;
	else
		at = 0;
	bpf_spin_unlock(&tix_lock);
	/* Should another CPU have asked for an earlier time meanwhile, ours is not to be the last word. */
	while (at && can_loop) {
		bpf_timer_start(&timer->timer, (s64)(at - now) > 0 ? at - now : 0, 0);
		then = limit_timer_ns;
		at = then && (s64)(then - at) < 0 ? then : 0;
	}
	return 0;
}

/*
 * Have thread `i` wait for a limit that is used up: then it does not count as runnable. The result: 0 if it waits now,
 * else for how long it may run, ns, at most 2^30.
 */
__noinline int tix_hold(u32 i, u64 now)
{
	s32 left = 1 << 30;
	bool held;
	u32 l;

	USES_ARENA();
	BEGIN_LOOPS();
	if (i >= TIX_THREADS_MAX || THREADS[i].node >= TIX_NODES_MAX)
		return left;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	l = limit_to_wait_for(i);
	held = l && hold_locked(i, l);
	if (l)
		left = 0;
	else if (limit_left < (u64)left)
		left = limit_left;
	bpf_spin_unlock(&tix_lock);
	if (held)
		uncount(i, now);
	if (limit_due)
		tix_arm_limits();
	return left;
}

/* Thread `i` goes to sleep, or elsewhere, while it waits for a limit. */
static __always_inline void unhold(u32 i)
{
	if (i >= TIX_THREADS_MAX || !THREADS[i].held_by)
		return;
	bpf_spin_lock(&tix_lock);
	unhold_locked(i);
	bpf_spin_unlock(&tix_lock);
}

struct release {
	u64 now;
	u32 limit;	/* which is looked at, or 0 */
	u32 thread;	/* which waits no longer, or 0 */
	u64 room;	/* how many more may go on */
};

/* One step: begin a period, or let a thread go that waited for it, or be done with it for now. */
__noinline int tix_release(struct release *r)
{
	struct tix_node *of;
	u32 l;

	USES_ARENA();
	if (!r)
		return 0;
	bpf_spin_lock(&tix_lock);
	advance_locked(r->now);
	r->thread = 0;
	l = r->limit;
	if (!l) {
		l = NODES[0].next_spent;
		if (l && l < TIX_NODES_MAX) {
			NODES[0].next_spent = NODES[l].next_spent;
			if (l == spent_last)
				spent_last = 0;
			nr_spent--;
			refill_locked(l);
			r->limit = l;
			r->room = NODES[l].left > 0 ? NODES[l].left / MIN_SLICE_NS + 1 : 0;
		}
		goto out;
	}
	if (l >= TIX_NODES_MAX)
		goto out;
	of = &NODES[l];
	if (r->room && of->first_held && of->first_held < TIX_THREADS_MAX) {
		r->room--;
		r->thread = of->first_held;
		unhold_locked(r->thread);
		goto out;
	}
	r->limit = 0;
	if (of->first_held) {
		note_spent(l);
		look_at_limit(l);
	} else {
		of->throttled_ns += now_ns - of->spent_at;
		of->spent_at = 0;
		release_locked(l);
	}
out:
	bpf_spin_unlock(&tix_lock);
	return 0;
}

/*
 * Thread `i`, which waited for a limit, waits for its CPU again: where that CPU's clock is, until it is placed. It was in
 * the list, so it is queued; if it no longer is, whoever takes it out unlinks it.
 */
static __always_inline void release_thread(u32 i, u64 now)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 cpu = t->cpu;

	if (CPU(cpu)->offline)
		cpu = bpf_get_smp_processor_id();
	END_BRANCHES();
	t->tag = CPU(cpu)->queue.clock;
	tix_link(cpu, i, now);
	CPU(cpu)->stale = i;
	/* Others may use up the period meanwhile: who has waited too long is not to miss it again. */
	if ((s64)(now - CLIENTS[i & (TIX_THREADS_MAX - 1)].since) > (s64)OVERDUE_NS)
		preempt(cpu, CPU(cpu));
	else
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static int limit_timer_fired(void *map, u32 *key, struct slice_timer *timer)
{
	struct release r = { .now = scx_bpf_now(), .limit = releasing };
	u32 i, left, more;
	bool done = false;

	USES_ARENA();
	bpf_spin_lock(&tix_lock);
	limit_timer_ns = 0;
	/* Those that are noted while this goes on are for the next time. */
	left = release_left ?: nr_spent;
	bpf_spin_unlock(&tix_lock);
	bpf_for(i, 0, RELEASE_MOST) {
		more = r.limit;
		tix_release(&r);
		if (r.thread)
			release_thread(r.thread, r.now);
		if (more && !r.limit)
			left--;
		if (!r.limit && (!more || !left)) {
			done = true;
			break;
		}
	}
	releasing = r.limit;
	release_left = done ? 0 : left;
	if (!done) {
		bpf_spin_lock(&tix_lock);
		look_again_locked(r.now + RELEASE_PAUSE_NS);
		bpf_spin_unlock(&tix_lock);
	}
	tix_arm_limits();
	return 0;
}

/* Cgroup `i` is capped by limit `cap`, or limit `i` counts where `cap` does, too; 0: by none. */
static __always_inline void set_cap_locked(u32 i, u32 cap)
{
	if (NODES[i].cap == cap)
		return;
	drop_cap_locked(i);
	if (cap)
		NODES[cap].nr_holders++;
	NODES[i].cap = cap;
	limits_epoch++;
}

static s32 limits_init(void)
{
	u32 key = LIMITS_TIMER;
	struct slice_timer *timer = bpf_map_lookup_elem(&timers, &key);
	s32 err;

	if (!timer)
		return -ESRCH;
	err = timer_init(timer);
	return err < 0 ? err : bpf_timer_set_callback(&timer->timer, limit_timer_fired);
}

/*
 * Of node `i`, which is a limit, what it allows, or cpu.max and cpu.max.burst of its cgroup, µs; there is no limit where
 * the quota is 0 or ~0.
 */
static void node_limit(u32 i, u64 period, u64 quota, u64 burst)
{
	u64 now = scx_bpf_now();
	struct tix_node *n;

	if (!i || i >= TIX_NODES_MAX)
		return;
	n = &NODES[i];
	if (quota > 1ull << 40 || burst > 1ull << 40 || !period)
		quota = burst = 0;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	if (quota || n->quota) {
		nr_limits += !!quota - !!n->quota;
		n->quota = quota * 1000;
		n->every = period * 1000;
		n->burst = burst * 1000;
		n->left = n->quota;
		n->next_at = quota ? now_ns + n->every : 1;	/* who waits for one that is lifted goes on now */
		limits_epoch++;
		if (n->spent_at)
			look_at_limit(i);
	}
	bpf_spin_unlock(&tix_lock);
	if (limit_due)
		tix_arm_limits();
}

#endif
