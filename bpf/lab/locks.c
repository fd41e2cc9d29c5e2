// SPDX-License-Identifier: GPL-2.0-only
/* Locks: a mutex of the kernel's, first come, first served; who runs may take it before. */
#include "machine.h"

#define LCB_F_MUTEX (1u << 5)

static void lock_wait(struct lab_task *t, struct lab_lock *l)
{
	t->next_waiter = 0;
	t->waiting = true;
	t->wants = l;
	t->waiter.task = &t->p;
	if (l->first)
		M->task[l->last]->next_waiter = t->index;
	else
		l->first = t->index;
	l->last = t->index;
	l->mutex.first_waiter = &M->task[l->first]->waiter;
	tix_contention(&l->mutex, LCB_F_MUTEX);
	t->state = ASLEEP;
	t->wake_at = NEVER;
}

/* `t` runs and wants the lock; false: it waits. */
bool lock_take(struct lab_task *t, struct lab_lock *l)
{
	if (l->mutex.owner.counter) {
		if (!t->waiting)
			lock_wait(t, l);
		else
			t->state = ASLEEP;
		return false;
	}
	l->mutex.owner.counter = (u64)&t->p;
	t->wants = NULL;
	if (t->waiting) {
		u32 i = l->first, before = 0;

		while (i != t->index) {
			before = i;
			i = M->task[i]->next_waiter;
		}
		if (before)
			M->task[before]->next_waiter = t->next_waiter;
		else
			l->first = t->next_waiter;
		if (l->last == t->index)
			l->last = before;
		l->mutex.first_waiter = l->first ? &M->task[l->first]->waiter : NULL;
		t->waiting = false;
		tix_contention_end(&l->mutex, 0);
	}
	return true;
}

void lock_release(struct lab_lock *l)
{
	l->mutex.owner.counter = 0;
	if (l->first)
		wake(M->task[l->first], false);
}
