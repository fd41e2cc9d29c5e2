/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads are charged and placed (core/account.h), with what the kernel knows of them. */
#ifndef TIX_PLACE_BPF_H
#define TIX_PLACE_BPF_H

#define OWN_FIRST 1u
#define PAYER_FIRST 2u
#define YIELDS 4u
#define RAN 8u
#define TURNS_MOST 2u	/* own slices that a thread may be ahead of its siblings, or behind */

/* What CPU time costs thread `t`, which ran on this CPU, Q8. */
static __always_inline u32 price_for(const struct tix_thread *t)
{
	struct tix_cpu *c;

	if (nr_cpu_ids == 1)
		return PRICE;
	c = CPU(bpf_get_smp_processor_id());
	if (~t->cpus && (c->price < PRICE / 2 || c->price > PRICE + PRICE / 8))
		return c->price;
	return PRICE;
}

/*
 * Charge `used` ns to a member of currency `up` with that many tickets of it, which may count in the mean; one that
 * `yields` is not behind afterwards. The result: by how many ns it is ahead of the mean then.
 */
static __always_inline s64 charge_member(u64 *served, struct tix_account *up, u64 tickets, bool is_counted, u64 used,
					 bool yields)
{
	u64 middle;
	s64 off;

	if (tix_unknown(used, *served)) {
		account_add(served, served_by(used, tickets));
		if (is_counted)
			account_add(&up->mean, served_by(used, up->tickets));
	}
	middle = up->mean;
	off = ahead_ns(*served, middle, tickets);
	if (tix_unknown(is_counted, middle))
		off = forgive(served, &up->mean, middle, tickets, up->tickets, MEMBER_OFF_NS, off);
	if (yields && off < 0) {
		*served = middle;
		off = 0;
	}
	return off;
}

/*
 * Charge `used` ns of a thread of principal `node` at each level. If it `yields` while it is behind, what it does
 * not want now is owed to it no longer. The result: where the principal's threads are then, in virtual time, and in
 * `*top` whose account that is.
 */
__noinline u64 tix_charge(u32 node, u64 used, u64 clock, bool yields, u64 *top)
{
	struct tix_account *a, *up;
	u64 at = tix_unknown(0, used), by;
	s64 off;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX || !top)
		return 0;
	a = &ACCOUNTS[node];
	if (a->tickets > FUND_SELF || !a->own_is_counted) {
		off = charge_member(&a->own_served, a, FUND_SELF, a->own_is_counted, used, yields);
		if (a->tickets > FUND_SELF)
			at = in_vtime(off, a->inverse);
	}
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		up = &ACCOUNTS[a->above];
		at += in_vtime(charge_member(&a->served, up, a->amount, a->is_counted, used, yields), a->inverse_all);
		node = a->above;
		a = up;
	}
	by = tix_mul_q32(used, a->inverse_all);
	if (yields && a->nr_busy <= 1 && (s64)(a->vtime + by - clock) < 0)
		by = clock - a->vtime;
	account_add(&a->vtime, by);
	*top = node;
	return at + a->vtime;
}

/* The same of one whose place is not asked for. */
static __always_inline u64 charge_node(u32 node, u64 used, u64 clock, bool yields)
{
	u64 top = 0;

	return tix_charge(node, used, clock, yields, &top);
}

/* How far the threads of a node itself are ahead of its members' mean. */
static __always_inline s64 lead_of_own(const struct tix_account *a)
{
	return a->tickets > FUND_SELF ? in_vtime(ahead_ns(a->own_served, a->mean, FUND_SELF), a->inverse) : 0;
}

/* Where the threads of principal `node` are in virtual time. */
__noinline u64 tix_position(u32 node)
{
	USES_ARENA();
	BEGIN_LOOPS();
	return lead_of_own(&ACCOUNTS[node < TIX_NODES_MAX ? node : 0]) + place_of(node);
}

/* The thread that runs on `c` by a decision of ours, or NULL. */
static __always_inline const struct tix_thread *running_on(const struct tix_cpu *c)
{
	return c->idle_ns || !c->running ? NULL : &THREADS[c->running & (TIX_THREADS_MAX - 1)];
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
	if (c->idle_ns && !c->queue.vt.nr)
		return clock_of(c, now);
	running = running_on(c);
	bpf_spin_lock(&l->lock);
	clock = queue_mean(&c->queue, running, running ? ran_on(c, running, now) : 0);
	bpf_spin_unlock(&l->lock);
	return clock;
}

