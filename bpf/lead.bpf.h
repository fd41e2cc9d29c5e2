/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who is ahead of its due, and who behind, when another build of the scheduler takes this one's place (src/leads.rs).
 *
 * A principal's lead is told in ns of CPU: that means the same to any build, whatever virtual time is counted in, and of one
 * level or several, for what a principal is due is worked out from all that are above it (due.h). It is kept before this
 * one is taken out, or when the kernel finds that it failed: as threads leave, one after the other, principals cease to be
 * active, and settle what they are ahead with those that have not left yet. What they are charged from then on,
 * and given back of slices that they did not use, is told as well.
 *
 * The new one takes a lead as if that much had been used at once: the tag moves on and V passes, or both go back. So the
 * sum stays nothing, whoever is missing, and the order in which they are told does not matter. Until it is told, which
 * is in the first moments, it has begun from nothing, and what is due in these is not lost: leads add up.
 *
 * Who slept and owed something owes it. Who slept and was owed something is owed what anybody is who wakes up
 * (update_locked), so that is not told.
 *
 * None of this is looked at, or kept up to date, while decisions are made.
 */
#ifndef TIX_LEAD_BPF_H
#define TIX_LEAD_BPF_H

static u32 keep_round;		/* which is the last; 0: nothing has been kept */

/* What the threads of principal `idx`, which is active, have had more than their due, ns. */
static __always_inline s64 present_lead(u32 idx)
{
	struct tix_queue *queue = &QUEUES[idx];
	u64 seen_v = queue->seen_v, seen_due = queue->seen_due;
	s64 lead;

	if (nr_cpu_ids > 1)
		return account_locked(idx);
	lead = lead_locked(idx, false);
	queue->seen_v = seen_v;		/* its tag is the same yet */
	queue->seen_due = seen_due;
	return lead;
}

/* What principal `idx`, which sleeps, owes; of several that owe the same the first is asked. */
static __always_inline s64 present_debt(u32 idx)
{
	u32 top;
	s64 owes;

	if (FUNDS[idx].nr_active)
		return 0;
	fund_walk(GRAPH, FUNDS, idx, false);
	top = fund_asleep(GRAPH, FUNDS, idx);
	if (top >= TIX_NODES_MAX || NODES[top].owed_round == keep_round)
		return 0;
	NODES[top].owed_round = keep_round;
	owes = bounded(fund_owes(GRAPH, FUNDS, idx));
	return owes > 0 ? owes : 0;
}

/* Keep what there is to be told of node `idx`. A global function, so that the verifier looks at it once. */
__noinline int tix_keep_one(u32 idx)
{
	struct tix_node *n;

	USES_ARENA();
	if (idx >= TIX_NODES_MAX)
		return 0;
	n = &NODES[idx];
	if (!(n->flags & TIX_NODE_CGROUP))
		return 0;
	bpf_spin_lock(&tix_lock);
	n->kept_round = keep_round;
	n->kept_cgid = n->cgid;
	n->kept_quota = n->quota;
	n->kept_had = n->had_ns;
	n->kept_lead = 0;
	n->kept_share = 0;
	GRAPH->now = now_v;
	if (n->self_active) {
		fund_refresh(GRAPH, FUNDS, idx);
		n->kept_share = fund_share(GRAPH, fund_self_value(GRAPH, FUNDS, idx)) ?: 1;
		n->kept_lead = present_lead(idx);
	} else if (n->used_ns) {
		n->kept_lead = present_debt(idx);
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
	out->cgid = NODES[i].kept_cgid;
	out->lead = NODES[i].kept_lead;
	out->more = NODES[i].had_ns - NODES[i].kept_had;
	out->share = NODES[i].kept_share;
	out->quota = NODES[i].kept_quota;
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
		while (i < nodes_hi && NODES[i].kept_round != keep_round && can_loop)
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

/* Queue `q` is `ns` further ahead, and is filed there. */
static __noinline void shift_locked(u32 q, s64 ns)
{
	if (q >= TIX_QUEUES_MAX)
		return;
	had_locked(q, ns);
	if (!CLIENTS[q].linked)
		return;
	vtrr_unlink(VT(QUEUES[q].vt), CLIENTS, q);
	link_locked(q, QUEUES[q].nr, false, true);
}

/* Whether threads wait in queue `q`, or one of it runs. */
static __always_inline bool in_use_locked(u32 q)
{
	return QUEUES[q].nr || runs_locked(&QUEUES[q], q);
}

/* The threads of principal `idx` have had `ns` more than they are charged for here: each queue that is in use its part. */
static __noinline void ahead_locked(u32 idx, s64 ns)
{
	struct tix_node *n = &NODES[idx];
	u32 q, load, all = tix_forget(0);
	u64 part;

	now_v += weighed(ns, GRAPH->rate);
	if (nr_cpu_ids == 1) {
		shift_locked(idx, ns);
		return;
	}
	for (q = n->homes; q < TIX_QUEUES_MAX && can_loop; q = QUEUES[q].next)
		if (in_use_locked(q))
			all += QUEUES[q].seen_load + 1;
	for (q = n->homes; q < TIX_QUEUES_MAX && all && can_loop; q = QUEUES[q].next) {
		if (!in_use_locked(q))
			continue;
		load = QUEUES[q].seen_load + 1;
		if (load > all)
			load = all;
		/* A part of what is left by the parts that are left: the last one leaves nothing. */
		part = fund_size(ns) / all * load + fund_size(ns) % all * load / all;
		shift_locked(q, fund_like(ns, part));
		all -= load;
		ns -= (s64)fund_like(ns, part);
	}
	if (ns)
		shift_locked(n->homes < TIX_QUEUES_MAX ? n->homes : idx, ns);
}

/* Principal `idx`, which sleeps, owes `ns` more; or is owed that. */
static __noinline void owing_locked(u32 idx, s64 ns)
{
	s64 owes;
	u32 top;

	fund_walk(GRAPH, FUNDS, idx, false);
	top = fund_asleep(GRAPH, FUNDS, idx);
	if (top >= TIX_NODES_MAX)
		return;
	owes = fund_owes(GRAPH, FUNDS, idx);
	FUNDS[top].lead = bounded(owes + ns);
	FUNDS[top].due_then = FUNDS[top].due;
}

/* Its cpu.max goes on where it was. */
static __always_inline void go_on_locked(u32 idx, const struct tix_lead *lead)
{
	struct tix_node *n = &NODES[idx];
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
		look_at_limit(idx);
}

SEC("syscall")
int tix_take(struct tix_take_args *args)
{
	u64 now = scx_bpf_now();
	struct tix_lead lead;
	u32 idx = args->node;
	s64 ns;

	USES_ARENA();
	copy_words(&lead, &args->lead, sizeof(lead));
	args->err = -ENOENT;
	if (idx >= nodes_hi || idx >= TIX_NODES_MAX || !(NODES[idx].flags & TIX_NODE_CGROUP) ||
	    NODES[idx].cgid != lead.cgid)
		return 0;
	ns = bounded(lead.lead);
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	units_locked();
	GRAPH->now = now_v;
	if (NODES[idx].self_active)
		ahead_locked(idx, ns);
	else if (!FUNDS[idx].nr_active)
		owing_locked(idx, ns);
	go_on_locked(idx, &lead);
	bpf_spin_unlock(&tix_lock);
	if (limit_due)
		tix_arm_limits();
	args->err = 0;
	return 0;
}

#endif
