/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz target for vtrr.h, and for core/queue.h around it: queues that share their clients, as those
 * of CPUs do. Clients are filed, taken out, picked and filed again later; V and the clock go on, V
 * also backwards. In a whole queue V is what the queue says.
 *
 * Virtual time and the clock wrap around; at one time all is within 2^62 of V.
 */
#include "check_queue.h"

struct world {
	struct tix_queue *q[QUEUES];
	struct vtrr *v[QUEUES];		/* of these */
	struct vtrr_client *clients;
	struct tix_thread threads[CLIENTS];
	u32 running[QUEUES];		/* in a whole queue: what was picked, or VTRR_NONE */
	bool whole;
	struct record r;
	u64 now;	/* V */
	u64 clock;
	u32 first_group, nr_groups;
};

static u64 last_tag(void)
{
	return 1ull << 61;
}

/* a + b, where tags end at the latest. */
static u64 later(u64 a, u64 b)
{
	return a > last_tag() || b > last_tag() - a ? last_tag() : a + b;
}

static u64 earlier(u64 a, u64 b)
{
	return later(a > b ? a - b : 0, 0);
}

static u32 take_group(struct world *w, struct input *in)
{
	u32 x = take(in, 1);

	if (x == 255)
		return take(in, 4) % VTRR_GROUPS;
	return w->first_group + x % w->nr_groups;
}

static u64 tag_of(const struct world *w, u32 c)
{
	return w->r.filed[c].tag;
}

/* Near V, in slots of the group; around another client; anywhere. */
static u64 take_tag(struct world *w, struct input *in, u32 group)
{
	u32 how = take(in, 1), shift = vtrr_shift(group < VTRR_GROUPS ? group : VTRR_GROUPS - 1);
	u64 by = (u64)(how >> 3) << shift;

	switch (how & 7) {
	case 0:
		return later(w->now, by);
	case 1:
		return earlier(w->now, by);
	case 2:	/* around the ring's end */
		return later(w->now, by + ((VTRR_SLOTS - 16ull) << shift));
	case 3:
		return earlier(w->now, by + ((VTRR_SLOTS - 16ull) << shift));
	case 4:
		return later(w->now, take_number(in, 48));
	case 5:
		return later(tag_of(w, take(in, 1) % CLIENTS), by);
	case 6:
		return earlier(tag_of(w, take(in, 1) % CLIENTS), by);
	default:
		return take_number(in, 61);
	}
}

#define FIRST_TAG (1ull << 30)

/* A whole queue's clients are no further from V than accounts are. */
static u64 within_reach(const struct world *w, u32 queue, u64 tag, u32 group)
{
	u64 v = (w->v[queue]->nr ? w->q[queue]->zero : w->q[queue]->clock) - origin;
	u64 reach = vtrr_period(group) << REACH_LOG;

	if (reach > last_tag())
		reach = last_tag();
	if (tag > later(v, reach))
		return later(v, reach);
	if (tag < earlier(v, reach))
		tag = earlier(v, reach);
	return tag < FIRST_TAG ? FIRST_TAG : tag;	/* V, rounded down, is not before 0 */
}

static void place(struct world *w, u32 queue, u32 c, u64 tag, u32 group)
{
	struct tix_thread *t = &w->threads[c];

	tag = within_reach(w, queue, tag, group);
	t->tag = tag + origin;
	t->group = group;
	t->period = vtrr_period(group) - 1;
	t->slice_ns = SLICE_NS;
	t->share = queue_weight(t->period, SLICE_NS);
}

static u32 group_for(const struct tix_queue *q, const struct tix_thread *t, bool is_far)
{
	return is_far ? vtrr_group_of((t->tag - q->zero) / FAR_PERIODS) : t->group;
}

/* Thread `c` waits in a whole queue, where it has been placed. */
static void file_whole(struct world *w, u32 queue, u32 c)
{
	struct tix_thread *t = &w->threads[c];
	struct tix_queue *q = w->q[queue];
	u64 since = w->r.filed[c].since ? w->r.filed[c].since : w->clock;
	u64 others = model_sums(q, &w->r, queue).weight + q->running_share;

	begin("link", queue, c, t->tag - origin, t->group);
	queue_link(q, w->clients, t, c, w->clock);
	counts_of[c] = model_counts(q, t, others);
	record_link(&w->r, queue, c, t->tag - origin, group_for(q, t, counts_of[c].is_far), since,
		    (s64)(w->clock - since) > (s64)OVERDUE_NS);
}

static void refile(struct world *w, u32 queue, u32 c)
{
	struct tix_thread *t = &w->threads[c];
	struct tix_queue *q = w->q[queue];
	u64 others = model_sums(q, &w->r, queue).weight - counts_of[c].weight + q->running_share;

	begin("refile", queue, c, t->tag - origin, t->group);
	queue_refile(q, w->clients, t, c);
	counts_of[c] = model_counts(q, t, others);
	record_refile(&w->r, c, t->tag - origin, group_for(q, t, counts_of[c].is_far));
}

