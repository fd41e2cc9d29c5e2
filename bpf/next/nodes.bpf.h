/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Nodes and threads come and go.
 *
 * An index that was used once keeps its memory and is handed out again, so a CPU that
 * picked it a moment ago never meets one that is gone. A node lives while
 * its cgroup exists, the daemon named it, a thread belongs to it (a removed cgroup is
 * schedulable until its last thread is gone), another node holds a ticket of it, or it is the
 * limit that caps another.
 */
#ifndef TIX_NODES_BPF_H
#define TIX_NODES_BPF_H

/* cgroup id -> index; TIX_SHARED is set where a cgroup shares its parent's principal. */
#define TIX_SHARED 0x80000000u
#define DEFAULT_WEIGHT 100u
#define WEIGHT_MAX 10000u	/* of cpu.weight */
#define IDLE_WEIGHT 1u	/* with cpu.idle */
/*
 * Cgroups that lie deeper, which tixd does not follow either (daemon/cgroupfs/src/follow.rs), share
 * the principal of the one above them that does not: each wake-up walks what is above a principal,
 * under the lock, and at most FUND_EDGES_MAX deep.
 */
#define LEVELS_MAX 64

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 524288);	/* 16 bytes each, whether there or not */
	__type(key, u64);
	__type(value, u32);
} cgroups SEC(".maps");

static STATE u32 nodes_hi, threads_hi = 1;	/* indexes from here on were never used */
static STATE u32 dead_nodes = VTRR_NONE, free_nodes = VTRR_NONE, free_threads;

/* Make sure that [start, end) of the arena has pages. May sleep. */
static void provide(u64 start, u64 end)
{
	u64 page;

	for (page = start & ~(PAGE - 1); page < end && can_loop; page += PAGE)
		if (bpf_arena_alloc_pages(&arena, (void __arena *)(ARENA_BASE + page), 1, NUMA_NO_NODE, 0))
			__sync_fetch_and_add(&stats.pages, 1);
}

#define PROVIDE(off, type, i) \
	provide((off) + sizeof(type) * (u64)(i), (off) + sizeof(type) * ((u64)(i) + 1))

static u32 take_fresh(u32 *hi, u32 end)
{
	u32 i = VTRR_NONE;

	bpf_spin_lock(&tix_lock);
	if (*hi < end)
		i = (*hi)++;
	bpf_spin_unlock(&tix_lock);
	return i;
}

/* If nothing needs `idx` any longer put it on the list of the dead, for reap(). */
static __noinline void release_locked(u32 idx)
{
	struct tix_node *n = &NODES[idx];

	if (!idx || n->flags || n->nr_tasks || n->nr_holders || n->next_free || n->spent_at || n->self_active)
		return;
	n->next_free = dead_nodes;
	dead_nodes = idx;
}

/* No limit caps `idx` any longer. */
static __noinline void drop_cap_locked(u32 idx)
{
	u32 cap = NODES[idx].cap;

	if (!cap || cap >= TIX_NODES_MAX)
		return;
	NODES[idx].cap = 0;
	NODES[cap].nr_holders--;
	release_locked(cap);
}

/*
 * Free one dead node; its issuers may die of that. It keeps its queues for whoever gets
 * the index next. Called wherever nodes die or are made, so the list stays short.
 */
static __noinline void reap(void)
{
	u32 idx, i, up;

	if (dead_nodes == VTRR_NONE)
		return;
	bpf_spin_lock(&tix_lock);
	idx = dead_nodes;
	if (idx < TIX_NODES_MAX) {
		dead_nodes = NODES[idx].next_free;
		leave_above_locked(idx);
		fund_detach(GRAPH, FUNDS, idx);
		for (i = tix_forget(0); i < FUNDS[idx].nr_edges && i < FUND_FUNDERS && can_loop; i++) {
			up = FUNDS[idx].edge[i].issuer;
			NODES[up].nr_holders--;
			release_locked(up);
		}
		FUNDS[idx].nr_edges = 0;
		FUNDS[idx].hard = 0;
		FUNDS[idx].delta = 0;
		FUNDS[idx].seen = 0;
		FUNDS[idx].value = 0;
		FUNDS[idx].ver++;
		drop_cap_locked(idx);
		if (NODES[idx].quota) {
			NODES[idx].quota = 0;
			nr_limits--;
			limits_epoch++;
		}
		NODES[idx].nr_periods = NODES[idx].nr_throttled = NODES[idx].throttled_ns = 0;
		NODES[idx].held_by = NODES[idx].limit_seen = 0;
		ACCOUNTS[idx].used_ns = 0;
		join_above_locked(idx);
		NODES[idx].cgid = 0;
		NODES[idx].next_free = free_nodes;
		free_nodes = idx;
		stats.nodes--;
	}
	bpf_spin_unlock(&tix_lock);
}

