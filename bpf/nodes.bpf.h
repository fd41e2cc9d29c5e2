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
 * the principal of the one above them that does not: each charge walks what is above a principal, and
 * the funding graph at most FUND_EDGES_MAX deep.
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
static STATE u32 free_nodes, free_threads, first_changed, last_changed;	/* 0: none */

/* Make sure that [start, end) of the arena has pages. May sleep. */
__noinline int tix_provide(u64 start, u64 end)
{
	u64 page;

	BEGIN_LOOPS();
	for (page = start & ~(PAGE - 1); page < end && can_loop; page += PAGE)
		if (bpf_arena_alloc_pages(&arena, (void __arena *)(ARENA_BASE + page), 1, NUMA_NO_NODE, 0))
			__sync_fetch_and_add(&stats.pages, 1);
	return 0;
}

#define PROVIDE(off, type, i) \
	tix_provide((off) + sizeof(type) * (u64)(i), (off) + sizeof(type) * ((u64)(i) + 1))

static u32 take_fresh(u32 *hi, u32 end)
{
	u32 i = VTRR_NONE;

	bpf_spin_lock(&tix_lock);
	if (*hi < end)
		i = (*hi)++;
	bpf_spin_unlock(&tix_lock);
	return i;
}

/*
 * Node `idx` is to be backed by other tickets, or nothing needs it any longer. It is noted: the graph is changed by decisions
 * alone, the next one first of all.
 */
static __always_inline void note_change_locked(u32 idx)
{
	if (NODES[idx].is_changed)
		return;
	NODES[idx].is_changed = 1;
	NODES[idx].next_free = 0;
	if (first_changed)
		NODES[last_changed].next_free = idx;
	else
		first_changed = idx;
	last_changed = idx;
}

static __always_inline bool is_needed(const struct tix_node *n)
{
	return n->flags || n->nr_tasks || n->nr_holders || n->spent_at || n->self_active;
}

/* If nothing needs `idx` any longer have it freed. */
static __always_inline void release_locked(u32 idx)
{
	if (idx && !is_needed(&NODES[idx]))
		note_change_locked(idx);
}

static __always_inline void release(u32 idx)
{
	bpf_spin_lock(&tix_lock);
	release_locked(idx);
	bpf_spin_unlock(&tix_lock);
}

/* Node `idx` backs one more, or one less. */
static __always_inline void hold_node_locked(u32 idx, u32 more)
{
	NODES[idx].nr_holders += more;
	release_locked(idx);
}

/* The issuers of `edge` back one more each, or one less. */
__noinline int tix_hold_issuers(const struct fund_edge *edge __arg_arena, u32 nr, u32 more)
{
	u32 i;

	USES_ARENA();
	FUND_HERE(edge);
	bpf_for(i, 0, FUND_FUNDERS) {
		if (i >= nr)
			break;
		bpf_spin_lock(&tix_lock);
		hold_node_locked(edge[i].issuer, more);
		bpf_spin_unlock(&tix_lock);
	}
	return 0;
}

/* No limit caps `idx` any longer. */
static __noinline void drop_cap_locked(u32 idx)
{
	u32 cap = NODES[idx].cap;

	if (!cap || cap >= TIX_NODES_MAX)
		return;
	NODES[idx].cap = 0;
	hold_node_locked(cap, -1);
}

/* Node `idx`, which nothing needs, is free from now on. */
static __always_inline void free_node(u32 idx)
{
	struct tix_node *n = &NODES[idx];

	bpf_spin_lock(&tix_lock);
	drop_cap_locked(idx);
	if (n->quota) {
		n->quota = 0;
		nr_limits--;
		limits_epoch++;
	}
	n->nr_periods = n->nr_throttled = n->throttled_ns = 0;
	n->held_by = n->limit_seen = 0;
	n->cgid = 0;
	FUNDS[idx].seen = FUNDS[idx].value = 0;
	FUNDS[idx].ver++;
	n->next_free = free_nodes;
	free_nodes = idx;
	stats.nodes--;
	bpf_spin_unlock(&tix_lock);
}

