/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vtrr.h and funding.h need from where they are compiled.
 *
 * Both are plain C over arrays that are addressed by index. In the BPF program the
 * arrays lie in an arena (pages appear on demand); on the host they are ordinary memory.
 * Nothing else may differ between the two.
 */
#ifndef TIX_ARCH_H
#define TIX_ARCH_H

#ifdef __bpf__
#define TIX_FN static __attribute__((noinline, unused))
#define TIX_INLINE static inline __attribute__((always_inline))
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint16_t u16;
typedef uint8_t u8;
#define TIX_FN static __attribute__((unused))
#define TIX_INLINE static inline __attribute__((unused))
#define can_loop true
#endif

/*
 * x, which is anything, as far as the BPF verifier knows from here on. Inside a loop it
 * walks what follows a branch once for each range of values that the branch left behind;
 * forgotten where branches meet or a loop begins, one walk stands for all. Not every
 * memory will do: it follows the stack. Under one lock at a time only: it is one word.
 */
#ifdef __bpf__
static volatile u64 tix_forgotten;
TIX_INLINE u64 tix_forget(u64 x)
{
	tix_forgotten = x;
	return tix_forgotten;
}
#else
TIX_INLINE u64 tix_forget(u64 x)
{
	return x;
}
#endif

/*
 * x, which is anything, as far as the BPF verifier knows from here on; `any` is something that it knows
 * nothing of. What follows is walked once, not once for each range of values that branches have left.
 */
TIX_INLINE u64 tix_unknown(u64 x, u64 any)
{
#ifdef __bpf__
	asm("%0 ^= %1\n%0 ^= %1" : "+&r"(x) : "r"(any));
#else
	(void)any;
#endif
	return x;
}

/* x / y; 0 where y is 0, as BPF has it. */
TIX_INLINE u64 tix_divide(u64 x, u64 y)
{
#ifdef __bpf__
	asm("%0 /= %1" : "+r"(x) : "r"(y));
	return x;
#else
	return y ? x / y : 0;
#endif
}

/* x if `yes`, else -x, without a branch. As tix_forget(). */
TIX_INLINE u64 tix_signed(u64 x, bool yes)
{
	u64 mask = tix_forget(yes) - 1;

	return (x ^ mask) - mask;
}

/* Position of the lone set bit of x, by a de Bruijn sequence: BPF has no such instruction. */
static const u8 tix_debruijn[64] = {
	0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28,
	62, 5,  39, 46, 44, 42, 22, 9,  24, 35, 59, 56, 49, 18, 29, 11,
	63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21, 23, 58, 17, 10,
	51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
};

/* Index of the lowest set bit; x != 0. */
TIX_INLINE u32 tix_ctz64(u64 x)
{
	return tix_debruijn[((x & -x) * 0x022fdd63cc95386dull) >> 58];
}

/* Index of the highest set bit; x != 0. */
TIX_INLINE u32 tix_fls64(u64 x)
{
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	x |= x >> 32;
	return tix_ctz64(x ^ (x >> 1));
}

/* a * b / 2^62, rounded down, for a, b <= 2^62: the product of two fractions. */
TIX_INLINE u64 tix_mul_q62(u64 a, u64 b)
{
	u64 al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
	u64 mid = ah * bl + ((al * bl) >> 32);
	u64 mid2 = al * bh + (mid & 0xffffffff);
	u64 hi = ah * bh + (mid >> 32) + (mid2 >> 32);

	return (hi << 2) | ((mid2 & 0xffffffff) >> 30);
}

/* ns * inv / 2^32, rounded down: time weighed by the inverse of a share (Q32.32). */
TIX_INLINE u64 tix_mul_q32(u64 ns, u64 inv)
{
	u64 low = ns & 0xffffffff;

	return (ns >> 32) * inv + low * (inv >> 32) + ((low * (inv & 0xffffffff)) >> 32);
}

#endif
