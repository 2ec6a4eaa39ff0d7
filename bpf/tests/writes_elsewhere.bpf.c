// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Must be refused: writes to a sibling, which a hook may only read (it does not hold that subflow's lock). */
#include "coupled.h"

char _license[] SEC("license") = "Dual MIT/GPL";

SEC("struct_ops/cong_avoid")
void BPF_PROG(broken_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct subflow subflow;
	struct walk walk;

	if (!begin(&walk, tcp_sk(sk)))
		return;
	for_each_subflow(&walk, &subflow)
		((struct tcp_sock *)subflow.tp)->snd_cwnd = 1;
}

RENO_SSTHRESH(broken)
RENO_UNDO(broken)

SEC(".struct_ops")
struct tcp_congestion_ops mptune_broken = {
	.ssthresh = (void *)broken_ssthresh,
	.cong_avoid = (void *)broken_cong_avoid,
	.undo_cwnd = (void *)broken_undo_cwnd,
	.name = "mptune_broken",
};
