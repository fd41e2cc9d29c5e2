/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the daemon calls, through BPF_PROG_TEST_RUN of pinned programs: one call, one
 * complete change. Everything else in the maps is the kernel side's own.
 */
#ifndef TIX_CONTROL_BPF_H
#define TIX_CONTROL_BPF_H

/* Whether node `i` is there, is one of `flags`, and is what its number was told for (intf.h). */
static __always_inline bool is_node_locked(u32 i, u64 id, u32 flags)
{
	if (!i)
		return !id;
	return i < nodes_hi && i < TIX_NODES_MAX && NODES[i].flags & flags && NODES[i].cgid == id;
}

/* `i` goes over edges. It is kept in memory: the verifier then sees one loop over any. Under tix_lock. */
static STATE volatile u32 edge_at;
#define each_edge(i, from, nr) \
	for (edge_at = (from); (i = edge_at) < (nr) && i < FUND_FUNDERS && can_loop; edge_at = i + 1)

static __always_inline s32 funding_locked(struct tix_funding_args *new)
{
	u64 left = FUND_DELTAS_MAX >> FUND_DELTA_LOG, size = fund_size(new->delta);
	u32 i, node = new->node, by_parent = new->by_parent;
	struct tix_wanted *wanted = &WANTED[node];

	if (!node || new->nr > FUND_FUNDERS || (by_parent && !new->nr))
		return -EINVAL;
	if (!is_node_locked(node, new->id, by_parent ? TIX_NODE_CGROUP : TIX_NODE_CGROUP | TIX_NODE_NAMED))
		return -ENOENT;
	if (by_parent) {
		new->edge[0].issuer = NODES[node].parent;
		new->edge[0].amount = NODES[node].weight;
		new->hard &= ~1u;
	}
	each_edge(i, by_parent != 0, new->nr) {
		if (!new->edge[i].amount ||
		    !is_node_locked(new->edge[i].issuer, new->issuer_id[i], TIX_NODE_CGROUP | TIX_NODE_NAMED))
			return -ENOENT;
		if (new->hard >> i & 1 && new->edge[i].amount >= FUND_HARD)
			return -EINVAL;
	}
	if (size > left || size > left - (GRAPH->deltas >> FUND_DELTA_LOG))
		return -ERANGE;
	if (by_parent)
		NODES[node].flags |= TIX_NODE_BY_PARENT;
	else
		NODES[node].flags &= ~TIX_NODE_BY_PARENT;
	each_edge(i, 0, new->nr)
		NODES[new->edge[i].issuer].nr_holders++;
	each_edge(i, 0, wanted->nr)
		hold_node_locked(wanted->edge[i].issuer, -1);
	copy_words(wanted->edge, new->edge, sizeof(wanted->edge));
	copy_words(wanted->part, new->part, sizeof(wanted->part));
	wanted->nr = new->nr;
	wanted->hard = new->hard;
	wanted->delta = new->delta << FUND_DELTA_LOG;
	note_change_locked(node);
	return 0;
}

__noinline int tix_want(struct tix_funding_args *args)
{
	s32 err;

	USES_ARENA();
	BEGIN_LOOPS();
	if (!args)
		return 0;
	bpf_spin_lock(&tix_lock);
	err = funding_locked(args);
	bpf_spin_unlock(&tix_lock);
	args->err = err;
	return 0;
}

/* Replace the tickets that back a node; with `by_parent`, edge[0] is filled in here. */
SEC("syscall")
int tix_funding(struct tix_funding_args *args)
{
	return tix_want(args);
}

/* A currency's limit, or which of them caps a cgroup. */
SEC("syscall")
int tix_limit(struct tix_limit_args *args)
{
	u32 node = args->node, cap = args->cap, flags = 0;
	u64 id = args->id, cap_id = args->cap_id;

	USES_ARENA();
	args->err = -EINVAL;
	if (cap == node || args->period_us > 1000000)
		return 0;
	bpf_spin_lock(&tix_lock);
	if (node && is_node_locked(node, id, TIX_NODE_CGROUP | TIX_NODE_LIMIT) &&
	    is_node_locked(cap, cap_id, TIX_NODE_LIMIT)) {
		flags = NODES[node].flags;
		set_cap_locked(node, cap);
	}
	bpf_spin_unlock(&tix_lock);
	/* A limit goes when it is dropped, which whoever calls this does not do meanwhile. */
	if (flags & TIX_NODE_LIMIT)
		node_limit(node, args->period_us, args->quota_us, 0);
	args->err = flags ? 0 : -ENOENT;
	return 0;
}

