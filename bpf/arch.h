/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vtrr.h and funding.h need from where they are compiled.
 *
 * Both are plain C over arrays that are addressed by index. In the BPF program the
 * arrays lie in an arena (address space 1, pages appear on demand); on the host they
 * are ordinary memory. Nothing else may differ between the two.
 */
#ifndef TIX_ARCH_H
#define TIX_ARCH_H

#ifdef __bpf__
#define TIX_MEM __attribute__((address_space(1)))
#define TIX_FN static __attribute__((noinline))
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
#define TIX_MEM
#define TIX_FN static __attribute__((unused))
#define TIX_INLINE static inline __attribute__((unused))
#define can_loop true
#endif

/* Index of the lowest set bit; x != 0. By halves: BPF has no such instruction. */
TIX_INLINE u32 tix_ctz64(u64 x)
{
#ifdef __bpf__
	u32 n = 0;

	if (!(x & 0xffffffff)) { n += 32; x >>= 32; }
	if (!(x & 0xffff)) { n += 16; x >>= 16; }
	if (!(x & 0xff)) { n += 8; x >>= 8; }
	if (!(x & 0xf)) { n += 4; x >>= 4; }
	if (!(x & 0x3)) { n += 2; x >>= 2; }
	return n + !(x & 1);
#else
	return (u32)__builtin_ctzll(x);
#endif
}

/* Index of the highest set bit; x != 0. */
TIX_INLINE u32 tix_fls64(u64 x)
{
#ifdef __bpf__
	u32 n = 0;

	if (x >> 32) { n += 32; x >>= 32; }
	if (x >> 16) { n += 16; x >>= 16; }
	if (x >> 8) { n += 8; x >>= 8; }
	if (x >> 4) { n += 4; x >>= 4; }
	if (x >> 2) { n += 2; x >>= 2; }
	return n + (x >> 1);
#else
	return 63u - (u32)__builtin_clzll(x);
#endif
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

/* ns * inv / 2^32 for ns < 2^32: time weighed by the inverse of a share (Q32.32). */
TIX_INLINE u64 tix_mul_q32(u64 ns, u64 inv)
{
	return ns * (inv >> 32) + ((ns * (inv & 0xffffffff)) >> 32);
}

#endif
