/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads are charged and placed (core/account.h), with what the kernel knows of them. */
#ifndef TIX_PLACE_BPF_H
#define TIX_PLACE_BPF_H

#define OWN_FIRST 1u
#define PAYER_FIRST 2u
#define YIELDS 4u
#define TURNS_MOST 2u	/* own slices that a thread may be ahead of its siblings, or behind */

/* What CPU time costs thread `t`, which ran on this CPU, Q8. */
static __always_inline u32 price_for(const struct tix_thread *t)
{
	struct tix_cpu *c;

	if (nr_cpu_ids == 1)
		return PRICE;
	c = CPU(bpf_get_smp_processor_id());
	if (c->price < PRICE / 2 || (c->price > PRICE + PRICE / 8 && ~t->cpus))
		return c->price;
	return PRICE;
}

/*
 * Charge `used` ns of a thread of principal `node` at each level. If it `yields` while it is behind, what it does
 * not want now is owed to it no longer. The result: where the principal's threads are then, in virtual time.
 */
static __always_inline u64 charge_levels(u32 node, u64 used, u64 clock, bool yields)
{
	struct tix_account *a, *up;
	u64 at = 0, by;

	if (node >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[node];
	if (!a->own_is_counted || a->tickets > FUND_SELF) {
		account_add(&a->own_served, served_by(used, FUND_SELF));
		if (a->own_is_counted)
			account_add(&a->mean, served_by(used, a->tickets));
		if (yields)
			clamp_served(&a->own_served, a->mean, FUND_SELF, 0);
		if (a->tickets > FUND_SELF)
			at = in_vtime(ahead_ns(a->own_served, a->mean, FUND_SELF), a->inverse);
	}
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		up = &ACCOUNTS[a->above];
		if (used) {
			account_add(&a->served, served_by(used, a->amount));
			if (a->is_counted)
				account_add(&up->mean, served_by(used, up->tickets));
		}
		if (yields)
			clamp_served(&a->served, up->mean, a->amount, 0);
		at += in_vtime(ahead_ns(a->served, up->mean, a->amount), a->inverse_all);
		a = up;
	}
	by = tix_mul_q32(used, a->inverse_all);
	if (yields && a->nr_busy <= 1 && (s64)(a->vtime + by - clock) < 0)
		by = clock - a->vtime;
	charge_top(a, by);
	return at + a->vtime;
}

__noinline u64 tix_charge(u32 node, u64 used, u64 clock, bool yields)
{
	USES_ARENA();
	BEGIN_LOOPS();
	return charge_levels(node, used, clock, yields);
}

/* Where the threads of principal `node` are in virtual time. Most are no members, and alone in their currency. */
static __always_inline u64 position_of(u32 node)
{
	struct tix_account *a = &ACCOUNTS[node];

	return a->above || a->tickets > FUND_SELF ? tix_charge(node, 0, 0, false) : a->vtime;
}

/* The thread that runs on `c` by a decision of ours, or NULL. */
static __always_inline const struct tix_thread *running_on(const struct tix_cpu *c)
{
	return c->idle || !c->running ? NULL : &THREADS[c->running & (TIX_THREADS_MAX - 1)];
}

/* How far that has gone since it was picked, in virtual time. */
static __always_inline u64 ran_on(const struct tix_cpu *c, const struct tix_thread *running, u64 now)
{
	u64 ran = now - (c->slice_end_ns - c->granted_ns);

	/* Alone it goes on when its slice is over. */
	if (ran >> 32)
		ran = 0;
	return ran * (running->period >> 8) / ((running->slice_ns >> 8) ?: 1);
}

/* The clock of CPU `cpu` at this moment. */
__noinline u64 tix_clock(u32 cpu, u64 now)
{
	struct queue_lock *l = bpf_map_lookup_elem(&queue_locks, &cpu);
	const struct tix_thread *running;
	struct tix_cpu *c = CPU(cpu);
	u64 clock;

	USES_ARENA();
	if (!l)
		return 0;
	running = running_on(c);
	bpf_spin_lock(&l->lock);
	clock = queue_mean(&c->queue, running, running ? ran_on(c, running, now) : 0);
	bpf_spin_unlock(&l->lock);
	return clock;
}

/*
 * Where one that comes back on `cpu` would be if it were neither behind nor ahead: where few wait a clock may be far
 * ahead of others, so another one is looked at.
 */
static __always_inline u64 clock_to_join(u32 cpu, u64 now)
{
	u64 clock = tix_clock(cpu, now), other;
	u32 at = CPU(cpu)->probe;

	if (nr_cpu_ids == 1 || at == cpu || (CPU(at)->idle && !CPU(at)->queue.vt.nr))
		return clock;
	other = tix_clock(at, now);
	return (s64)(other - clock) < 0 ? other : clock;
}