/* Drop what was made. The lock is let go meanwhile: nobody but who calls this drops anything. */
static __always_inline void drop_made(struct tix_name_args *args)
{
	u32 i = args->node, flags = 0;
	u64 id = args->cid;

	bpf_spin_lock(&tix_lock);
	if (i && is_node_locked(i, id, TIX_NODE_NAMED | TIX_NODE_LIMIT))
		flags = NODES[i].flags;
	bpf_spin_unlock(&tix_lock);
	if (!flags) {
		args->err = -ENOENT;
		return;
	}
	if (flags & TIX_NODE_LIMIT)
		node_limit(i, 0, 0, 0);
	bpf_spin_lock(&tix_lock);
	NODES[i].flags &= ~(TIX_NODE_NAMED | TIX_NODE_LIMIT);
	release_locked(i);
	bpf_spin_unlock(&tix_lock);
}

SEC("syscall")
int tix_name(struct tix_name_args *args)
{
	u32 i = args->node;

	USES_ARENA();
	args->err = 0;
	if (args->create) {
		i = node_alloc(args->create & TIX_NODE_LIMIT ?: TIX_NODE_NAMED);
		args->node = i;
		if (i == VTRR_NONE)
			args->err = -ENOSPC;
		else
			NODES[i].cgid = args->cid;
		return 0;
	}
	drop_made(args);
	return 0;
}

/* What exchange tickets are counted against. */
SEC("syscall")
int tix_set_total(struct tix_total_args *args)
{
	USES_ARENA();
	GRAPH->total = args->total;
	GRAPH->moved = 1;
	args->err = 0;
	return 0;
}

/* For tests: as if a mistake in here had been found. */
SEC("syscall")
int tix_fail(void *args)
{
	scx_bpf_error("made to fail on purpose");
	return 0;
}

/* The runnable threads of node `i`, those included that wait for a limit and count as asleep. */
static __always_inline u32 runnable_in(u32 i)
{
	return ACCOUNTS[i].nr_runnable + NODES[i].nr_held;
}

static __always_inline void tell(struct tix_read_args *out, u32 i, u64 now)
{
	out->node = i;
	out->flags = NODES[i].flags;
	out->weight = NODES[i].weight;
	out->active = FUNDS[i].nr_active > 0;
	out->self_active = NODES[i].self_active;
	out->runnable = runnable_in(i);
	out->nr_edges = WANTED[i].nr;
	out->used_ns = ACCOUNTS[i].used_ns;
	out->value = fund_share(GRAPH, FUNDS[i].value);
	out->cgid = NODES[i].cgid;
	out->delta = WANTED[i].delta >> FUND_DELTA_LOG;
	out->hard = WANTED[i].hard;
	out->cap = NODES[i].cap;
	out->quota_ns = NODES[i].quota;
	out->period_ns = NODES[i].every;
	out->burst_ns = NODES[i].burst;
	out->nr_periods = NODES[i].nr_periods;
	out->nr_throttled = NODES[i].nr_throttled;
	out->throttled_ns = NODES[i].throttled_ns;
	if (NODES[i].spent_at && (s64)(now - NODES[i].spent_at) > 0)
		out->throttled_ns += now - NODES[i].spent_at;
	copy_words(out->edge, WANTED[i].edge, sizeof(out->edge));
	copy_words(out->part, WANTED[i].part, sizeof(out->part));
}

/*
 * Until the threads that wait for limit `i` may go on, at least 1 ns: until its next period begins, and for as many more
 * as it takes to make good what was used beyond the quota.
 */
static __always_inline u64 refill_in(u32 i, u64 now)
{
	s64 until = NODES[i].next_at - now, left = NODES[i].left;
	u64 quota = NODES[i].quota;

	if (left < 0 && quota)
		until += (u64)-left / quota * NODES[i].every;
	return until > 0 ? until : 1;
}

static __always_inline void tell_wait(struct tix_read_wait *out, u32 i, u64 now)
{
	out->refill_ns = NODES[i].quota && NODES[i].spent_at ? refill_in(i, now) : 0;
	out->held_by = NODES[i].held_by;
	out->pad = 0;
}

/* A function of its own, where its argument may be indexed: that of a program may be since 7.0 only. */
__noinline int tix_tell_batch(struct tix_read_batch *batch)
{
	u64 now = scx_bpf_now();
	u32 nr, i;

	USES_ARENA();
	BEGIN_LOOPS();
	if (!batch)
		return 0;
	i = batch->first;
	batch->next = 0;
	bpf_for(nr, 0, TIX_READ_BATCH) {
		while (i < nodes_hi && !NODES[i].flags && can_loop)
			i++;
		batch->nr = nr;
		if (i >= nodes_hi)
			return 0;
		tell(&batch->node[nr], i, now);
		tell_wait(&batch->wait[nr], i, now);
		i++;
	}
	batch->nr = TIX_READ_BATCH;
	batch->next = i;
	return 0;
}

SEC("syscall")
int tix_read(struct tix_read_batch *batch)
{
	return tix_tell_batch(batch);
}

#endif
