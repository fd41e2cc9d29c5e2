/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads move between CPUs. A CPU whose clock is behind has more to do than others: one whose clock
 * is ahead by APART_NS takes a thread over from it. Each decision looks at one other CPU. A CPU that
 * would be idle looks at all, and takes anything.
 */
#ifndef TIX_BALANCE_BPF_H
#define TIX_BALANCE_BPF_H

#define PRICE 256u		/* as it is where CPUs are together, Q8 */
#define PRICE_MOST (64 * PRICE)

/* The next CPU to look at, which is not `cpu`. Kept in memory: the verifier then sees one loop over any CPU. */
static __always_inline u32 next_cpu(volatile u32 *probe, u32 cpu)
{
	u32 at = *probe + 1;

	if (at == cpu)
		at++;
	if (at >= nr_cpu_ids)
		at = cpu ? 0 : 1;
	*probe = at;
	return *probe;
}

/*
 * The price of this CPU's time, as CPU `at`, on which threads wait, is `ahead` of this one in virtual time.
 * Where this one is behind its own bound threads cannot have their due: time is dearer for them, so that their
 * accounts keep up with the others' and stand to each other as before. Where it is ahead, and nothing can come
 * here, time is to be had for less.
 */
static __always_inline void set_price(struct tix_cpu *c, s64 ahead, u64 apart)
{
	u64 size = ahead < 0 ? -ahead : ahead, now = PRICE, ratio;

	if (size > apart && apart) {
		ratio = size / (apart / PRICE + 1);
		if (ratio > PRICE_MOST)
			ratio = PRICE_MOST;
		now = ahead < 0 ? PRICE * PRICE / ratio ?: 1 : ratio;
	}
	c->price += ((s32)now - (s32)c->price) / 32;	/* slowly: none is to hit one of them by chance */
}

/* How far the clock of CPU `at` is ahead of that of `c`; nobody waits there: FAR. */
#define FAR (1ll << 62)
static __always_inline s64 ahead_of(const struct tix_cpu *c, u32 at)
{
	return CPU(at)->queue.vt.nr ? (s64)(CPU(at)->queue.reached - c->queue.reached) : FAR;
}

/*
 * Virtual time that was forgiven to threads of CPU `c`, and not to those of CPU `at`: it would have
 * brought others here.
 */
static __always_inline s64 beyond_of(const struct tix_cpu *c, u32 at)
{
	s64 beyond = c->queue.beyond - CPU(at)->queue.beyond;

	return beyond > 0 ? beyond : 0;
}

/*
 * A thread that has waited for less goes on in a moment where it is, as when one of the kernel's own threads interrupts it: a
 * busy CPU does not take it over.
 */
#define SETTLED_NS 100000u

/*
 * A thread of another CPU's to run on `cpu` next, which waits nowhere any longer; or 0. A busy CPU that
 * finds only threads that are bound elsewhere looks again in a quantum, not before.
 */
__noinline int tix_balance(u32 cpu, bool busy, u64 now)
{
	struct tix_cpu *c = CPU(cpu);
	u32 n, at, i = 0;
	s64 ahead, apart = passes(APART_NS);

	USES_ARENA();
	busy |= c->queue.vt.nr > 0;
	bpf_for(n, 0, nr_cpu_ids) {
		at = next_cpu(&c->probe, cpu);
		ahead = ahead_of(c, at);
		c->queue.clock_most = CPU(at)->idle_ns ? 0 : CPU(at)->queue.clock + apart;
		if ((!busy && ahead != FAR) || (ahead < beyond_of(c, at) - apart && (s64)(now - c->look_ns) >= 0)) {
			i = tix_take_over(at, cpu, busy ? now - SETTLED_NS : now);
			if (!i)
				c->look_ns = now + slice_ns;
		}
		if (i) {
			COUNTS(cpu).taken_over++;
			/* Both CPUs count as together until the next pick computes this clock with that thread. */
			c->queue.reached = CPU(at)->queue.reached;
			c->queue.beyond = CPU(at)->queue.beyond;
		} else
			set_price(c, ahead == FAR ? 0 : ahead, apart);
		if (busy || i)
			break;
	}
	return i;
}

#endif