static void file(struct world *w, u32 queue, u32 c, u64 tag, u32 group, bool is_oldest)
{
	if (w->whole) {
		place(w, queue, c, tag, group);
		file_whole(w, queue, c);
		return;
	}
	begin("link", queue, c, tag, group * 2ull + is_oldest);
	vtrr_link(w->v[queue], w->clients, c, tag + origin, group, w->clock, is_oldest);
	record_link(&w->r, queue, c, tag, group, w->clock, is_oldest);
}

static void unfile(struct world *w, u32 c)
{
	u32 queue = w->r.filed[c].queue, review = w->q[queue]->review;

	begin("unlink", queue, c, 0, 0);
	if (w->whole) {
		if (review == c)
			review = model_newer(&w->r, queue, c);
		queue_unlink(w->q[queue], w->clients, c);
		EQUAL(w->q[queue]->review, review, "queue %u: who is reviewed next", queue);
	} else {
		vtrr_unlink(w->v[queue], w->clients, c);
	}
	w->r.filed[c].queue = NOWHERE;
}

static void check(struct world *w)
{
	for (u32 queue = 0; queue < QUEUES; queue++)
		check_vtrr(w->v[queue], w->clients, &w->r, queue);
	for (u32 queue = 0; w->whole && queue < QUEUES; queue++)
		check_queue(w->q[queue], w->clients, &w->r, queue,
			    w->running[queue] == VTRR_NONE ? NULL : &w->threads[w->running[queue]]);
	check_unlinked(w->clients, &w->r);
}

static u32 look(struct world *w, u32 queue, u64 now)
{
	u32 c;

	begin("peek", queue, now, 0, 0);
	c = vtrr_peek(w->v[queue], now + origin);
	check_peek(w->v[queue], &w->r, queue, now, c);
	return c;
}

/* The first one runs and is filed again, at the place where it is due next. */
static void pick(struct world *w, u32 queue, u32 c, u64 used, u32 to)
{
	u64 tag;
	u32 group;

	if (c == VTRR_NONE)
		return;
	if (!w->v[queue]->choice.eligible && w->v[queue]->choice.head - origin > w->now)
		w->now = w->v[queue]->choice.head - origin;
	tag = later(tag_of(w, c), used);
	group = w->clients[c].group;
	unfile(w, c);
	check(w);
	file(w, to, c, tag, group, false);
}

/* It neither waits nor runs, and what it waited is of no account. */
static void rest(struct world *w, u32 c)
{
	w->clients[c].since = w->r.filed[c].since = 0;
}

/* As core/queue.h is used: what runs has used `used`, and who is next takes its place. */
static void decide(struct world *w, u32 queue, u32 to, u64 used)
{
	u32 was = w->running[queue], c = QUEUE_AGAIN, early;

	if (was != VTRR_NONE)
		place(w, queue, was, later(w->threads[was].tag - origin, used),
		      w->threads[was].group);
	for (u32 try = 0; c == QUEUE_AGAIN; try++) {
		begin("pick", queue, was, used, try);
		c = check_pick(w->q[queue], w->clients, w->threads, &w->r, queue, was, w->clock,
			       try < REFILES);
		if (c != QUEUE_AGAIN)
			break;
		early = vtrr_peek(w->v[queue], w->q[queue]->clock);
		refile(w, queue, early);
		check(w);
	}
	if (c == VTRR_NONE)
		return;
	w->r.filed[c].queue = NOWHERE;
	check(w);
	rest(w, c);
	w->running[queue] = c;
	if (was == VTRR_NONE)
		return;
	place(w, to, was, w->threads[was].tag - origin, w->threads[was].group);
	file_whole(w, to, was);
}

/* What only a whole queue has. */
static void step_whole(struct world *w, struct input *in, u32 op, u32 queue)
{
	u32 to = queue ^ (op >> 6 & 1), c;
	struct tix_queue *q = w->q[queue];
	u64 slice;

	switch (op % 10) {
	case 3:
	case 4:
		c = w->running[queue];
		slice = c == VTRR_NONE ? 0 : w->threads[c].period;
		decide(w, queue, to, slice / 64 * take(in, 1));
		break;
	case 5:	/* it goes to sleep */
		c = w->running[queue];
		w->running[queue] = VTRR_NONE;
		if (c != VTRR_NONE)
			rest(w, c);
		break;
	case 6:	/* an idle CPU's clock goes on */
		begin("clock of the queue", queue, 0, 0, 0);
		if (!w->v[queue]->nr && w->running[queue] == VTRR_NONE)
			q->clock = later(q->clock - origin, take_number(in, 46)) + origin;
		break;
	case 7:	/* placed anew while it waits, or looked at */
		if (!w->v[queue]->nr)
			break;
		c = check_review(q, w->clients, &w->r, queue);
		if (op >> 6 & 1) {
			u32 group = take_group(w, in);

			place(w, queue, c, take_tag(w, in, group), group);
		}
		refile(w, queue, c);
		break;
	default:
		begin("clock", 0, 0, 0, 0);
		w->clock += take_number(in, 34);
	}
}

