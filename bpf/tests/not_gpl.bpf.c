// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Must be refused: complete, but declared under a licence that is not compatible with the kernel's. */
#include "kernel.h"

char _license[] SEC("license") = "Proprietary";

SEC("struct_ops/cong_avoid")
void BPF_PROG(broken_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_sk(sk)->snd_cwnd_cnt = 0;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(broken_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(broken_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops")
struct tcp_congestion_ops mptune_broken = {
	.ssthresh = (void *)broken_ssthresh,
	.cong_avoid = (void *)broken_cong_avoid,
	.undo_cwnd = (void *)broken_undo_cwnd,
	.name = "mptune_broken",
};