/* Have node `idx` backed by the tickets that are to back it; one that nothing needs by none. Under the graph's lock. */
static __always_inline void fund_node(u32 idx)
{
	struct fund_node *f = &FUNDS[idx];
	struct tix_wanted *new = &WANTED[idx];
	u64 place = place_of(idx);
	u32 funder = f->nr_edges ? f->edge[0].issuer : 0;
	bool is_dead;

	bpf_spin_lock(&tix_lock);
	is_dead = !is_needed(&NODES[idx]);
	bpf_spin_unlock(&tix_lock);
	leave_above(idx);
	fund_detach(GRAPH, FUNDS, idx);
	if (is_dead) {
		tix_hold_issuers(new->edge, new->nr, -1);
		new->nr = new->hard = new->delta = 0;
	}
	tix_hold_issuers(f->edge, f->nr_edges, -1);
	bpf_spin_lock(&tix_lock);
	copy_words(f->edge, new->edge, sizeof(f->edge));
	copy_words(f->part, new->part, sizeof(f->part));
	f->nr_edges = new->nr;
	f->hard = new->hard;
	f->delta = new->delta;
	bpf_spin_unlock(&tix_lock);
	tix_hold_issuers(f->edge, f->nr_edges, 1);
	fund_attach(GRAPH, FUNDS, idx);
	tix_join(idx, place, funder, is_dead);
	if (is_dead)
		free_node(idx);
}

#define CHANGES_MOST 4u	/* in one decision */

/* See to nodes that have been noted. In a decision. */
__noinline int tix_change_nodes(void)
{
	u32 i, idx;

	USES_ARENA();
	BEGIN_LOOPS();
	if (!lock_graph())
		return 0;
	fund_settle(GRAPH, FUNDS);
	bpf_for(i, 0, CHANGES_MOST) {
		bpf_spin_lock(&tix_lock);
		idx = first_changed;
		if (idx && idx < TIX_NODES_MAX) {
			first_changed = NODES[idx].next_free;
			NODES[idx].is_changed = NODES[idx].next_free = 0;
		}
		bpf_spin_unlock(&tix_lock);
		if (!idx || idx >= TIX_NODES_MAX)
			break;
		fund_node(idx);
	}
	unlock_graph();
	return 0;
}

/* An unused node, flagged `flags`, or VTRR_NONE when there is no room. May sleep. */
static u32 node_alloc(u32 flags)
{
	u32 i;

	bpf_spin_lock(&tix_lock);
	i = free_nodes;
	if (i && i < TIX_NODES_MAX) {
		free_nodes = NODES[i].next_free;
		NODES[i].next_free = 0;
		NODES[i].flags = flags;
		ACCOUNTS[i].epoch = ACCOUNTS[i].used_ns = 0;
		stats.nodes++;
	}
	bpf_spin_unlock(&tix_lock);
	if (i && i < TIX_NODES_MAX)
		return i;

	i = take_fresh(&nodes_hi, TIX_NODES_MAX);
	if (i == VTRR_NONE)
		return i;
	PROVIDE(FUNDS_OFF, struct fund_node, i);
	PROVIDE(NODES_OFF, struct tix_node, i);
	PROVIDE(ACCOUNTS_OFF, struct tix_account, i);
	PROVIDE(WANTED_OFF, struct tix_wanted, i);
	/* A page that could not be had swallows what is written to it. */
	FUNDS[i].seen = NODES[i].weight = ACCOUNTS[i].inverse = WANTED[i].hard = 1;
	if (FUNDS[i].seen != 1 || NODES[i].weight != 1 || ACCOUNTS[i].inverse != 1 || WANTED[i].hard != 1)
		return VTRR_NONE;
	FUNDS[i].seen = WANTED[i].hard = 0;
	ACCOUNTS[i].inverse = INVERSE_MAX;	/* until it is known */
	NODES[i].flags = flags;
	__sync_fetch_and_add(&stats.nodes, 1);
	return i;
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
	WANTED[i].edge[0].issuer = parent;
	WANTED[i].edge[0].amount = weight;
	WANTED[i].part[0] = 0xffff;
	WANTED[i].nr = 1;
	note_change_locked(i);
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
}

static void node_weight(u32 i, u32 weight)
{
	if (!i || i >= TIX_NODES_MAX)
		return;
	bpf_spin_lock(&tix_lock);
	NODES[i].weight = weight;
	if (NODES[i].flags & TIX_NODE_BY_PARENT) {
		WANTED[i].edge[0].amount = weight;
		note_change_locked(i);
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
	tix_provide(GRAPH_OFF, ARENA_END);
	bpf_for(i, 0, nr_cpu_ids)
		tix_provide(CPUS_OFF + CPU_SIZE * i, CPUS_OFF + CPU_SIZE * (i + 1));
	/* A page that could not be had swallows what is written to it. */
	if ((stats.pages - had) * PAGE < ARENA_END - GRAPH_OFF + CPU_SIZE * nr_cpu_ids || node_alloc(TIX_NODE_CGROUP)) {
		scx_bpf_error("there is not enough memory for the tables of %u CPUs: free some and load it again", nr_cpu_ids);
		return -ENOMEM;
	}
	fund_init(GRAPH, FUNDS);
	return 0;
}

#endif
