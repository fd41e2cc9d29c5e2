/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices that end between ticks. The kernel looks at a slice at the tick only (4 ms at
 * 250 Hz). Each busy CPU has a timer that fires where the running slice ends, at most
 * once a quantum: it re-arms itself and is started only where it was off or would come
 * too late, so a switch normally costs no timer operation.
 */
#ifndef TIX_TIMER_BPF_H
#define TIX_TIMER_BPF_H

#define LIMITS_TIMER TIX_CPUS_MAX	/* limit.bpf.h */
#define TIMER_MIN_NS 50000ull
#define LATE_NS 300000ull
#define VAIN_MOST 8u		/* firings in a row that ended no slice: so will the next */

struct slice_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIX_CPUS_MAX + 1);
	__type(key, u32);
	__type(value, struct slice_timer);
} timers SEC(".maps");

/* One that is in force for the second time has its timers already. */
static s32 timer_init(struct slice_timer *timer)
{
	s32 err = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);

	return err == -EBUSY ? 0 : err;
}

/* Ask for a decision on `cpu`: the thread that runs there makes room, if another goes before it. */
static __always_inline void preempt(u32 cpu, struct tix_cpu *c)
{
	c->kicked = 1;
	COUNTS(bpf_get_smp_processor_id()).preempts++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static int slice_timer_fired(void *map, u32 *key, struct slice_timer *timer)
{
	u32 cpu = *key;
	struct tix_cpu *c = CPU(cpu);
	u64 now = scx_bpf_now(), next = slice_ns;

	USES_ARENA();
	/* Left behind by a CPU that was unplugged: started anew, there, when it is back. */
	if (ended || cpu != bpf_get_smp_processor_id()) {
		c->timer_ns = 0;
		return 0;
	}
	if (c->idle_ns) {
		c->timer_ns = 0;
		if (c->first_lingering)
			scx_bpf_kick_cpu(cpu, 0);	/* a decision sees to them */
		return 0;
	}
	if (c->slice_end_ns <= now + TIMER_MIN_NS / 2) {
		c->vain = 0;
		if (c->queue.vt.nr || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0)
			preempt(cpu, c);
	} else if (c->slice_end_ns - now < next) {
		next = c->slice_end_ns - now;
		if (next >= LATE_NS)
			c->vain = 0;
		else if (c->vain++ >= VAIN_MOST)
			next = LATE_NS;
	}
	c->timer_ns = now + next;
	bpf_timer_start(&timer->timer, next, BPF_F_TIMER_CPU_PIN);
	return 0;
}

static void start_timer(u32 cpu, struct tix_cpu *c, u64 now, u64 in)
{
	struct slice_timer *timer = bpf_map_lookup_elem(&timers, &cpu);

	if (!timer)
		return;
	c->timer_ns = now + in;
	bpf_timer_start(&timer->timer, in, BPF_F_TIMER_CPU_PIN);
}

/* Thread `t` starts a slice on `cpu`, which is this one. */
static __always_inline void run_until(u32 cpu, struct tix_cpu *c, u32 t, u64 now, u32 slice)
{
	u64 end = now + slice;
	u64 late = slice < LATE_NS && c->vain > VAIN_MOST ? LATE_NS : TIMER_MIN_NS;

	c->idle_ns = 0;
	c->running = t;
	c->granted_ns = slice;
	c->slice_end_ns = end;
	if (!c->timer_ns || (c->timer_ns > end + late && slice < slice_ns))
		start_timer(cpu, c, now, slice);
}

static s32 timers_init(void)
{
	u32 i;
	s32 err;

	bpf_for(i, 0, nr_cpu_ids) {
		u32 key = i;
		struct slice_timer *timer = bpf_map_lookup_elem(&timers, &key);

		if (!timer)
			return -ESRCH;
		err = timer_init(timer);
		if (err < 0)
			return err;
		bpf_timer_set_callback(&timer->timer, slice_timer_fired);
	}
	return 0;
}

#endif