static __always_inline u64 earlier_of(u64 a, u64 b)
{
	return (s64)(a - b) < 0 ? a : b;
}

/*
 * The clock up to which a thread that yields on `c` gives up what it is owed. It may have come over from another CPU, whose
 * clock is behind: the earlier one counts.
 */
static __always_inline u64 clock_to_yield(const struct tix_cpu *c)
{
	if (nr_cpu_ids == 1 || CPU(c->probe)->idle_ns)
		return c->queue.clock;
	return earlier_of(c->queue.clock, CPU(c->probe)->queue.clock);
}

/*
 * Where one that comes back on `cpu`, whose clock is `clock`, would be if it were neither behind nor ahead. A clock is
 * after that where few wait, or a member runs that is ahead of its siblings: so the account of what runs and another CPU's
 * clock are looked at, too.
 */
static __always_inline u64 clock_to_join(u32 cpu, u64 clock, u64 now)
{
	const struct tix_thread *running = running_on(CPU(cpu));
	u32 at = CPU(cpu)->probe;
	u64 early = running ? earlier_of(clock, top_of(running->payer)->vtime) : clock;

	if (nr_cpu_ids == 1 || at == cpu || (!CPU(at)->queue.vt.nr && (CPU(at)->idle_ns || CPU(cpu)->queue.vt.nr)))
		return early;
	return earlier_of(early, tix_clock(at, now));
}

/* A member is back: it is behind by a slice at most. */
static __always_inline void owe_one_slice(u64 *served, u64 *mean, u64 tickets, u64 all, bool is_counted)
{
	u64 middle = *mean;

	if (is_counted)
		forgive(served, mean, middle, tickets, all, slice_ns, ahead_ns(*served, middle, tickets));
	else
		clamp_served(served, middle, tickets, slice_ns);
}

/*
 * Whether currencies fund node `n`, which is no member. What it is due while it sleeps is theirs: when it
 * comes back it is owed nothing.
 */
static __always_inline bool is_funded(u32 n)
{
	return n < TIX_NODES_MAX && FUNDS[n].nr_edges && FUNDS[n].edge[0].issuer;
}

/*
 * Principal `node` has its first runnable thread, on `cpu`: it is back, and what it is a member of. `joins`: the
 * thread does not run there yet, and so will move the mean.
 */
__noinline int tix_rise(u32 node, u32 cpu, u64 now, bool joins)
{
	struct tix_cpu *c = CPU(cpu);
	struct tix_account *a, *up;
	u32 weight, n = node;
	u64 credit, clock;
	bool first;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[node];
	if (a->tickets > FUND_SELF)
		owe_one_slice(&a->own_served, &a->mean, FUND_SELF, a->tickets, a->own_is_counted);
	first = !__sync_fetch_and_add(&a->nr_busy, 1);
	while (first && a->above && a->above < TIX_NODES_MAX && can_loop) {
		up = &ACCOUNTS[a->above];
		owe_one_slice(&a->served, &up->mean, a->amount, up->tickets, a->is_counted);
		n = a->busy_in = a->above;
		first = !__sync_fetch_and_add(&up->nr_busy, 1);
		a = up;
	}
	if (!first)
		return 0;
	a->busy_in = 0;
	credit = tix_mul_q32(slice_ns, a->inverse_all);
	weight = queue_weight(credit, slice_ns);
	if (is_funded(n))
		credit = 0;
	credit = tix_unknown(credit, now);
	weight = tix_unknown(weight, now);
	END_BRANCHES();
	clock = tix_clock(cpu, now);
	account_return(a, clock, clock_to_join(cpu, clock, now), credit, passes(AHEAD_NS), now,
		       joins ? queue_join(&c->queue, running_on(c), weight) : 256);
	return 0;
}

/* One of the members of `a` with a runnable thread has none any longer; true: it was the last. */
static __always_inline bool leave_busy(struct tix_account *a, u64 now)
{
	if (!a->busy_in)
		a->slept_ns = now;
	return __sync_fetch_and_add(&a->nr_busy, -1) == 1;
}

