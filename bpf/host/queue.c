/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The C core's queue.h and account.h as ordinary functions, for programs on the host: a CPU's
 * queue with its threads and clients. Nothing is decided here but what core_cpu_decide() says.
 */
#include <stdlib.h>

#include "../intf.h"
#include "../core/account.h"

struct core_cpu {
	struct tix_queue q;
	struct tix_thread *threads;
	struct vtrr_client *clients;
};

void core_cpu_free(struct core_cpu *cpu)
{
	free(cpu->threads);
	free(cpu->clients);
	free(cpu);
}

struct core_cpu *core_cpu_new(u32 threads)
{
	struct core_cpu *cpu = calloc(1, sizeof(*cpu));

	if (!cpu)
		return NULL;
	cpu->threads = calloc(threads, sizeof(*cpu->threads));
	cpu->clients = calloc(threads, sizeof(*cpu->clients));
	if (cpu->threads && cpu->clients)
		return cpu;
	core_cpu_free(cpu);
	return NULL;
}

/* What of a thread its queue looks at. */
struct core_thread {
	u64 tag, period;
	u32 slice_ns, share, group;
};

struct core_thread core_cpu_thread(const struct core_cpu *cpu, u32 c)
{
	const struct tix_thread *t = &cpu->threads[c];

	return (struct core_thread){ t->tag, t->period, t->slice_ns, t->share, t->group };
}

/* As account_slice() leaves a thread that is alone. */
void core_cpu_place(struct core_cpu *cpu, u32 c, u64 tag, u64 period, u32 slice_ns)
{
	struct tix_thread *t = &cpu->threads[c];

	t->tag = tag;
	t->period = period;
	t->slice_ns = slice_ns;
	t->share = queue_weight(period, slice_ns);
	t->group = vtrr_group_of(period);
}

static const struct tix_thread *thread_at(const struct core_cpu *cpu, u32 c)
{
	return c == VTRR_NONE ? NULL : &cpu->threads[c];
}

void core_cpu_link(struct core_cpu *cpu, u32 c, u64 now)
{
	queue_link(&cpu->q, cpu->clients, &cpu->threads[c], c, now);
}

void core_cpu_unlink(struct core_cpu *cpu, u32 c) { queue_unlink(&cpu->q, cpu->clients, c); }

/* It waits no longer: what it has waited so far is of no account when it is linked again. */
void core_cpu_begin(struct core_cpu *cpu, u32 c) { cpu->clients[c].since = 0; }

void core_cpu_refile(struct core_cpu *cpu, u32 c)
{
	queue_refile(&cpu->q, cpu->clients, &cpu->threads[c], c);
}

u32 core_cpu_review(struct core_cpu *cpu) { return queue_review(&cpu->q, cpu->clients); }

u64 core_cpu_mean(const struct core_cpu *cpu, u32 running, u64 ran)
{
	return queue_mean(&cpu->q, thread_at(cpu, running), ran);
}

u32 core_cpu_join(const struct core_cpu *cpu, u32 running, u32 weight)
{
	return queue_join(&cpu->q, thread_at(cpu, running), weight);
}

bool core_cpu_goes_first(struct core_cpu *cpu, u32 c, u64 now)
{
	return queue_goes_first(&cpu->q, cpu->clients, &cpu->threads[c], now);
}

u32 core_cpu_pick(struct core_cpu *cpu, u32 running, u64 now, bool may, u32 *early)
{
	*early = VTRR_NONE;
	return queue_pick(&cpu->q, cpu->clients, cpu->threads, thread_at(cpu, running), now, may,
			  early);
}

struct core_cpu_state {
	u64 zero, weight, clock, reached, overdue_ns;
	s64 moment;
	struct vtrr_choice choice;
	u32 nr, review, oldest, running_share;
};

struct core_cpu_state core_cpu_state(const struct core_cpu *cpu)
{
	const struct tix_queue *q = &cpu->q;

	return (struct core_cpu_state){
		.zero = q->zero,
		.weight = q->weight,
		.clock = q->clock,
		.reached = q->reached,
		.overdue_ns = q->overdue_ns,
		.moment = q->moment,
		.choice = q->vt.choice,
		.nr = q->vt.nr,
		.review = q->review,
		.running_share = q->running_share,
		.oldest = q->vt.nr ? q->vt.oldest : VTRR_NONE,
	};
}

