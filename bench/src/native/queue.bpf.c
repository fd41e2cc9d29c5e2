/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtrr.h as the kernel compiles it: what core_queue_run() of bpf/host does, in a program that
 * whoever may load BPF runs by BPF_PROG_TEST_RUN. The clients lie in an arena, as in tix.bpf.c;
 * its pages are made by whoever touches them first, from outside, where they lie at ARENA_BASE.
 */
#include <scx/common.bpf.h>
#include "../../../bpf/core/vtrr.h"

char _license[] SEC("license") = "GPL";

#define ARENA_BASE (1ull << 44)
#define CLIENTS_MAX (1u << 20)
#define PAGE 4096ull
#define ROUND_UP(x) (((x) + PAGE - 1) / PAGE * PAGE)

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 32768);	/* pages of addresses */
	__ulong(map_extra, ARENA_BASE);
} arena SEC(".maps");

/* What of a client vtrr.h leaves to its caller. */
struct of {
	u64 period;
	u32 group, pad;
};

#define CLIENTS_OFF ROUND_UP(sizeof(struct vtrr))
#define OF_OFF (CLIENTS_OFF + ROUND_UP(sizeof(struct vtrr_client) * CLIENTS_MAX))

/* As in bpf/state.bpf.h. */
static __always_inline void *arena_at(u64 offset)
{
	void *p = (void *)(ARENA_BASE + offset);

	asm("%0 = addr_space_cast(%0, 0x0, 0x1)" : "+r"(p));
	return p;
}

#define QUEUE ((struct vtrr *)arena_at(0))
#define CLIENTS ((struct vtrr_client *)arena_at(CLIENTS_OFF))
#define OF ((struct of *)arena_at(OF_OFF))
#define USES_ARENA() asm volatile("" ::"r"(&arena))

const volatile u64 quantum = 1;
const volatile u64 begin = ARENA_BASE, of_clients = CLIENTS_OFF, of_of = OF_OFF;
u64 now, decisions;

struct one {
	u64 period, tag;
	u64 client;
};

/* File a client. */
SEC("syscall")
int file(struct one *one)
{
	u32 c = one->client;

	USES_ARENA();
	if (c >= CLIENTS_MAX)
		return 1;
	OF[c].period = one->period;
	OF[c].group = vtrr_group_of(one->period);
	vtrr_link(QUEUE, CLIENTS, c, one->tag, OF[c].group, 0, false);
	return 0;
}

/* So many decisions; who the last was for. */
SEC("syscall")
int decide(u64 *nr)
{
	u64 left = *nr;
	u32 c = VTRR_NONE;

	USES_ARENA();
	while (left && can_loop) {
		left = tix_forget(left - 1);
		c = tix_forget(vtrr_peek(QUEUE, now));
		if (c >= CLIENTS_MAX)
			return VTRR_NONE;
		if (!QUEUE->choice.eligible)
			now = QUEUE->choice.head;
		vtrr_unlink(QUEUE, CLIENTS, c);
		now += quantum;
		vtrr_link(QUEUE, CLIENTS, c, CLIENTS[c].tag + OF[c].period, OF[c].group,
			  ++decisions, false);
	}
	return c;
}