/* Principal `node` has no runnable thread any longer. */
__noinline int tix_fall(u32 node, u64 now)
{
	struct tix_account *a;
	bool last;

	USES_ARENA();
	BEGIN_LOOPS();
	if (node >= TIX_NODES_MAX)
		return 0;
	a = &ACCOUNTS[node];
	last = leave_busy(a, now);
	while (last && a->busy_in && a->busy_in < TIX_NODES_MAX && can_loop) {
		a = &ACCOUNTS[a->busy_in];
		last = leave_busy(a, now);
	}
	linger(CPU(bpf_get_smp_processor_id()), node, now);
	return 0;
}

/*
 * Principal `node` pays for the coming runs of thread `i`. A donor counts as active meanwhile. The result: PAYER_FIRST
 * if it was not.
 */
__noinline u32 tix_set_payer(u32 i, u32 node, u64 now)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 was = t->payer;

	USES_ARENA();
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

/* A thread of principal `node` does not count as runnable any longer. */
__noinline int tix_count_asleep(u32 node, u32 weight, u64 served, u64 now)
{
	struct tix_account *own = &ACCOUNTS[node];

	USES_ARENA();
	if (!weight)
		return 0;
	leave_mean(served, &own->thread_mean, __sync_fetch_and_add(&own->load, -weight) - weight, weight);
	if (__sync_fetch_and_add(&own->nr_runnable, -1) == 1)
		tix_fall(node, now);
	return 0;
}

/* Thread `i` does not count as runnable any longer, and nobody pays for it. */
static __always_inline void uncount(u32 i, u64 now)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u32 weight = t->weight;

	if (t->payer != t->node)
		tix_set_payer(i, t->node, now);
	t->weight = 0;
	tix_count_asleep(t->node, weight, t->served, now);
}

/* Thread `i` has used `used` ns, for which another principal pays `cost`, or of which a limit is to know; the rest of that. */
__noinline u64 tix_spend(u32 i, u64 used, u64 cost)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u64 now = scx_bpf_now();

	USES_ARENA();
	if (t->payer != t->node) {
		COUNTS(bpf_get_smp_processor_id()).lent_ns += used;
		charge_node(t->payer, cost, 0, false);
		tix_set_payer(i, t->node, now);
		cost = 0;
	}
	if (nr_limits && may_have_limit(t->node))
		tix_debit(t->node, used, now);
	return cost;
}

#define HAS_RUN_NS (MIN_SLICE_NS / 2)	/* a thread's wait is over when it has run for so long */

/* Thread `i`, whose task is `p`, has run: the result is what its principal is to be charged for that yet, ns. */
static __always_inline u64 spent(const struct task_struct *p, u32 i)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	u64 sum = p->se.sum_exec_runtime, used = sum - t->sum_ns, cost;
	struct tix_account *own = &ACCOUNTS[t->node];

	t->placed = 0;
	t->sum_ns = sum;
	if (!used || used >> 32)	/* it was in another class, or a clock went backwards */
		return 0;
	if (used >= HAS_RUN_NS)
		CLIENTS[i].since = 0;
	account_add(&own->used_ns, used);
	cost = used * price_for(t) >> 8;
	if (t->payer == t->node && t->weight && own->load > t->weight) {
		t->served += served_by(used, t->weight);
		account_add(&own->thread_mean, served_by(used, own->load));
	}
	if (t->payer != t->node || (nr_limits && may_have_limit(t->node)))
		cost = tix_spend(i, used, cost);
	return cost;
}

/* Thread `i`, whose task is `p`, has run: charge it. */
static __always_inline void charge(const struct task_struct *p, u32 i)
{
	u64 cost = spent(p, i);

	if (cost)
		charge_node(THREADS[i & (TIX_THREADS_MAX - 1)].node, cost, 0, false);
}

/* Thread `t`, for which others wait, is as far behind its siblings as any may be: they pay, and nobody else. */
static __always_inline void goes_before_siblings(struct tix_account *own, struct tix_thread *t)
{
	s64 by = own->thread_mean - served_by(t->slice_ns * TURNS_MOST, t->weight) - t->served;

	t->served += by;
	account_add(&own->thread_mean, scaled(by, t->weight, own->load));
}

/* `off`, in 2^-24 ns for each of the weight of thread `t`, in virtual time: a slice is a period. */
static __always_inline s64 of_thread(const struct tix_thread *t, s64 off)
{
	u64 ns = fund_size(off) * t->weight >> SERVED_LOG;

	return fund_like(off, ns * ((t->period << 4) / t->slice_ns) >> 4);
}