static u64 key(const struct vtrr_choice *c)
{
	return (c->eligible ? c->finish : c->head) - origin;
}

/* Between queues the better choice goes first, and of two one at most goes before the other. */
static void compare(struct world *w, u64 now)
{
	const struct vtrr_choice *a = &w->v[0]->choice, *b = &w->v[1]->choice;

	look(w, 0, now);
	look(w, 1, now);
	begin("before", now, 0, 0, 0);
	if (a->group == VTRR_NONE || b->group == VTRR_NONE)
		return;
	EQUAL(vtrr_before(a, b), a->eligible != b->eligible ? a->eligible != 0 : key(a) < key(b),
	      "whether the choice of queue 0 goes before that of queue 1");
	HOLDS(!vtrr_before(a, b) || !vtrr_before(b, a), "one goes before the other");
}

static void step(struct world *w, struct input *in)
{
	u32 op = take(in, 1), queue = op >> 7, c, group;
	u64 used;

	if (w->whole) {
		w->now = w->q[queue]->clock - origin;
		if (op % 10 > 2) {
			step_whole(w, in, op, queue);
			return;
		}
	}
	switch (op % 10) {
	case 0:
	case 1:
	case 2:
		c = take(in, 1) % CLIENTS;
		if (c == w->running[0] || c == w->running[1])
			break;
		if (w->r.filed[c].queue != NOWHERE) {
			unfile(w, c);
			if (w->whole && op >> 6 & 1)
				rest(w, c);
			break;
		}
		group = take_group(w, in);
		file(w, queue, c, take_tag(w, in, group), group, op >> 6 & 1);
		break;
	case 3:	/* a slice, shortened or not, in the period's order of magnitude */
		c = look(w, queue, w->now);
		used = vtrr_period(w->first_group) * take(in, 1) / 64;
		w->now = later(w->now, used / 8);
		pick(w, queue, c, used, queue ^ (op >> 6 & 1));
		break;
	case 4:
		c = look(w, queue, w->now);
		pick(w, queue, c, take_number(in, 44), queue);
		break;
	case 5:
		compare(w, take_tag(w, in, w->first_group));
		break;
	case 6:
		begin("V forwards", 0, 0, 0, 0);
		w->now = later(w->now, take_number(in, 46));
		break;
	case 7:
		begin("V backwards", 0, 0, 0, 0);
		w->now = earlier(w->now, take_number(in, 46));
		break;
	case 8:
		begin("clock", 0, 0, 0, 0);
		w->clock += take_number(in, 34);
		break;
	default:	/* who waits too long is taken out of turn */
		used = take_number(in, 34);
		begin("overdue", queue, w->clock, used, 0);
		check_overdue(w->v[queue], w->clients, &w->r, queue, w->clock, used);
		c = vtrr_overdue(w->v[queue], w->clients, w->clock, used);
		if (c != VTRR_NONE)
			unfile(w, c);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, data + size };
	struct world w = { .clients = zeroed(CLIENTS * sizeof(struct vtrr_client)) };
	u32 how = take(&in, 1);

	for (u32 queue = 0; queue < QUEUES; queue++) {
		w.q[queue] = zeroed(sizeof(struct tix_queue));
		w.v[queue] = &w.q[queue]->vt;
		w.running[queue] = VTRR_NONE;
	}
	record_init(&w.r);
	doing.nr = 0;
	begin("start", how, 0, 0, 0);
	w.first_group = take(&in, 1) % VTRR_GROUPS;
	w.nr_groups = how & 1 ? 1 : how & 2 ? 4 : VTRR_GROUPS;
	if (w.first_group + w.nr_groups > VTRR_GROUPS)
		w.first_group = VTRR_GROUPS - w.nr_groups;
	/* Virtual time 2^60 is where it wraps around, or half way there. */
	origin = how & 32 ? -(1ull << 60) : how & 64 ? (1ull << 63) - (1ull << 60) : 0;
	w.now = how & 4 ? take_number(&in, 61) : 0;
	w.clock = how & 8 ? -take_number(&in, 40) : 0;
	w.whole = how & 128;
	for (u32 queue = 0; queue < QUEUES; queue++)
		w.q[queue]->clock = w.now + origin;
	check_groups(how & 16 ? take_number(&in, 64) : how);

	while (more(&in)) {
		step(&w, &in);
		check(&w);
		look(&w, 0, w.now);
		look(&w, 1, w.now);
		check_overdue(w.v[0], w.clients, &w.r, 0, w.clock, 1ull << 30);
	}
	for (u32 c = 0; c < CLIENTS; c++)
		if (w.r.filed[c].queue != NOWHERE)
			unfile(&w, c);
	check(&w);

	for (u32 queue = 0; queue < QUEUES; queue++)
		free(w.q[queue]);
	free(w.clients);
	return 0;
}
