/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Principals' leads, for another build of the scheduler that takes this one's place (bpf/src/leads.rs).
 *
 * A principal's lead is told in ns of CPU: that means the same to any build. It is how far its threads are ahead of the
 * first CPU's clock, all levels of account.h included, as CPU time of theirs; the loader makes the sum of all nothing.
 * It is kept before this one is taken out, or when the kernel finds that it failed: as threads leave, principals cease
 * to be active. What they are charged from then on is told as well. The new one charges a lead at each level, as if
 * that much had been used; one that is behind is given it back.
 *
 * Of a node all of whose members sleep what it owes at its own level is told, and nothing of those below: once, whoever
 * used it. It is charged at that level alone, since what is above has its own lead.
 *
 * None of this is looked at, or kept up to date, while decisions are made.
 */
#ifndef TIX_HANDOVER_BPF_H
#define TIX_HANDOVER_BPF_H

#include "core/lead.h"

#define LEAD_MAX ((s64)1 << 32)	/* ns: so that it can be weighed */

static STATE u32 keep_round;		/* which is the last; 0: nothing has been kept */

static __always_inline s64 bounded(s64 lead)
{
	if (lead > LEAD_MAX)
		return LEAD_MAX;
	return lead < -LEAD_MAX ? -LEAD_MAX : lead;
}

/* The debt of node `i`, none of whose members is busy, to those at its level, ns. */
static __always_inline s64 owed_by(u32 i, u64 now)
{
	struct tix_account *a = &ACCOUNTS[i];
	s64 ns = 0;

	if (!a->above)
		ns = unweighed(account_lag(a, clock_of(CPU(0), now), now), a->inverse_all);
	else if (a->above < TIX_NODES_MAX && ACCOUNTS[a->above].nr_busy)
		ns = ahead_ns(a->served, ACCOUNTS[a->above].mean, a->amount);
	return ns > 0 ? bounded(ns) : 0;
}

/* Keep what there is to be told of node `i`. */
__noinline int tix_keep_one(u32 i)
{
	struct tix_account *own;
	struct tix_kept *kept;
	struct tix_node *n;
	u64 now = scx_bpf_now(), at;

	USES_ARENA();
	BEGIN_LOOPS();
	if (i >= TIX_NODES_MAX)
		return 0;
	n = &NODES[i];
	own = &ACCOUNTS[i];
	kept = &n->kept;
	if (!(n->flags & TIX_NODE_CGROUP))
		return 0;
	at = tix_position(i);
	kept->round = keep_round;
	kept->cgid = n->cgid;
	kept->quota = n->quota;
	kept->used_ns = own->used_ns;
	kept->lead_ns = 0;
	kept->share = 0;
	if (n->self_active && own->nr_runnable) {
		kept->share = fund_share(GRAPH, fund_self_value(GRAPH, FUNDS, i)) ?: 1;
		kept->lead_ns = bounded(unweighed(at - clock_of(CPU(0), now), own->inverse));
	} else if (!own->nr_busy && own->inverse_all) {
		kept->lead_ns = owed_by(i, now);
	}
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

__noinline int tix_tell_leads(struct tix_leads_args *args)
{
	u32 nr, i;

	USES_ARENA();
	BEGIN_LOOPS();
	if (!args)
		return 0;
	i = args->first;
	args->next = 0;
	args->kept = keep_round;
	bpf_for(nr, 0, TIX_LEADS_BATCH) {
		while (i < nodes_hi && NODES[i].kept.round != keep_round && can_loop)
			i++;
		args->nr = nr;
		if (!keep_round || i >= nodes_hi)
			return 0;
		tell_lead(&args->lead[nr], i);
		i++;
	}
	args->nr = TIX_LEADS_BATCH;
	args->next = i;
	return 0;
}

/* Also once it has been taken out. */
SEC("syscall")
int tix_leads(struct tix_leads_args *args)
{
	return tix_tell_leads(args);
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

/* A member with that many tickets of `up` has used `ns` more, or less. */
static __always_inline void shift_member(struct tix_account *up, u64 *served, u64 tickets, bool is_counted, s64 ns)
{
	account_add(served, fund_like(ns, served_by(fund_size(ns), tickets)));
	if (is_counted)
		account_add(&up->mean, fund_like(ns, served_by(fund_size(ns), up->tickets)));
}

/* Charge the threads of node `i` with `ns` more, or less; `alone`: at its own level, and no other. */
static __noinline void shift_locked(u32 i, s64 ns, bool alone)
{
	struct tix_account *a = &ACCOUNTS[i];

	if (!alone)
		shift_member(a, &a->own_served, FUND_SELF, a->own_is_counted, ns);
	while (a->above && a->above < TIX_NODES_MAX && can_loop) {
		shift_member(&ACCOUNTS[a->above], &a->served, a->amount, a->is_counted, ns);
		if (alone)
			return;
		a = &ACCOUNTS[a->above];
	}
	/* One that has not run in this build is worth what it holds of base, as far as can be told. */
	if (!a->inverse_all) {
		a->inverse_all = account_inverse(fund_of_base(GRAPH, a->amount));
		a->vtime = clock_of(CPU(0), now_ns);
		a->slept_ns = now_ns;
	}
	account_add(&a->vtime, in_vtime(ns, a->inverse_all));
}

SEC("syscall")
int tix_take(struct tix_take_args *args)
{
	u64 now = scx_bpf_now();
	struct tix_lead lead;
	u32 i = args->node;

	USES_ARENA();
	copy_words(&lead, &args->lead, sizeof(lead));
	args->err = -ENOENT;
	if (i >= nodes_hi || i >= TIX_NODES_MAX || !(NODES[i].flags & TIX_NODE_CGROUP) ||
	    NODES[i].cgid != lead.cgid)
		return 0;
	args->err = -EAGAIN;	/* it does not count among its siblings before it is active */
	if (ACCOUNTS[i].nr_runnable && !NODES[i].self_active)
		return 0;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	shift_locked(i, bounded(lead.lead), !lead.share);
	/* Threads that wait are placed anew. */
	__sync_fetch_and_add(&GRAPH->epoch, 1);
	go_on_locked(i, &lead);
	bpf_spin_unlock(&tix_lock);
	if (limit_due)
		tix_arm_limits();
	args->err = 0;
	return 0;
}

#endif