/* An unused node, flagged `flags`, or VTRR_NONE when there is no room. May sleep. */
static u32 node_alloc(u32 flags)
{
	u32 i;

	reap();
	bpf_spin_lock(&tix_lock);
	i = free_nodes;
	if (i < TIX_NODES_MAX) {
		free_nodes = NODES[i].next_free;
		NODES[i].next_free = 0;
		NODES[i].flags = flags;
		ACCOUNTS[i].epoch = 0;
		stats.nodes++;
	}
	bpf_spin_unlock(&tix_lock);
	if (i < TIX_NODES_MAX)
		return i;

	i = take_fresh(&nodes_hi, TIX_NODES_MAX);
	if (i == VTRR_NONE)
		return i;
	PROVIDE(FUNDS_OFF, struct fund_node, i);
	PROVIDE(NODES_OFF, struct tix_node, i);
	PROVIDE(ACCOUNTS_OFF, struct tix_account, i);
	/* A page that could not be had swallows what is written to it. */
	FUNDS[i].seen = NODES[i].weight = ACCOUNTS[i].inverse = 1;
	if (FUNDS[i].seen != 1 || NODES[i].weight != 1 || ACCOUNTS[i].inverse != 1)
		return VTRR_NONE;
	FUNDS[i].seen = 0;
	NODES[i].flags = flags;
	__sync_fetch_and_add(&stats.nodes, 1);
	return i;
}

/* Replace the tickets that back `idx`. The caller checked the issuers. */
static __noinline void fund_locked(u32 idx, const struct tix_funding_args *new)
{
	struct fund_node *f = &FUNDS[idx];
	u32 i;

	leave_above_locked(idx);
	fund_detach(GRAPH, FUNDS, idx);
	for (i = tix_forget(0); i < f->nr_edges && i < FUND_FUNDERS && can_loop; i++) {
		NODES[f->edge[i].issuer].nr_holders--;
		release_locked(f->edge[i].issuer);
	}
	copy_words(f->edge, new->edge, sizeof(f->edge));
	copy_words(f->part, new->part, sizeof(f->part));
	f->nr_edges = new->nr;
	for (i = tix_forget(0); i < f->nr_edges && i < FUND_FUNDERS && can_loop; i++)
		NODES[f->edge[i].issuer].nr_holders++;
	f->hard = new->hard;
	f->delta = new->delta << FUND_DELTA_LOG;
	fund_attach(GRAPH, FUNDS, idx);
	join_above_locked(idx);
}

/* Index of the node whose principal the threads of `cgrp` belong to. */
static u32 node_of(struct cgroup *cgrp)
{
	u64 cgid = cgrp->kn->id;
	u32 *i = bpf_map_lookup_elem(&cgroups, &cgid);

	return i ? *i & ~TIX_SHARED : 0;
}

/* The same, or 0 if that is its parent's, for want of room. */
static u32 own_node(struct cgroup *cgrp)
{
	u64 cgid = cgrp->kn->id;
	u32 *i = bpf_map_lookup_elem(&cgroups, &cgid);

	return i && !(*i & TIX_SHARED) ? *i : 0;
}

static u32 parent_of(struct cgroup *cgrp)
{
	struct cgroup *up;
	u32 i = 0;

	if (!cgrp->level)
		return 0;
	up = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (up) {
		i = node_of(up);
		bpf_cgroup_release(up);
	}
	return i;
}

/*
 * cpu.weight of `cgrp`, which is shown to us for the first time, or IDLE_WEIGHT, as the kernel's
 * files say. `told` is what sched_ext says: not what cpu.idle is, only when that changes (6.19), nor
 * that it set the weight back to the default.
 */
static u32 weight_at_init(struct cgroup *cgrp, u32 told)
{
	u64 css = bpf_core_field_offset(struct cgroup, subsys), weight;
	struct task_group *tg = NULL;

	css += bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) * sizeof(tg);
	bpf_probe_read_kernel(&tg, sizeof(tg), (void *)cgrp + css);
	if (!tg)
		return told;
	tg = (void *)tg - bpf_core_field_offset(struct task_group, css);
	if (bpf_core_field_exists(tg->idle) && BPF_CORE_READ(tg, idle))
		return bpf_core_field_exists(((struct sched_ext_ops *)0)->cgroup_set_idle) ? IDLE_WEIGHT : told;
	if (!bpf_core_field_exists(tg->shares))
		return told;
	/* As cpu.weight is read: 1,024 of the kernel's units, in Q10, are the default. */
	weight = ((BPF_CORE_READ(tg, shares) >> 10) * DEFAULT_WEIGHT + 512) >> 10;
	if (weight > WEIGHT_MAX)
		return WEIGHT_MAX;
	return weight ?: 1;
}