/*
 * Principal `node` has its first runnable thread, on `cpu`: it is back, and what it is a member of. `joins`: the
 * thread does not run there yet, and so will move the mean.
 */
__noinline int tix_rise(u32 node, u32 cpu, u64 now, bool joins)
{
	struct tix_cpu *c = CPU(cpu);
	struct tix_account *a, *up;
	u64 credit;
	u32 weight;
	bool first;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[node];
	if (a->tickets > FUND_SELF)
		clamp_served(&a->own_served, a->mean, FUND_SELF, slice_ns);
	first = !__sync_fetch_and_add(&a->nr_busy, 1);
	while (first && a->above && a->above < TIX_NODES_MAX && can_loop) {
		up = &ACCOUNTS[a->above];
		clamp_served(&a->served, up->mean, a->amount, slice_ns);
		a->busy_in = a->above;
		first = !__sync_fetch_and_add(&up->nr_busy, 1);
		a = up;
	}
	if (!first)
		return 0;
	a->busy_in = 0;
	credit = tix_mul_q32(slice_ns, a->inverse_all);
	weight = queue_weight(credit, slice_ns);
	account_return(a, clock_to_join(cpu, now), credit, passed_since(a->slept_ns, now),
		       joins ? queue_join(&c->queue, running_on(c), weight) : 256);
	return 0;
}

/*
 * One of the members of `a` with a runnable thread has none any longer; true: it was the last. Its lag is there before
 * it counts as asleep: a wake-up on another CPU may be next.
 */
static __always_inline bool leave_busy(struct tix_account *a, u32 cpu, u64 now)
{
	if (!a->busy_in) {
		a->lag_vtime = a->vtime - tix_clock(cpu, now);
		a->slept_ns = now;
	}
	return __sync_fetch_and_add(&a->nr_busy, -1) == 1;
}

/* Principal `node` has no runnable thread any longer. */
__noinline int tix_fall(u32 node, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct tix_account *a;
	bool last;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[node];
	last = leave_busy(a, cpu, now);
	while (last && a->busy_in && a->busy_in < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[a->busy_in];
		last = leave_busy(a, cpu, now);
	}
	linger(CPU(cpu), node, now);
	return 0;
}

/*
 * Principal `node` pays for the coming runs of `t`. A donor counts as active meanwhile. The result: PAYER_FIRST
 * if it was not.
 */
static __always_inline u32 set_payer(struct tix_thread *t, u32 node, u64 now)
{
	u32 was = t->payer;

	if (was == node)
		return 0;
	t->payer = node;
	t->of_rate = 0;
	if (was != t->node && was < TIX_NODES_MAX && __sync_fetch_and_add(&ACCOUNTS[was].nr_runnable, -1) == 1)
		tix_fall(was, now);
	if (node == t->node || node >= TIX_NODES_MAX)
		return 0;
	return __sync_fetch_and_add(&ACCOUNTS[node].nr_runnable, 1) ? 0 : PAYER_FIRST;
}

/* Thread `t` does not count as runnable any longer, and nobody pays for it. */
static __always_inline void uncount(struct tix_thread *t, u64 now)
{
	set_payer(t, t->node, now);
	if (count_asleep(t))
		tix_fall(t->node, now);
}

/* `p` has run: the result is what its principal is to be charged for that yet, ns. */
static __always_inline u64 spent(const struct task_struct *p, struct tix_thread *t)
{
	u64 sum = p->se.sum_exec_runtime, used = sum - t->sum_ns, now, cost;
	struct tix_account *own = &ACCOUNTS[t->node];

	t->placed = 0;
	t->sum_ns = sum;
	if (!used || used >> 32)	/* it was in another class, or a clock went backwards */
		return 0;
	account_add(&own->used_ns, used);
	cost = used * price_for(t) >> 8;
	if (t->payer == t->node) {
		if (t->weight && own->load > t->weight) {
			t->served += served_by(used, t->weight);
			account_add(&own->thread_mean, served_by(used, own->load));
		}
		if (!(nr_limits && may_have_limit(t->node)))
			return cost;
	}
	now = scx_bpf_now();
	if (t->payer != t->node) {
		stats.lent_ns += used;
		if (t->payer < TIX_NODES_MAX && ACCOUNTS[t->payer].epoch != GRAPH->epoch)
			tix_update_value(t->payer);
		tix_charge(t->payer, cost, 0, false);
		set_payer(t, t->node, now);
		cost = 0;
	}
	if (nr_limits && may_have_limit(t->node))
		tix_debit(t->node, used, now);
	return cost;
}

