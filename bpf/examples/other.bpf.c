/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least that is a sched_ext scheduler: a name. Threads run as they come, on any CPU. For tests of what tixd does while
 * somebody else's is in force.
 */

/* The rest of the operations are the kernel's own. */
struct sched_ext_ops {
	char name[128];
};

#define SEC(name) __attribute__((section(name), used))

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops other = {
	.name = "other",
};
