// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Must be refused: a congestion control without the hook that responds to a loss. */
#include "kernel.h"

char _license[] SEC("license") = "Dual MIT/GPL";

SEC("struct_ops/cong_avoid")
void BPF_PROG(broken_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

RENO_UNDO(broken)

SEC(".struct_ops")
struct tcp_congestion_ops mptune_broken = {
	.cong_avoid = (void *)broken_cong_avoid,
	.undo_cwnd = (void *)broken_undo_cwnd,
	.name = "mptune_broken",
};