/*
 * The comparison of CPUs counts what was forgiven to thread `t`, which ran on the CPU of `q`, as part
 * of the clock, by the thread's weight there: else one that has a CPU for itself would keep it. The
 * sum is bounded a little above APART_NS, which it has to exceed to have an effect.
 *
 * Cost: a field of a queue's; a sleeper waits for more than 5 ms in 8 of 100 plots on four CPUs for
 * 3 (adversary). Gain: nice on several CPUs. No account moves by it.
 */
static __always_inline void note_forgiven(struct tix_queue *q, const struct tix_thread *t, s64 off)
{
	s64 by = of_thread(t, within(off, served_by(slice_ns, t->weight)));
	u64 part = ((u64)t->share << 32) / (q->weight + t->share);

	q->beyond = within(q->beyond + in_vtime(by, part), passes(APART_NS) * 5 / 4);
}

/*
 * How far thread `t` is ahead of its siblings, in virtual time: by TURNS_MOST of its own slices at most. What it had more
 * is forgiven. In a crowd, whose slices are short, each run may be longer than that, so there the mean moves with what is
 * forgiven.
 */
static __always_inline s64 lead_of(struct tix_account *own, struct tix_thread *t, struct tix_queue *q)
{
	s64 off = t->served - own->thread_mean, x = within(off, served_by(t->slice_ns * TURNS_MOST, t->weight));

	if (x != off) {
		t->served += x - off;
		if (t->slice_ns < slice_ns)
			account_add(&own->thread_mean, scaled(x - off, t->weight, own->load));
		if (q)
			note_forgiven(q, t, off - x);
	}
	return of_thread(t, x);
}

/*
 * Limit how far an account is ahead of CPU `c` to AHEAD_NS and `near`, and how far it is behind both that and another
 * one to BEHIND_NS of its own; the result: by how much it moves. A clock is where threads are, with what members are
 * ahead or behind, and the account is not to run after those: it stays where the thread's `tag` is within the limits.
 */
static __always_inline s64 bound_top(struct tix_account *a, const struct tix_cpu *c, u64 near, u64 tag)
{
	u64 clock = c->queue.clock;
	s64 off = a->vtime - clock, its = tag - clock, most = near + passes(AHEAD_NS), by = 0;
	s64 least = -in_vtime(BEHIND_NS, a->inverse_all) - (nr_cpu_ids > 1 ? 2 * passes(APART_NS) : 0);

	if (off > most && its > most) {
		if (off > its)
			off = its;
		if (nr_cpu_ids > 1 && (s64)(a->vtime - CPU(c->probe)->queue.clock) < off)
			off = a->vtime - CPU(c->probe)->queue.clock;
		by = off > most ? most - off : 0;
	} else if (off < least && its < least) {
		if (off < its)
			off = its;
		if (nr_cpu_ids > 1 && (s64)(a->vtime - CPU(c->probe)->queue.clock) > off)
			off = a->vtime - CPU(c->probe)->queue.clock;
		by = off < least ? least - off : 0;
	}
	if (by)
		account_add(&a->vtime, by);
	return by;
}

/*
 * Give thread `i`, which counts as runnable, its tag for a run on `cpu`. `first`: OWN_FIRST if it is its principal's
 * first that does, PAYER_FIRST if its payer was not active, RAN if it has run there until now, YIELDS if it yielded. It
 * has used `cost` ns that its payer has not been charged for.
 */
__noinline int tix_place(u32 i, u32 cpu, u64 now, u32 first, u64 cost)
{
	struct tix_thread *t = &THREADS[i & (TIX_THREADS_MAX - 1)];
	struct tix_queue *q = &CPU(cpu)->queue;
	struct tix_account *own, *payer;
	struct tix_account *top;
	u64 at, above = 0;
	u32 load;
	bool is_one_of;

	USES_ARENA();
	BEGIN_LOOPS();
	if (t->node >= TIX_NODES_MAX || t->payer >= TIX_NODES_MAX)
		return 0;
	own = &ACCOUNTS[t->node];
	payer = &ACCOUNTS[t->payer];
	if (first & OWN_FIRST)
		tix_rise(t->node, cpu, now, true);
	if (first & PAYER_FIRST)
		tix_rise(t->payer, cpu, now, true);
	is_one_of = t->payer == t->node && own->load > t->weight;
	load = is_one_of ? own->load : 0;
	if (t->of_rate != GRAPH->rate || t->as_of != (u32)payer->epoch || t->of_load != load) {
		t->of_rate = GRAPH->rate;
		t->as_of = payer->epoch;
		t->of_load = load;
		account_slice(payer, t, is_one_of, slice_ns, passes(ROUND_NS));
	}
	at = tix_charge(t->payer, cost, first & YIELDS ? clock_to_yield(CPU(cpu)) : 0, first & YIELDS, &above);
	top = &ACCOUNTS[above < TIX_NODES_MAX ? above : 0];
	t->tag = at;
	if (is_one_of)
		t->tag += lead_of(own, t, (first & RAN) && nr_cpu_ids > 1 ? q : NULL);
	/* Where others wait the account is near the clock, which counts this thread only where it has run. */
	if ((first & RAN) && q->vt.nr)
		t->tag += bound_top(top, CPU(cpu), t->period * 2, t->tag);
	t->placed = 1;
	return 0;
}

