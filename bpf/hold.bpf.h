/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who has used up what cpu.max allows (limit.bpf.h) waits, out of the round-robin, for the next
 * period, which a timer begins. Its tickets count for nothing meanwhile, as of one who sleeps
 * (model.md §2).
 *
 * A queue is taken out when it is picked, not before: a limit that is reached costs each principal
 * below it one decision. While no cgroup has a limit none of this is looked at.
 */
#ifndef TIX_HOLD_BPF_H
#define TIX_HOLD_BPF_H

#define RELEASE_MOST 128	/* steps of the timer at a time */
#define RELEASE_PAUSE_NS 20000ull

static u64 limit_timer_at;	/* when the timer fires, or 0 */

/* Where the timer goes on that had too much to do at a time: the limit, or 0, and how many are left to be looked at, with it. */
static u32 releasing, release_left;

/*
 * Queue `q`, which waited for a limit, may go on.
 *
 * On several CPUs V is not the mean of those that went on meanwhile, for what some were ahead or behind is forgotten at times
 * (bound_locked); and what the principal had more than its due, or less, the first of its queues brings back (update_locked).
 * The tags of the others tell nothing: one that was late by all that V went on would have its CPU for itself, or be forgiven
 * what nobody owed it. So they begin where V is; and none behind whoever waits longest on its CPU: its period would be over
 * before all others had caught up with V.
 */
static __always_inline void back_locked(u32 q)
{
	struct tix_queue *queue = &QUEUES[q];
	u32 nr = queue->nr, vt = queue->vt;
	bool joined;

	if (!nr || CLIENTS[q].linked || kept_out_locked(q))
		return;
	if (nr_cpu_ids > 1 && NODES[queue->node].self_active) {
		queue->tag = now_v;
		queue->seen_v = 0;
	}
	joined = enter_locked(q, nr, queue->load, false);
	if (nr_cpu_ids > 1 && VT(vt)->nr) {
		vtrr_peek(VT(vt), now_v);
		/* Who is served at once for having woken up is filed as if it had been due long ago. */
		if (VT(vt)->choice.group > BRIEF_GROUP && VT(vt)->choice.group < VTRR_GROUPS &&
		    (s64)(queue->tag - VT(vt)->choice.head) > 0)
			queue->tag = VT(vt)->choice.head;
	}
	link_locked(q, nr, false, joined);
}

static void release_locked(u32 idx);
int tix_evacuate(u32 at);
static void drop_cap_locked(u32 idx);

/* Have the timer fire when the first of the limits is due. */
__noinline int tix_arm_limits(void)
{
	u64 at, then, now = scx_bpf_now();
	struct slice_timer *timer;
	u32 key = LIMITS_TIMER, i;

	timer = bpf_map_lookup_elem(&timers, &key);
	if (!timer)
		return 0;
	bpf_spin_lock(&tix_lock);
	at = limit_due;
	limit_due = 0;
	if (at && (!limit_timer_at || (s64)(limit_timer_at - at) > 0))
		limit_timer_at = at;
	else
		at = 0;
	bpf_spin_unlock(&tix_lock);
	/* Should another CPU have asked for an earlier time meanwhile, ours is not to be the last word. */
	bpf_for(i, 0, 4) {
		if (!at)
			break;
		bpf_timer_start(&timer->timer, (s64)(at - now) > 0 ? at - now : 0, 0);
		then = limit_timer_at;
		at = then && (s64)(then - at) < 0 ? then : 0;
	}
	return 0;
}

struct release {
	u64 now;
	u32 limit;	/* which is looked at, or 0 */
	u32 filed;	/* a queue was, */
	u32 vt;		/* there */
};

/*
 * Limit `l` begins its next period, if that is due: those that wait for it may go on, first come,
 * first served, as many as can have MIN_SLICE_NS each of it.
 */
static __noinline void begin_locked(u32 l)
{
	struct tix_node *of = &NODES[l];

	refill_locked(l);
	of->room = 0;
	if (of->left > 0) {
		of->release++;
		of->room = of->left / MIN_SLICE_NS + 1;
	}
}

