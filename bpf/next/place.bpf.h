/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads are charged and placed (core/account.h), with what the kernel knows of them. */
#ifndef TIX_PLACE_BPF_H
#define TIX_PLACE_BPF_H

#define OWN_FIRST 1u
#define PAYER_FIRST 2u

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

/* What a thread of principal `node` used is charged to all that it shares with its siblings, too. */
__noinline int tix_charge_pools(u32 node, u64 used, u64 now)
{
	struct tix_cpu *c = CPU(bpf_get_smp_processor_id());
	struct tix_pool *pool;
	u32 up;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	for (up = FUNDS[node].above; up && up < TIX_NODES_MAX && can_loop; up = FUNDS[up].above) {
		pool = &POOLS[up];
		account_add(&pool->vtime, tix_mul_q32(used, pool->inverse));
		pool->used_at_ns = now;
		pool->lag_vtime = pool->vtime - c->queue.clock;
	}
	return 0;
}

/* The pools of principal `node`, which wakes up, come back as far as nobody else uses them. */
__noinline int tix_return_pools(u32 node, u64 clock, u64 credit, u64 now)
{
	struct tix_pool *pool;
	s64 lag;
	u32 up;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	for (up = FUNDS[node].above; up && up < TIX_NODES_MAX && can_loop; up = FUNDS[up].above) {
		pool = &POOLS[up];
		lag = pool->vtime - clock;
		if (!FUNDS[up].nr_active)
			lag = pool->lag_vtime - (s64)passes(now - pool->used_at_ns);
		if (lag < -(s64)credit)
			lag = -(s64)credit;
		pool->vtime = clock + lag;
	}
	return 0;
}

/* The latest of the accounts of all that principal `node` shares with its siblings; or `at`. */
__noinline u64 tix_latest_pool(u32 node, u64 at)
{
	u32 up;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return at;
	for (up = FUNDS[node].above; up && up < TIX_NODES_MAX && can_loop; up = FUNDS[up].above)
		if ((s64)(POOLS[up].vtime - at) > 0)
			at = POOLS[up].vtime;
	return at;
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

	if (ran > c->granted_ns)
		ran = c->granted_ns;
	return tix_mul_q32(ran, ACCOUNTS[running->payer < TIX_NODES_MAX ? running->payer : 0].inverse);
}

/* The clock of CPU `c` at this moment. */
static __always_inline u64 clock_now(const struct tix_cpu *c, u64 now)
{
	const struct tix_thread *running = running_on(c);

	return queue_mean(&c->queue, running, running ? ran_on(c, running, now) : 0);
}

/* Principal `node` has no runnable thread any longer. */
static __always_inline void fall_asleep(u32 node, u64 now)
{
	struct tix_account *own = &ACCOUNTS[node];
	struct tix_cpu *c = CPU(bpf_get_smp_processor_id());

	own->lag_vtime = own->vtime - clock_now(c, now);
	linger(c, node, now);
}

/* Thread `t` does not count as runnable any longer. */
static __always_inline void uncount(struct tix_thread *t, u64 now)
{
	if (count_asleep(t))
		fall_asleep(t->node, now);
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
	if (was != t->node && was < TIX_NODES_MAX && __sync_fetch_and_add(&ACCOUNTS[was].nr_runnable, -1) == 1)
		fall_asleep(was, now);
	if (node == t->node || node >= TIX_NODES_MAX)
		return 0;
	return __sync_fetch_and_add(&ACCOUNTS[node].nr_runnable, 1) ? 0 : PAYER_FIRST;
}

