/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Principals' leads, for another build of the scheduler that takes this one's place (bpf/src/leads.rs).
 *
 * A principal's lead is told in ns of CPU: that means the same to any build. It is what its account is ahead of the
 * first CPU's clock, without what is reserved; the loader makes the sum of all nothing. It is kept before this one
 * is taken out, or when the kernel finds that it failed: as threads leave, principals cease to be active. What they
 * are charged from then on is told as well. The new one adds a lead to the account. A principal that slept is told to owe
 * what it owes, and nothing else.
 *
 * None of this is looked at, or kept up to date, while decisions are made.
 */
#ifndef TIX_HANDOVER_BPF_H
#define TIX_HANDOVER_BPF_H

#include "../lead.h"

#define LEAD_MAX ((s64)1 << 32)	/* ns: so that it can be weighed */

static STATE u32 keep_round;		/* which is the last; 0: nothing has been kept */

static __always_inline s64 bounded(s64 lead)
{
	if (lead > LEAD_MAX)
		return LEAD_MAX;
	return lead < -LEAD_MAX ? -LEAD_MAX : lead;
}

/* Keep what there is to be told of node `i`. */
__noinline int tix_keep_one(u32 i)
{
	struct tix_account *own;
	struct tix_kept *kept;
	struct tix_node *n;
	u64 now = scx_bpf_now(), at;
	s64 lag;

	USES_ARENA();
	BEGIN_LOOPS();
	if (i >= TIX_NODES_MAX)
		return 0;
	n = &NODES[i];
	own = &ACCOUNTS[i];
	kept = &n->kept;
	if (!(n->flags & TIX_NODE_CGROUP))
		return 0;
	at = position_of(i);
	bpf_spin_lock(&tix_lock);
	kept->round = keep_round;
	kept->cgid = n->cgid;
	kept->quota = n->quota;
	kept->used_ns = own->used_ns;
	kept->lead_ns = 0;
	kept->share = 0;
	if (n->self_active && own->nr_runnable) {
		fund_refresh(GRAPH, FUNDS, i);
		kept->share = fund_share(GRAPH, fund_self_value(GRAPH, FUNDS, i)) ?: 1;
		lag = at - CPU(0)->queue.clock;
		kept->lead_ns = bounded(unweighed(lag, own->inverse));
	} else if (own->used_ns && !own->above) {
		lag = account_lag_now(own, passed_since(own->slept_ns, now));
		if (lag > 0)
			kept->lead_ns = bounded(unweighed(lag, own->inverse));
	}
	bpf_spin_unlock(&tix_lock);
	return 0;
}

static void keep_leads(void)
{
	u32 i;

	keep_round++;
	for (i = 0; i < nodes_hi && can_loop; i++)
		tix_keep_one(i);
}

SEC("syscall")
int tix_keep(void *args)
{
	USES_ARENA();
	keep_leads();
	return 0;
}

static __always_inline void tell_lead(struct tix_lead *out, u32 i)
{
	out->cgid = NODES[i].kept.cgid;
	out->lead = NODES[i].kept.lead_ns;
	out->more = ACCOUNTS[i].used_ns - NODES[i].kept.used_ns;
	out->share = NODES[i].kept.share;
	out->quota = NODES[i].kept.quota;
	out->every = NODES[i].every;
	out->left = NODES[i].left;
	out->next_at = NODES[i].next_at;
}

/* Also once it has been taken out. */
SEC("syscall")
int tix_leads(struct tix_leads_args *args)
{
	u32 nr, i = args->first;

	USES_ARENA();
	args->next = 0;
	args->nr = 0;
	args->kept = keep_round;
	if (!keep_round)
		return 0;
	/* Unrolled: see tix_read. */
#pragma unroll
	for (nr = 0; nr < TIX_LEADS_BATCH; nr++) {
		while (i < nodes_hi && NODES[i].kept.round != keep_round && can_loop)
			i++;
		if (i >= nodes_hi)
			return 0;
		tell_lead(&args->lead[nr], i);
		args->nr = nr + 1;
		i++;
	}
	args->next = i;
	return 0;
}

/* Its cpu.max goes on where it was. */
static __always_inline void go_on_locked(u32 i, const struct tix_lead *lead)
{
	struct tix_node *n = &NODES[i];
	struct lead_period period = {
		.quota = n->quota,
		.every = n->every,
		.burst = n->burst,
		.left = n->left,
		.next_at = n->next_at,
	};

	if (!lead_period(&period, lead->quota, lead->every, lead->left, lead->next_at, now_ns, OWED_NS))
		return;
	n->left = period.left;
	n->next_at = period.next_at;
	if (n->spent_at)
		look_at_limit(i);
}

SEC("syscall")
int tix_take(struct tix_take_args *args)
{
	u64 now = scx_bpf_now();
	struct tix_lead lead;
	u32 i = args->node, up;
	s64 ns;

	USES_ARENA();
	copy_words(&lead, &args->lead, sizeof(lead));
	args->err = -ENOENT;
	if (i >= nodes_hi || i >= TIX_NODES_MAX || !(NODES[i].flags & TIX_NODE_CGROUP) ||
	    NODES[i].cgid != lead.cgid)
		return 0;
	ns = bounded(lead.lead);
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	for (up = i; ACCOUNTS[up].above && ACCOUNTS[up].above < TIX_NODES_MAX && can_loop;)
		up = ACCOUNTS[up].above;
	charge_top(&ACCOUNTS[up], in_vtime(ns, ACCOUNTS[up].inverse_all));
	go_on_locked(i, &lead);
	bpf_spin_unlock(&tix_lock);
	if (limit_due)
		tix_arm_limits();
	args->err = 0;
	return 0;
}

#endif