/* `p` has run: charge it. */
static __always_inline void charge(const struct task_struct *p, struct tix_thread *t)
{
	u64 cost = spent(p, t);

	if (!cost)
		return;
	if (ACCOUNTS[t->node].epoch != GRAPH->epoch && NODES[t->node].self_active)
		tix_update_value(t->node);
	tix_charge(t->node, cost, 0, false);
}

/* A principal's first thread is to be placed: make it active, and have its account come back. */
static __noinline void wake_up(u32 node, u32 cpu, u64 now, bool joins)
{
	if (node >= TIX_NODES_MAX)
		return;
	if (!NODES[node].self_active)
		tix_update_active(node);
	if (ACCOUNTS[node].epoch != GRAPH->epoch)
		tix_update_value(node);
	tix_rise(node, cpu, now, joins);
}

/* Thread `t`, for which others wait, is as far behind its siblings as any may be: they pay, and nobody else. */
static __always_inline void goes_before_siblings(const struct tix_account *own, struct tix_thread *t)
{
	t->served = own->thread_mean - served_by(t->slice_ns * TURNS_MOST, t->weight);
}

/* How far thread `t` is ahead of its siblings, in virtual time: by TURNS_MOST of its own slices at most. */
static __always_inline s64 lead_of(const struct tix_account *own, struct tix_thread *t)
{
	s64 x = within(t->served - own->thread_mean, served_by(t->slice_ns * TURNS_MOST, t->weight));

	t->served = own->thread_mean + x;
	/* It is x * weight ns, of which each is worth inverse * load / weight. */
	return fund_like(x, tix_mul_q32((fund_size(x) >> 8) * own->load >> (SERVED_LOG - 8), own->inverse));
}

/* Limit how far an account is ahead of `clock` to AHEAD_NS and `near`; the result: by how much it moves. */
static __always_inline s64 bound_top(struct tix_account *a, u64 clock, u64 near)
{
	s64 by = clock + near + passes(AHEAD_NS) - a->vtime;

	if (by >= 0)
		return 0;
	account_add(&a->vtime, by);
	return by;
}

/*
 * Give thread `i`, which counts as runnable, its tag for a run on `cpu`. `first`: OWN_FIRST if it is its principal's
 * first that does, PAYER_FIRST if its payer was not active; YIELDS. It has used `cost` ns that its payer has not been
 * charged for.
 */
__noinline int tix_place(u32 i, u32 cpu, u64 now, u32 first, u64 cost)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	struct tix_queue *q = &CPU(cpu)->queue;
	struct tix_account *own, *payer;
	u64 clock = q->clock, at;
	u32 load;
	s64 off;
	bool is_one_of;

	USES_ARENA();
	BEGIN_LOOPS();
	if (t->node >= TIX_NODES_MAX || t->payer >= TIX_NODES_MAX)
		return 0;
	own = &ACCOUNTS[t->node];
	payer = &ACCOUNTS[t->payer];
	if (first & OWN_FIRST)
		wake_up(t->node, cpu, now, true);
	if (first & PAYER_FIRST)
		wake_up(t->payer, cpu, now, true);
	if (payer->epoch != GRAPH->epoch)
		tix_update_value(t->payer);
	is_one_of = t->payer == t->node && own->load > t->weight;
	load = is_one_of ? own->load : 0;
	if (t->of_rate != GRAPH->rate || t->as_of != (u32)payer->epoch || t->of_load != load) {
		t->of_rate = GRAPH->rate;
		t->as_of = payer->epoch;
		t->of_load = load;
		account_slice(payer, t, is_one_of, slice_ns, passes(ROUND_NS));
	}
	at = charge_levels(t->payer, cost, clock, first & YIELDS);
	/* Where others wait an account is not too far ahead of the clock. Most are near. */
	off = at - clock;
	if (!(first & ~YIELDS) && q->vt.nr && off > (s64)t->period * 2)
		at += bound_top(top_of(t->payer), clock, t->period * 2);
	t->tag = at;
	if (is_one_of)
		t->tag += lead_of(own, t);
	t->placed = 1;
	return 0;
}

/*
 * Whether thread `t`, which has just been placed, is to run at once in place of what runs on CPU `c`: it is
 * eligible, and finishes earlier by a quarter of the shorter period of both.
 */
static __always_inline bool goes_before_running(const struct tix_cpu *c, const struct tix_thread *t, u64 now)
{
	const struct tix_thread *running = running_on(c);
	u64 margin, at, ran;

	if (!running)
		return true;
	ran = ran_on(c, running, now);
	at = running->tag + ran;
	margin = (t->period < running->period ? t->period : running->period) / 4;
	return (s64)(t->tag - queue_mean(&c->queue, running, ran)) <= 0 &&
	       (s64)(t->tag + t->period + margin - at - running->period) < 0;
}

#endif