/* `p` has run: charge it. */
static __always_inline void charge(const struct task_struct *p, struct tix_thread *t)
{
	u64 used = p->se.sum_exec_runtime - t->sum_ns;

	if (used && ACCOUNTS[t->payer].epoch != GRAPH->epoch && NODES[t->payer].self_active)
		tix_update_value(t->payer);
	account_charge(&ACCOUNTS[t->payer], &ACCOUNTS[t->node], t, p->se.sum_exec_runtime, p->scx.weight,
		       price_for(t));
	if (FUNDS[t->payer].above && used)
		tix_charge_pools(t->payer, used, scx_bpf_now());
	if (t->payer != t->node) {
		stats.lent_ns += used;
		set_payer(t, t->node, scx_bpf_now());
	}
	if (nr_limits && used && may_have_limit(t->node))
		tix_debit(t->node, used, scx_bpf_now());
}

/* A principal's first thread is to be placed: make it active, and have its account come back. */
static __noinline void wake_up(u32 node, u32 cpu, u64 apart, u64 now)
{
	struct tix_account *own = &ACCOUNTS[node];
	struct tix_cpu *c = CPU(cpu);
	const struct tix_thread *running = running_on(c);
	u64 clock = clock_now(c, now);
	u32 weight, join;

	if (FUNDS[node].above)
		tix_return_pools(node, clock, tix_mul_q32(slice_ns, own->inverse) + apart, now);
	if (!NODES[node].self_active)
		tix_update_active(node);
	if (own->epoch != GRAPH->epoch)
		tix_update_value(node);
	weight = queue_weight(tix_mul_q32(slice_ns, own->inverse), slice_ns);
	join = queue_join(&c->queue, running, weight);
	account_return(own, clock, tix_mul_q32(slice_ns, own->inverse), apart, passes(now - own->slept_ns), join);
}

/* How far ahead of its siblings thread `t` is, in its principal's virtual time: a round at most. */
static __always_inline s64 lead_vtime(struct tix_account *own, struct tix_thread *t, u32 nr)
{
	s64 lead = account_lead(own, t, own->slice_ns, nr);
	u64 size = fund_size(lead), part, round;

	part = tix_mul_q32(account_at_nice_0(size * own->load, 10000), own->inverse);
	round = passes(ROUND_NS);
	return fund_like(lead, part < round ? part : round);
}

/*
 * Give thread `i`, which counts as runnable, its tag for a run on `cpu`. `first`: OWN_FIRST if it is its principal's
 * first that does, PAYER_FIRST if its payer was not active.
 */
__noinline int tix_place(u32 i, u32 cpu, u64 now, u32 first)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	struct tix_queue *q = &CPU(cpu)->queue;
	struct tix_account *own, *payer;
	u64 period, clock = q->clock, apart;
	s64 lead = 0;
	u32 nr = 1;

	USES_ARENA();
	if (t->node >= TIX_NODES_MAX || t->payer >= TIX_NODES_MAX)
		return 0;
	own = &ACCOUNTS[t->node];
	payer = &ACCOUNTS[t->payer];
	if (first) {
		apart = nr_cpu_ids > 1 ? passes(APART_NS) : 0;
		if (first & OWN_FIRST)
			wake_up(t->node, cpu, apart, now);
		if (first & PAYER_FIRST)
			wake_up(t->payer, cpu, apart, now);
	}
	if (payer->epoch != GRAPH->epoch)
		tix_update_value(t->payer);
	if (t->payer == t->node)
		nr = own->nr_runnable ?: 1;
	account_slice(payer, slice_ns, GRAPH->rate, nr_online, nr);
	period = payer->period;
	if (nr > 1)
		lead = lead_vtime(own, t, nr);
	account_place(payer, t, period, lead, clock, GRAPH->rate, nr_online, !first && q->vt.nr > 0);
	if (FUNDS[t->payer].above)
		t->tag = tix_latest_pool(t->payer, t->tag);
	t->period = period * nr;
	t->slice_ns = payer->slice_ns;
	return 0;
}

/*
 * Whether thread `t`, which has just been placed, is to run at once in place of what runs on CPU `c`: it is
 * eligible, and finishes earlier by a quarter of a slice.
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