void core_cpu_set_clock(struct core_cpu *cpu, u64 clock) { cpu->q.clock = clock; }
struct vtrr_client core_cpu_client(const struct core_cpu *cpu, u32 c) { return cpu->clients[c]; }

/* tix_pick() with its callers' tries: the thread to run next, or VTRR_NONE: `running` goes on. */
u32 core_cpu_decide(struct core_cpu *cpu, u32 running, u64 now)
{
	u32 c = QUEUE_AGAIN, refile, try;

	for (try = 0; c == QUEUE_AGAIN; try++) {
		c = core_cpu_pick(cpu, running, now, try < REFILES, &refile);
		if (c != QUEUE_AGAIN && cpu->q.vt.nr) {
			refile = queue_review(&cpu->q, cpu->clients);
			if (refile != VTRR_NONE &&
			    cpu->clients[refile].counted == cpu->threads[refile].tag)
				refile = VTRR_NONE;
		}
		if (refile != VTRR_NONE)
			core_cpu_refile(cpu, refile);
	}
	return c;
}

/*
 * Again and again: `running`, or nobody, has used its slice and is charged for it; who is next
 * runs. The clock stands still, so nobody has waited too long. Returns who runs in the end.
 */
u32 core_cpu_run(struct core_cpu *cpu, u32 running, u64 now, u64 decisions)
{
	u32 c;

	while (decisions--) {
		if (running != VTRR_NONE)
			cpu->threads[running].tag += cpu->threads[running].period;
		c = core_cpu_decide(cpu, running, now);
		if (c == VTRR_NONE)
			continue;
		core_cpu_begin(cpu, c);
		if (running != VTRR_NONE)
			core_cpu_link(cpu, running, now);
		running = c;
	}
	return running;
}

u32 core_weight(u64 period, u64 slice_ns) { return queue_weight(period, slice_ns); }
u64 core_served_by(u64 ns, u64 tickets) { return served_by(ns, tickets); }
s64 core_ahead_ns(u64 served, u64 mean, u64 tickets) { return ahead_ns(served, mean, tickets); }
s64 core_in_vtime(s64 ns, u64 inverse) { return in_vtime(ns, inverse); }
s64 core_unweighed(s64 v, u64 inverse) { return unweighed(v, inverse); }
s64 core_scaled(s64 x, u64 a, u64 b) { return scaled(x, a, b); }
u64 core_inverse(u64 value) { return account_inverse(value); }
u64 core_vtime(u64 ns, u64 rate, u32 nr_cpus) { return account_vtime(ns, rate, nr_cpus); }

void core_join_mean(u64 *served, u64 *mean, u64 others, u64 tickets, u64 credit)
{
	join_mean(served, mean, others, tickets, credit);
}

void core_leave_mean(u64 served, u64 *mean, u64 others, u64 tickets)
{
	leave_mean(served, mean, others, tickets);
}

/* As charge_member() calls it. */
s64 core_forgive(u64 *served, u64 *mean, u64 tickets, u64 all, s64 behind)
{
	u64 middle = *mean;

	return forgive(served, mean, middle, tickets, all, behind,
		       ahead_ns(*served, middle, tickets));
}

/* Of a principal's threads, which have `load` together, one of that `weight`. */
struct core_thread core_slice(u64 inverse, u32 load, u32 weight, bool is_one_of, u64 slice_ns,
			      u64 round)
{
	struct tix_account own = { .inverse = inverse, .load = load };
	struct tix_thread t = { .weight = weight };

	account_slice(&own, &t, is_one_of, slice_ns, round);
	return (struct core_thread){ t.tag, t.period, t.slice_ns, t.share, t.group };
}

/* Where an account is that stood at `vtime`, slept since `slept_ns`, and comes back. */
u64 core_return(u64 vtime, u64 slept_ns, u64 clock, u64 early, u64 credit, u64 most, u64 now, u32 join)
{
	struct tix_account a = { .vtime = vtime, .slept_ns = slept_ns };

	account_return(&a, clock, early, credit, most, now, join);
	return a.vtime;
}
