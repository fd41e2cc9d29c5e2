// SPDX-License-Identifier: GPL-2.0-only
/* What threads' programs do, and time that passes. */
#include "machine.h"

static void step(u32 cpu)
{
	struct lab_cpu *c = &M->cpu[cpu];
	struct lab_task *t = M->task[c->curr];
	struct lab_action a;
	u32 n;

	as_current(cpu);
	for (n = 0; n < 1000; n++) {
		if (t->wants && !lock_take(t, t->wants)) {
			c->resched = true;
			return;
		}
		memset(&a, 0, sizeof(a));
		M->next(M->ctx, t->index, M->now, &a);
		as_current(cpu);
		switch (a.what) {
		case LAB_RUN:
		case LAB_HOLD:
			t->run_left += a.arg;
			t->holds = a.what == LAB_HOLD;
			if (a.arg)
				return;
			break;
		case LAB_SLEEP:
		case LAB_WAIT:
			if (a.what == LAB_WAIT && t->pending_wake) {
				t->pending_wake = 0;
				break;
			}
			t->state = ASLEEP;
			t->wake_at = NEVER;
			if (a.what == LAB_SLEEP) {
				t->wake_at = M->now + a.arg;
				heap_push(t->index);
			}
			c->resched = true;
			return;
		case LAB_YIELD:
			t->p.scx.slice = 0;
			c->resched = true;
			t->yields = true;
			return;
		case LAB_WAKE:
			if (a.arg && a.arg <= M->nr_tasks) {
				struct lab_task *o = M->task[a.arg];

				if (o->state == ASLEEP && o->wake_at == NEVER && !o->waiting)
					wake(o, false);
				else
					o->pending_wake = 1;
			}
			break;
		case LAB_LOCK:
			t->wants = &M->lock[a.arg % LOCKS_MOST];
			if (t->wants->mutex.owner.counter == (u64)&t->p)
				t->wants = NULL;
			break;
		case LAB_UNLOCK:
			if (M->lock[a.arg % LOCKS_MOST].mutex.owner.counter == (u64)&t->p)
				lock_release(&M->lock[a.arg % LOCKS_MOST]);
			break;
		case LAB_MOVE:
			lab_move(t->index, a.arg);
			break;
		case LAB_NICE:
			lab_nice(t->index, a.arg);
			break;
		case LAB_CPUS:
			lab_cpus(t->index, a.arg);
			if (c->curr != t->index)
				return;
			break;
		case LAB_EXIT:
			update_curr(cpu);
			t->state = DEAD;
			t->p.exit_state = 1;
			t->state = RUNNABLE;
			leave(t);
			c->curr = 0;
			c->resched = true;
			return;
		}
		if (c->resched && c->curr == t->index && !t->p.scx.slice)
			return;
	}
	lab_fail("a program does nothing");
	t->run_left = 1000000;
}

static u64 next_event(void)
{
	u64 at = NEVER;
	u32 i;

	for (i = 0; i < M->nr_cpus; i++) {
		struct lab_cpu *c = &M->cpu[i];

		if (!c->curr)
			continue;
		if (c->exec_at + M->task[c->curr]->run_left < at)
			at = c->exec_at + M->task[c->curr]->run_left;
		if (c->tick_at < at)
			at = c->tick_at;
	}
	for (i = 0; i < M->nr_timers; i++)
		if (M->timers[i]->on && M->timers[i]->at < at)
			at = M->timers[i]->at;
	if (M->nr_heap && M->task[M->heap[0]]->wake_at < at)
		at = M->task[M->heap[0]]->wake_at;
	return at;
}

/* Whether what runs there lets nobody interrupt it; then a switch waits. */
static bool is_held(const struct lab_cpu *c)
{
	const struct lab_task *t = M->task[c->curr];

	return c->curr && t->holds && t->run_left;
}

void settle(void)
{
	u32 i, n = 0;
	bool again = true;

	while (again) {
		again = false;
		for (i = 0; i < M->nr_cpus; i++) {
			if (M->cpu[i].resched && !is_held(&M->cpu[i])) {
				schedule(i);
				again = true;
			}
			if (M->cpu[i].curr && !M->task[M->cpu[i].curr]->run_left && !M->cpu[i].resched) {
				step(i);
				again = true;
			}
		}
		if (n++ > 100000) {
			lab_fail("time does not go on");
			return;
		}
	}
}

static void events(void)
{
	u32 i;

	for (i = 0; i < M->nr_cpus; i++) {
		struct lab_cpu *c = &M->cpu[i];

		update_curr(i);
		if (c->curr && c->tick_at <= M->now) {
			c->tick_at += TICK_NS;
			if (!M->task[c->curr]->p.scx.slice)
				c->resched = true;
		}
	}
	for (i = 0; i < M->nr_timers; i++) {
		struct bpf_timer *t = M->timers[i];
		u32 key = M->timer_key[i];

		if (!t->on || t->at > M->now)
			continue;
		t->on = false;
		as_current(key < M->nr_cpus ? t->pinned : 0);
		t->fired(M->timer_map, &key, (void *)t);
	}
	while (M->nr_heap && M->task[M->heap[0]]->wake_at <= M->now) {
		struct lab_task *t = M->task[heap_pop()];

		as_current(t->cpu);
		if (t->state == ASLEEP && t->wake_at <= M->now)
			wake(t, false);
	}
	settle();
}

u64 lab_run(u64 until)
{
	settle();
	while (!M->failure[0]) {
		u64 at = next_event();

		if (at > until)
			break;
		if (at > M->now)
			M->now = at;
		events();
	}
	M->now = until;
	for (u32 i = 0; i < M->nr_cpus; i++)
		update_curr(i);
	return M->now;
}
