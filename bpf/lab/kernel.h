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
};

struct lab_action {
	u64 arg;
	u32 what;
	u32 pad;
};

/* What thread `thread` does next. */
typedef void lab_next_fn(void *ctx, u32 thread, u64 now, struct lab_action *action);
/* It runs, `waited` ns after it woke up. */
typedef void lab_ran_fn(void *ctx, u32 thread, u64 waited);

void lab_move(u32 thread, u32 cgroup);
void lab_nice(u32 thread, u32 weight);
void lab_cpus(u32 thread, u64 cpus);

#endif
