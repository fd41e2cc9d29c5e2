/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who uses how much, as text, for who may read the pin of this program's link: no daemon, no library. A line for each
 * cgroup that has a principal of its own, by the inode of its directory. The words of the first line name the columns:
 * readers look for those they know.
 */
#ifndef TIX_USAGE_BPF_H
#define TIX_USAGE_BPF_H

SEC("iter/bpf_map_elem")
int tix_usage(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	u64 *cgid = ctx->key;
	u32 *value = ctx->value, i;

	USES_ARENA();
	if (!cgid || !value)	/* that was all */
		return 0;
	if (!ctx->meta->seq_num)
		BPF_SEQ_PRINTF(seq, "cgroup weight active runnable share_q62 used_ns throttled\n");
	i = *value;
	if (i >= nodes_hi)	/* it shares its parent's */
		return 0;
	BPF_SEQ_PRINTF(seq, "%llu %u %d %u %llu %llu %d\n", *cgid, NODES[i].weight, FUNDS[i].nr_active > 0,
		       runnable_in(i), fund_share(GRAPH, FUNDS[i].value), ACCOUNTS[i].used_ns, NODES[i].held_by != 0);
	return 0;
}

#endif