/* One step: begin a period, or file a queue that waited for it, or be done with it for now. */
__noinline int tix_release(struct release *r)
{
	struct run run = {};
	struct tix_node *of;
	u32 l, q;

	USES_ARENA();
	if (!r)
		return 0;
	if (nr_cpu_ids == 1)
		look_at_run(&run, r->now);
	bpf_spin_lock(&tix_lock);
	begin_run_locked(&run);
	advance_locked(r->now);
	r->filed = 0;
	l = r->limit;
	if (!l) {
		l = NODES[0].next_spent;
		if (l && l < TIX_NODES_MAX) {
			NODES[0].next_spent = NODES[l].next_spent;
			if (l == spent_last)
				spent_last = 0;
			nr_spent--;
			begin_locked(l);
			r->limit = l;
		}
		goto out;
	}
	if (l >= TIX_NODES_MAX)
		goto out;
	of = &NODES[l];
	q = of->first_held - 1;
	if (of->room && q < TIX_QUEUES_MAX) {
		of->room--;
		of->first_held = QUEUES[q].next_held;
		if (!of->first_held)
			of->last_held = 0;
		of->crowd -= QUEUES[q].held;
		QUEUES[q].held = 0;
		r->vt = QUEUES[q].vt;
		r->filed = QUEUES[q].nr;
		back_locked(q);
		stay_locked(q);
		goto out;
	}
	r->limit = 0;
	if (of->first_held) {
		note_spent(l);
		look_at_limit(l);
	} else {
		of->throttled_ns += now_ns - of->spent_at;
		of->spent_at = 0;
		release_locked(l);
	}
out:
	end_run_locked(&run);
	bpf_spin_unlock(&tix_lock);
	return 0;
}

static int limit_timer_fired(void *map, u32 *key, struct slice_timer *timer)
{
	struct release r = { .now = scx_bpf_now(), .limit = releasing };
	u32 i, left, more;
	bool done = false;

	USES_ARENA();
	bpf_spin_lock(&tix_lock);
	limit_timer_at = 0;
	/* Those that are noted while this goes on are for the next time. */
	left = release_left ?: nr_spent;
	bpf_spin_unlock(&tix_lock);
	bpf_for(i, 0, RELEASE_MOST) {
		more = r.limit;
		tix_release(&r);
		if (r.filed && r.vt != VT_ANY && cpu_ctx(VT_CPU(r.vt))->offline)
			tix_evacuate(r.vt);
		else if (r.filed)
			scx_bpf_kick_cpu(r.vt == VT_ANY ? bpf_get_smp_processor_id() : VT_CPU(r.vt),
					 SCX_KICK_IDLE);
		if (more && !r.limit)
			left--;
		if (!r.limit && (!more || !left)) {
			done = true;
			break;
		}
	}
	releasing = r.limit;
	release_left = done ? 0 : left;
	if (!done) {
		bpf_spin_lock(&tix_lock);
		look_again_locked(r.now + RELEASE_PAUSE_NS);
		bpf_spin_unlock(&tix_lock);
	}
	tix_arm_limits();
	return 0;
}

/* Cgroup `i` is capped by limit `cap`, or limit `i` counts where `cap` does, too; 0: by none. */
static __always_inline void set_cap_locked(u32 i, u32 cap)
{
	if (NODES[i].cap == cap)
		return;
	drop_cap_locked(i);
	if (cap)
		NODES[cap].nr_holders++;
	NODES[i].cap = cap;
	limits_epoch++;
}

static s32 limits_init(void)
{
	u32 key = LIMITS_TIMER;
	struct slice_timer *timer = bpf_map_lookup_elem(&timers, &key);
	s32 err;

	if (!timer)
		return -ESRCH;
	err = timer_init(timer);
	return err < 0 ? err : bpf_timer_set_callback(&timer->timer, limit_timer_fired);
}

/*
 * Of node `i`, which is a limit, what it allows, or cpu.max and cpu.max.burst of its cgroup, µs; there is no limit where
 * the quota is 0 or ~0.
 */
static void node_limit(u32 i, u64 period, u64 quota, u64 burst)
{
	u64 now = scx_bpf_now();
	struct tix_node *n;

	if (!i || i >= TIX_NODES_MAX)
		return;
	n = &NODES[i];
	if (quota > 1ull << 40 || burst > 1ull << 40 || !period)
		quota = burst = 0;
	bpf_spin_lock(&tix_lock);
	advance_locked(now);
	if (quota || n->quota) {
		nr_limits += !!quota - !!n->quota;
		n->quota = quota * 1000;
		n->every = period * 1000;
		n->burst = burst * 1000;
		n->left = n->quota;
		n->next_at = quota ? now_ns + n->every : 1;	/* who waits for one that is lifted goes on now */
		limits_epoch++;
		if (n->spent_at)
			look_at_limit(i);
	}
	bpf_spin_unlock(&tix_lock);
	if (limit_due)
		tix_arm_limits();
}

#endif