/*
 * Cost: a subtraction each for a wake-up and a sleep. Gain: a fifth of what a token costs that goes round ten cgroups. A
 * thread that was short and then computes delays one that wakes up meanwhile to the end of its slice, once in ten runs.
 */
#define BURST_NS 100000u

/* Whether the thread that runs on `c` usually sleeps again in a moment: then others had better wait for that. */
static __always_inline bool sleeps_soon(const struct tix_cpu *c, const struct tix_thread *running, u64 now)
{
	return running->burst_ns < BURST_NS && now - (c->slice_end_ns - c->granted_ns) < running->burst_ns;
}

/* Thread `t` goes to sleep, and has been charged. A run that was interrupted counts as a whole. */
static __always_inline void learn_burst(struct tix_thread *t)
{
	u64 ran = t->sum_ns - t->slept_sum_ns;

	t->slept_sum_ns = t->sum_ns;
	t->burst_ns = (t->burst_ns * 3ull + (ran < slice_ns ? ran : slice_ns) * 2) / 4;
}

/*
 * Whether thread `t`, which has just been placed, is to run at once in place of what runs on CPU `c`: it is
 * eligible, and finishes earlier by a quarter of the shorter period of both. A slice is a principal's: its other threads
 * wait for the end of it, so that those that wake each other cost a decision a slice (hackbench: half the time).
 */
static __always_inline bool goes_before_running(const struct tix_cpu *c, const struct tix_thread *t, u64 now)
{
	const struct tix_thread *running = running_on(c);
	u64 margin, at, ran;

	if (!running)
		return true;
	if (t->payer == running->payer || sleeps_soon(c, running, now))
		return false;
	ran = ran_on(c, running, now);
	at = running->tag + ran;
	margin = (t->period < running->period ? t->period : running->period) / 4;
	return (s64)(t->tag - queue_mean(&c->queue, running, ran)) <= 0 &&
	       (s64)(t->tag + t->period + margin - at - running->period) < 0;
}

/*
 * Thread `i`, which wakes up on `cpu`, goes on with the slice of who runs there and is about to sleep: it is of the same
 * principal, or goes before all that wait. The end of the slice stays, so whoever comes meanwhile waits for that at most.
 *
 * Cost: a field of a CPU's, and 9,000 verified instructions. Gain: of what a token costs that goes round two cgroups a
 * seventh, of what a message costs in one of a hundred pairs a quarter.
 */
static __always_inline bool goes_on(u32 cpu, const struct tix_cpu *c, u32 i, u64 now)
{
	const struct tix_thread *running = running_on(c), *t = &THREADS[i];

	return running && !c->next && sleeps_soon(c, running, now) && (s64)(c->slice_end_ns - now) > (s64)BURST_NS &&
	       t->payer < TIX_NODES_MAX && NODES[t->payer].self_active && ACCOUNTS[t->payer].epoch == GRAPH->epoch &&
	       (t->payer == running->payer || !c->queue.vt.nr || tix_goes_first(cpu, i, now));
}

/* The thread that was to go on with the slice on `c` does. */
static __always_inline void go_on(struct tix_cpu *c, u64 now)
{
	struct tix_thread *t = &THREADS[c->next & (TIX_THREADS_MAX - 1)];

	if (!c->queue.vt.nr && (s64)(t->tag - c->queue.clock) > 0)
		c->queue.clock = t->tag;
	c->queue.running_share = t->share;
	c->running = c->next;
	c->granted_ns = c->slice_end_ns - now;
	c->next = 0;
}

#endif
