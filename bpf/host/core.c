/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The C core's arch.h, vtrr.h, funding.h with exchange.h, and lead.h as ordinary functions, for
 * programs on the host. Nothing is decided here: each function hands its arguments on.
 */
#include <stdlib.h>
#include <string.h>

#include "../core/funding.h"
#include "../core/lead.h"
#include "../core/vtrr.h"

u32 core_ctz64(u64 x) { return tix_ctz64(x); }
u32 core_fls64(u64 x) { return tix_fls64(x); }
u64 core_mul_q62(u64 a, u64 b) { return tix_mul_q62(a, b); }
u64 core_mul_q32(u64 ns, u64 inv) { return tix_mul_q32(ns, inv); }
u64 core_quotient(u64 a, u64 b) { return fund_quotient(a, b); }
u64 core_ratio(u64 amount, u64 sum) { return fund_ratio(amount, sum); }
u64 core_normal(u64 x, s32 *e) { return fund_normal(x, e); }
u64 core_pool(u64 pool, u64 rest, s64 x) { return fund_pool(pool, rest, x); }

u32 core_vtrr_shift(u32 group) { return vtrr_shift(group); }
u32 core_vtrr_group_of(u64 period) { return vtrr_group_of(period); }
u64 core_vtrr_period(u32 group) { return vtrr_period(group); }

#define CORE_LINE ((size_t)64)

struct core_queue {
	struct vtrr v;
	struct vtrr_client clients[] __attribute__((aligned(CORE_LINE)));
};

size_t core_queue_size(u32 clients)
{
	size_t size = sizeof(struct core_queue) + clients * sizeof(struct vtrr_client);

	return (size + CORE_LINE - 1) & ~(CORE_LINE - 1);
}

/* Like the arena's pages: both begin a cache line, and are zero, whatever was there before. */
struct core_queue *core_queue_new(u32 clients)
{
	size_t size = core_queue_size(clients);
	struct core_queue *q = aligned_alloc(CORE_LINE, size);

	return q ? memset(q, 0, size) : NULL;
}

void core_queue_free(struct core_queue *q) { free(q); }

void core_queue_link(struct core_queue *q, u32 c, u64 tag, u32 group, u64 since, bool is_oldest)
{
	vtrr_link(&q->v, q->clients, c, tag, group, since, is_oldest);
}

void core_queue_unlink(struct core_queue *q, u32 c) { vtrr_unlink(&q->v, q->clients, c); }

u32 core_queue_peek(struct core_queue *q, u64 now, struct vtrr_choice *choice)
{
	u32 c = vtrr_peek(&q->v, now);

	*choice = q->v.choice;
	return c;
}

/* File it anew, as queue_refile() does. */
void core_queue_refile(struct core_queue *q, u32 c, u64 tag, u32 group)
{
	vtrr_take(&q->v, q->clients, c);
	vtrr_put(&q->v, q->clients, c, tag, group);
}

u32 core_queue_overdue(const struct core_queue *q, u64 now, u64 limit)
{
	return vtrr_overdue(&q->v, q->clients, now, limit);
}

/* What of a client vtrr.h leaves to its caller. */
struct core_period {
	u64 period;
	u32 group;
};

/* Virtual time, and the decisions so far as the time by which clients are filed. */
struct core_clock {
	u64 now, decisions;
};

/*
 * Again and again: take the next client, let it and nobody else run for `quantum`, file it
 * again. Returns the last one, or VTRR_NONE if there is none.
 */
u32 core_queue_run(struct core_queue *q, const struct core_period *of, struct core_clock *clock,
		   u64 quantum, u64 decisions)
{
	u32 c = VTRR_NONE;

	while (decisions--) {
		c = vtrr_peek(&q->v, clock->now);
		if (c == VTRR_NONE)
			break;
		if (!q->v.choice.eligible)
			clock->now = q->v.choice.head;
		vtrr_unlink(&q->v, q->clients, c);
		clock->now += quantum;
		vtrr_link(&q->v, q->clients, c, q->clients[c].tag + of[c].period, of[c].group,
			  ++clock->decisions, false);
	}
	return c;
}

