/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices that end between ticks. The kernel looks at a slice at the tick only (4 ms at
 * 250 Hz). Each busy CPU has a timer that fires where the running slice ends, at most
 * once a quantum: it re-arms itself and is started only where it was off or would come
 * too late, so a switch normally costs no timer operation.
 *
 * Where thousands share a CPU slices are so short (share.bpf.h) that a timer that follows each one's end would cost as much as a
 * switch in fifty. If all leave before that, as who yields does, it comes each LATE_NS instead, until one does not.
 */
#ifndef TIX_TIMER_BPF_H
#define TIX_TIMER_BPF_H

#define LIMITS_TIMER TIX_CPUS_MAX	/* hold.bpf.h */
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

u32 ended;	/* this scheduler is out of force: no timer goes on. (What is static is made a bool, which BTF does not know) */

/* One that is in force for the second time has its timers already. */
static s32 timer_init(struct slice_timer *timer)
{
	s32 err = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);

	return err == -EBUSY ? 0 : err;
}

/*
 * Whether a thread that runs on CPU `c` does so by no decision: it found the CPU idle, and the
 * kernel put it straight there. Nobody times its slice, so whoever comes to wait for it asks for a
 * decision (hurry). So it is, too, while nobody runs.
 */
static __always_inline bool untimed(const struct cpu_ctx *c)
{
	return c->idle;
}

/*
 * The same of who wakes up and goes straight to what the kernel runs next there, as a flag of its
 * insertion. It puts it first, so it is not for who is put back: one that never sleeps would have
 * its turn again and again.
 */
static __always_inline u64 preempts(const struct cpu_ctx *c, bool always, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_WAKEUP) && (always || untimed(c)) ? SCX_ENQ_PREEMPT : 0;
}

static bool anybody_waits(u32 cpu)
{
	if (nr_cpu_ids > 2 && VT(VT_SOME(cpu))->nr)
		return true;
	return VT(VT_ANY)->nr || VT(VT_HOME(cpu))->nr || VT(VT_BOUND(cpu))->nr;
}

static int slice_timer_fired(void *map, u32 *key, struct slice_timer *timer)
{
	u32 cpu = *key;
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = scx_bpf_now(), next = slice_ns;
	bool waits;

	USES_ARENA();
	c->now = now;
	/* Left behind by a CPU that was unplugged: started anew, there, when it is back. */
	if (ended || c->idle || cpu != bpf_get_smp_processor_id()) {
		c->timer_at = 0;
		return 0;
	}
	tix_file_beside(now);
	call_for_help(c, cpu & (TIX_CPUS_MAX - 1));
	if (c->slice_end <= now + TIMER_MIN_NS / 2) {
		c->vain = 0;
		waits = anybody_waits(cpu) || c->limited || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0;
		if (waits && part_pair(cpu, c)) {
			/* Who runs is about to sleep: better then than now, when it may have locks. But not for ever. */
			c->slice_end = now + next;
		} else if (waits) {
			stats.preempts++;
			c->kicked = 1;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	} else if (c->slice_end - now < next) {
		next = c->slice_end - now;
		if (next >= LATE_NS)
			c->vain = 0;
		else if (c->vain++ >= VAIN_MOST && !c->limited)
			next = LATE_NS;
	}
	c->timer_at = now + next;
	bpf_timer_start(&timer->timer, next, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* A thread starts a slice on `cpu`, which is this one. */
static void run_until(u32 cpu, struct cpu_ctx *c, u64 now, u32 slice, bool brief)
{
	u64 end = now + slice, late = slice < LATE_NS && c->vain > VAIN_MOST && !c->limited ? LATE_NS : TIMER_MIN_NS;
	struct slice_timer *timer;

	c->idle = 0;
	c->began = now;
	c->brief = brief;
	c->slice_end = end;
	if (c->timer_at && c->timer_at <= end + late)
		return;
	/* Within a quantum it comes anyway: what is asked for on waking up is seldom used up. But of a limit it may be several times what is left. */
	if (c->timer_at && (slice >= slice_ns || (brief && !c->limited)))
		return;
	timer = bpf_map_lookup_elem(&timers, &cpu);
	if (!timer)
		return;
	c->timer_at = end;
	bpf_timer_start(&timer->timer, slice, BPF_F_TIMER_CPU_PIN);
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
