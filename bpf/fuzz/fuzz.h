/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What both fuzz targets need: bytes read as numbers, and failures that say what is wrong.
 *
 * An input is a few bytes of settings and then operations until it ends; past the end
 * everything reads as 0, so that every input means something. With TIX_FUZZ_TRACE set
 * each operation is printed before it is carried out.
 */
#ifndef TIX_FUZZ_H
#define TIX_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/arch.h"

struct input {
	const u8 *at, *end;
};

static bool more(const struct input *in)
{
	return in->at < in->end;
}

/* A number of so many bytes. */
static u64 take(struct input *in, u32 bytes)
{
	u64 x = 0;

	for (u32 i = 0; i < bytes; i++)
		x |= (u64)(more(in) ? *in->at++ : 0) << 8 * i;
	return x;
}

/* A number of any length up to `bits`, short ones as often as long ones. */
static u64 take_number(struct input *in, u32 bits)
{
	u32 len = take(in, 1) % (bits + 1);

	return len ? take(in, (len + 7) / 8) & (~0ull >> (64 - len)) : 0;
}

/* What is being done, for the message. */
static struct {
	const char *what;
	u64 nr, a, b, c, d;
	bool trace;
} doing;

static void print_doing(void)
{
	fprintf(stderr, "operation %llu: %s(%lld, %lld, %lld, %lld)\n",
		(unsigned long long)doing.nr, doing.what, (long long)doing.a, (long long)doing.b,
		(long long)doing.c, (long long)doing.d);
}

static void begin(const char *what, u64 a, u64 b, u64 c, u64 d)
{
	doing.nr++;
	doing.what = what;
	doing.a = a;
	doing.b = b;
	doing.c = c;
	doing.d = d;
	if (doing.trace)
		print_doing();
}

static void begin_broken(const char *file, u32 line)
{
	fprintf(stderr, "%s:%u: INVARIANT BROKEN after ", file, line);
	print_doing();
}

/* What has to hold, and a format that puts it into words. */
#define HOLDS(condition, ...)                             \
	do {                                              \
		if (!(condition)) {                       \
			begin_broken(__FILE__, __LINE__); \
			fprintf(stderr, __VA_ARGS__);     \
			fputc('\n', stderr);              \
			abort();                          \
		}                                         \
	} while (0)

/* got == expected, integers of any kind; `...` says of what. */
#define EQUAL(got, expected, ...)                                                      \
	do {                                                                           \
		__typeof__(got) got_ = (got);                                          \
		__typeof__(got) expected_ = (expected);                                \
		if (got_ != expected_) {                                               \
			begin_broken(__FILE__, __LINE__);                              \
			fprintf(stderr, __VA_ARGS__);                                  \
			fprintf(stderr, ": expected %lld (%#llx), got %lld (%#llx)\n", \
				(long long)expected_, (unsigned long long)expected_,   \
				(long long)got_, (unsigned long long)got_);            \
			abort();                                                       \
		}                                                                      \
	} while (0)

/* Memory that is zero, as the arena's pages are, and ends where the sanitizer sees it. */
static void *zeroed(u64 size)
{
	void *p = calloc(1, size);

	if (!p) {
		perror("fuzz");
		exit(1);
	}
	return p;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	doing.trace = getenv("TIX_FUZZ_TRACE");
	return 0;
}

#endif