static void node_mirror(struct cgroup *cgrp, u32 weight)
{
	u64 cgid = cgrp->kn->id;
	u32 parent, i, value;

	if (!cgrp->level) {
		i = 0;		/* base is there already */
		NODES[0].cgid = cgid;
		bpf_map_update_elem(&cgroups, &cgid, &i, BPF_ANY);
		return;
	}
	parent = parent_of(cgrp);
	i = cgrp->level > LEVELS_MAX ? VTRR_NONE : node_alloc(TIX_NODE_CGROUP | TIX_NODE_BY_PARENT);
	if (i == VTRR_NONE) {
		value = parent | TIX_SHARED;
		bpf_map_update_elem(&cgroups, &cgid, &value, BPF_ANY);
		__sync_fetch_and_add(&stats.shared, 1);
		return;
	}
	weight = weight ?: DEFAULT_WEIGHT;
	bpf_spin_lock(&tix_lock);
	NODES[i].cgid = cgid;
	NODES[i].parent = parent;
	NODES[i].weight = weight;
	NODES[parent].nr_holders++;
	FUNDS[i].edge[0].issuer = parent;
	FUNDS[i].edge[0].amount = weight;
	FUNDS[i].part[0] = 0xffff;
	FUNDS[i].nr_edges = 1;
	fund_attach(GRAPH, FUNDS, i);
	join_above_locked(i);
	bpf_spin_unlock(&tix_lock);
	bpf_map_update_elem(&cgroups, &cgid, &i, BPF_ANY);
}

static void node_unmirror(struct cgroup *cgrp)
{
	u64 cgid = cgrp->kn->id;
	u32 *value = bpf_map_lookup_elem(&cgroups, &cgid), i;

	if (!value)
		return;
	i = *value;
	bpf_map_delete_elem(&cgroups, &cgid);
	if (i & TIX_SHARED) {
		__sync_fetch_and_add(&stats.shared, -1);
		return;
	}
	if (!i || i >= TIX_NODES_MAX)
		return;
	bpf_spin_lock(&tix_lock);
	NODES[i].flags = 0;
	release_locked(i);
	bpf_spin_unlock(&tix_lock);
	reap();
}

static void node_weight(u32 i, u32 weight)
{
	if (!i || i >= TIX_NODES_MAX)
		return;
	bpf_spin_lock(&tix_lock);
	NODES[i].weight = weight;
	if (NODES[i].flags & TIX_NODE_BY_PARENT) {
		leave_above_locked(i);
		fund_detach(GRAPH, FUNDS, i);
		FUNDS[i].edge[0].amount = weight;
		fund_attach(GRAPH, FUNDS, i);
		join_above_locked(i);
	}
	bpf_spin_unlock(&tix_lock);
}

static void task_join(u32 node)
{
	bpf_spin_lock(&tix_lock);
	NODES[node].nr_tasks++;
	bpf_spin_unlock(&tix_lock);
}

static void task_leave(u32 node)
{
	bpf_spin_lock(&tix_lock);
	NODES[node].nr_tasks--;
	release_locked(node);
	bpf_spin_unlock(&tix_lock);
	reap();
}

/* An unused thread's index, or 0. May sleep. */
static u32 thread_alloc(void)
{
	u32 i;

	bpf_spin_lock(&tix_lock);
	i = free_threads;
	if (i && i < TIX_THREADS_MAX)
		free_threads = THREADS[i].next_free;
	bpf_spin_unlock(&tix_lock);
	if (i)
		return i;
	i = take_fresh(&threads_hi, TIX_THREADS_MAX);
	if (i == VTRR_NONE)
		return 0;
	PROVIDE(THREADS_OFF, struct tix_thread, i);
	PROVIDE(CLIENTS_OFF, struct vtrr_client, i);
	PROVIDE(WAITS_OFF, struct tix_wait, i);
	THREADS[i].pid = CLIENTS[i].next = WAITS[i].kind = 1;
	return THREADS[i].pid == 1 && CLIENTS[i].next == 1 && WAITS[i].kind == 1 ? i : 0;
}

static void thread_free(u32 i)
{
	bpf_spin_lock(&tix_lock);
	THREADS[i].next_free = free_threads;
	free_threads = i;
	bpf_spin_unlock(&tix_lock);
}

static s32 nodes_init(void)
{
	u64 had = stats.pages, i;

	/* What is there when it is put in force again (bpf/src/swap.rs) is of the first time. */
	bpf_arena_free_pages(&arena, (void __arena *)ARENA_BASE, ARENA_PAGES);
	provide(GRAPH_OFF, ARENA_END);
	for (i = 0; i < nr_cpu_ids && can_loop; i++)
		provide(CPUS_OFF + CPU_SIZE * i, CPUS_OFF + CPU_SIZE * (i + 1));
	/* A page that could not be had swallows what is written to it. */
	if ((stats.pages - had) * PAGE < ARENA_END - GRAPH_OFF + CPU_SIZE * nr_cpu_ids || node_alloc(TIX_NODE_CGROUP)) {
		scx_bpf_error("there is not enough memory for the tables of %u CPUs: free some and load it again", nr_cpu_ids);
		return -ENOMEM;
	}
	fund_init(GRAPH, FUNDS);
	return 0;
}

#endif
