// SPDX-License-Identifier: GPL-2.0-only
// For tests/vm/selftest: how often a timer of 1 ms fires on each CPU while all of them are busy.
//
//   timers SECONDS    print the least and the most of all CPUs, a second

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CPUS = 64 };

static double seconds;
static pthread_barrier_t all_there;
static long fired[MOST_CPUS];
static volatile int over;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void bind(long cpu, int policy, int priority)
{
	struct sched_param p = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, policy, &p))
		perror("timers"), exit(1);
}

static void *spin(void *cpu)
{
	bind((long)cpu, SCHED_OTHER, 0);
	pthread_barrier_wait(&all_there);
	while (!over)
		;
	return NULL;
}

static void *count(void *cpu)
{
	struct itimerspec each = { { 0, 1000000 }, { 0, 1000000 } };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t expirations;
	int64_t end;

	bind((long)cpu, SCHED_FIFO, 10);
	pthread_barrier_wait(&all_there);
	if (timer < 0 || timerfd_settime(timer, 0, &each, NULL))
		perror("timers"), exit(1);
	end = now_ns() + (int64_t)(seconds * 1e9);
	while (now_ns() < end && read(timer, &expirations, sizeof(expirations)) > 0)
		fired[(long)cpu]++;
	return NULL;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), least = INT32_MAX, most = 0;
	pthread_t counting[MOST_CPUS], spinning;

	seconds = argc == 2 ? atof(argv[1]) : 0;
	if (seconds <= 0 || cpus > MOST_CPUS)
		return 2;
	pthread_barrier_init(&all_there, NULL, (unsigned)(2 * cpus));
	for (long cpu = 0; cpu < cpus; cpu++)
		if (pthread_create(&counting[cpu], NULL, count, (void *)cpu) ||
		    pthread_create(&spinning, NULL, spin, (void *)cpu))
			return 1;
	for (long cpu = 0; cpu < cpus; cpu++)
		pthread_join(counting[cpu], NULL);
	over = 1;
	for (long cpu = 0; cpu < cpus; cpu++) {
		least = fired[cpu] < least ? fired[cpu] : least;
		most = fired[cpu] > most ? fired[cpu] : most;
	}
	printf("%.0f %.0f\n", (double)least / seconds, (double)most / seconds);
	return 0;
}
