// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* A window of 50 segments, and in snd_ssthresh, for getsockopt, the number of subflows that a coupled algorithm would
 * count. */
#include "coupled.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct counts {
	__u32 paths;
};

SEC("struct_ops/cong_avoid")
void BPF_PROG(counts_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct counts *counts = private(sk);
	struct subflow subflow;
	struct walk walk;

	counts->paths = 0;
	if (begin(&walk, tp)) {
		for_each_subflow(&walk, &subflow)
			counts->paths++;
	}
	tp->snd_cwnd = 50;
	tp->snd_ssthresh = counts->paths;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(counts_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

RENO_UNDO(counts)

SEC(".struct_ops")
struct tcp_congestion_ops mptune_counts = {
	.ssthresh = (void *)counts_ssthresh,
	.cong_avoid = (void *)counts_cong_avoid,
	.undo_cwnd = (void *)counts_undo_cwnd,
	.name = "mptune_counts",
};
