/* SPDX-License-Identifier: GPL-2.0-only */
/* What a program on the host asks of a simulated machine (kernel.c). */
#ifndef TIX_HOST_KERNEL_H
#define TIX_HOST_KERNEL_H

enum lab_what {
	LAB_RUN,	/* compute for `arg` ns */
	LAB_SLEEP,	/* for `arg` ns */
	LAB_WAIT,	/* until another thread wakes it */
	LAB_YIELD,
	LAB_WAKE,	/* thread `arg` */
	LAB_LOCK,	/* take lock `arg`, */
	LAB_UNLOCK,	/* and release it */
	LAB_MOVE,	/* to cgroup `arg` */
	LAB_NICE,	/* weight `arg` */
	LAB_CPUS,	/* bits in `arg` */
	LAB_EXIT,
	LAB_HOLD,	/* compute for `arg` ns, and let nobody interrupt that */
};

struct lab_action {
	u64 arg;
	u32 what;
	u32 pad;
};

/* What thread `thread` does next. */
typedef void lab_next_fn(void *ctx, u32 thread, u64 now, struct lab_action *action);

enum lab_event {
	LAB_WAKES,
	LAB_SLEEPS,
	LAB_RUNS,	/* on `cpu`, from now on; thread 0: that is idle */
};

typedef void lab_event_fn(void *ctx, u32 event, u32 thread, u32 cpu, u64 now);

void lab_move(u32 thread, u32 cgroup);
void lab_nice(u32 thread, u32 weight);
void lab_cpus(u32 thread, u64 cpus);

#endif
