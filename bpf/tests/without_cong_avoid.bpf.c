// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Must be refused: a congestion control without the hook that grows the window. */
#include "kernel.h"

char _license[] SEC("license") = "Dual MIT/GPL";

RENO_SSTHRESH(broken)
RENO_UNDO(broken)

SEC(".struct_ops")
struct tcp_congestion_ops mptune_broken = {
	.ssthresh = (void *)broken_ssthresh,
	.undo_cwnd = (void *)broken_undo_cwnd,
	.name = "mptune_broken",
};
