/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz target for vtrr.h: queues that share their clients, as those of CPUs do. Clients are
 * filed, taken out, picked and filed again later; V and the clock go on, V also backwards.
 *
 * Virtual time and the clock wrap around; at one time all is within 2^62 of V.
 */
#include "check_vtrr.h"

struct world {
	struct vtrr *v[QUEUES];
	struct vtrr_client *clients;
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
		return take(in, 4);	/* beyond the last, too */
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

static void file(struct world *w, u32 queue, u32 c, u64 tag, u32 group, bool front)
{
	begin("link", queue, c, tag, group * 2ull + front);
	vtrr_link(w->v[queue], w->clients, c, tag + origin, group, front, w->clock);
	record_link(&w->r, queue, c, tag, group, front, w->clock);
}

static void unfile(struct world *w, u32 c)
{
	u32 queue = w->r.filed[c].queue;

	begin("unlink", queue, c, 0, 0);
	vtrr_unlink(w->v[queue], w->clients, c);
	w->r.filed[c].queue = NOWHERE;
}

static void check(struct world *w)
{
	for (u32 queue = 0; queue < QUEUES; queue++)
		check_vtrr(w->v[queue], w->clients, &w->r, queue);
	check_unlinked(w->clients, &w->r);
}

static u32 look(struct world *w, u32 queue, u64 now)
{
	begin("peek", queue, now, 0, 0);
	vtrr_peek(w->v[queue], now + origin);
	check_peek(w->v[queue], &w->r, queue, now);
	return vtrr_first(w->v[queue]);
}

/* pick_locked(): the first one runs and is filed again, at the place where it is due next. */
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

	switch (op % 10) {
	case 0:
	case 1:
	case 2:
		c = take(in, 1) % CLIENTS;
		if (w->r.filed[c].queue != NOWHERE) {
			unfile(w, c);
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
		if (!(op >> 6 & 1)) {
			begin("clock", 0, 0, 0, 0);
			w->clock += take_number(in, 34);
			break;
		}
		/* age_locked(): who is filed anew has waited before */
		c = take(in, 1) % CLIENTS;
		queue = w->r.filed[c].queue;
		if (queue == NOWHERE)
			break;
		used = w->clock - take_number(in, 34);
		begin("age", queue, c, used, 0);
		vtrr_age(w->v[queue], w->clients, c, used);
		record_age(&w->r, queue, c, used);
		break;
	default:	/* late_locked(): who waits too long is taken out of turn */
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

	for (u32 queue = 0; queue < QUEUES; queue++)
		w.v[queue] = zeroed(sizeof(struct vtrr));
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
		free(w.v[queue]);
	free(w.clients);
	return 0;
}