bool core_before(const struct vtrr_choice *a, const struct vtrr_choice *b)
{
	return vtrr_before(a, b);
}

u32 core_queue_nr(const struct core_queue *q) { return q->v.nr; }
u64 core_queue_map(const struct core_queue *q) { return q->v.map; }
u64 core_group_map(const struct core_queue *q, u32 group) { return q->v.g[group].map; }
u64 core_group_lo(const struct core_queue *q, u32 group) { return vtrr_lo(&q->v, group); }
u32 core_slot_head(const struct core_queue *q, u32 group, u32 s) { return q->v.g[group].head[s]; }
u32 core_slot_tail(const struct core_queue *q, u32 group, u32 s) { return q->v.g[group].tail[s]; }
struct vtrr_client core_client(const struct core_queue *q, u32 c) { return q->clients[c]; }

struct core_fund {
	struct fund_graph graph;
	struct fund_node nodes[];
};

/* The graph with nothing but base in it. */
struct core_fund *core_fund_new(u32 nodes)
{
	struct core_fund *f = calloc(1, sizeof(struct core_fund) + nodes * sizeof(struct fund_node));

	if (f)
		fund_init(&f->graph, f->nodes);
	return f;
}

void core_fund_free(struct core_fund *f) { free(f); }

void core_fund_self(struct core_fund *f, u32 n, bool active)
{
	fund_self(&f->graph, f->nodes, n, active);
}

/* Detach, write the edges, attach: as fund_locked() does. */
void core_fund_back(struct core_fund *f, u32 n, const struct fund_edge *edges, const u16 *parts,
		    u32 nr, u32 hard, s64 delta)
{
	fund_detach(&f->graph, f->nodes, n);
	for (u32 i = 0; i < nr; i++) {
		f->nodes[n].edge[i] = edges[i];
		f->nodes[n].part[i] = parts[i];
	}
	f->nodes[n].nr_edges = nr;
	f->nodes[n].hard = hard;
	f->nodes[n].delta = (u64)delta << FUND_DELTA_LOG;
	fund_attach(&f->graph, f->nodes, n);
}

/* As tix_set_total() does. */
void core_fund_total(struct core_fund *f, u64 total)
{
	f->graph.total = total;
	fund_rate(&f->graph, f->nodes);
}

struct core_state {
	u64 issued, hard_issued, hard_active, nr_active, deltas;
	s64 rest, soft_rest, gave;
};

/* What of a node follows from who is funded by whom and who is active, and from nothing else. */
struct core_state core_fund_state(const struct core_fund *f, u32 n)
{
	const struct fund_node *node = &f->nodes[n];

	return (struct core_state){
		.issued = node->issued,
		.hard_issued = node->hard_issued,
		.hard_active = node->hard_active,
		.nr_active = node->nr_active,
		.deltas = f->graph.deltas,
		.rest = node->rest,
		.soft_rest = node->soft_rest,
		.gave = node->gave,
	};
}

void core_fund_refresh(struct core_fund *f, u32 n) { fund_refresh(&f->graph, f->nodes, n); }
u64 core_fund_value(struct core_fund *f, u32 n)
{
	return fund_share(&f->graph, fund_whole(&f->graph, f->nodes, n));
}

/* What runs are charged by. */
u64 core_fund_self_raw(struct core_fund *f, u32 n)
{
	return fund_self_value(&f->graph, f->nodes, n);
}

u64 core_fund_share(struct core_fund *f, u64 value) { return fund_share(&f->graph, value); }
u64 core_fund_rate(const struct core_fund *f) { return f->graph.rate; }

u64 core_fund_self_value(struct core_fund *f, u32 n)
{
	return fund_share(&f->graph, fund_self_value(&f->graph, f->nodes, n));
}

u64 core_fund_ver(const struct core_fund *f, u32 n) { return f->nodes[n].ver; }

/* What of the old one's period is told. */
struct core_told {
	u64 quota, every;
	s64 left;
	u64 next_at;
};

bool core_lead_period(struct lead_period *to, const struct core_told *told, u64 now, u64 most)
{
	return lead_period(to, told->quota, told->every, told->left, told->next_at, now, most);
}
