/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Scalable TCP: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM
 * SIGCOMM CCR 33(2), 2003. Recovers from a loss within the same number of RTTs at any window.
 *
 * Not Kelly's threshold between legacy and scalable windows: as in Linux net/ipv4/tcp_scalable.c a window below
 * 100 segments grows like Reno's. Same constants and growth as there, by acknowledged segments.
 */
#ifndef MPTUNE_SCALABLE_H
#define MPTUNE_SCALABLE_H

#include "kernel.h"

/* The window grows by one segment per this many acknowledged ones; smaller windows by Reno's rule. */
#define INCREASE_INTERVAL 100
/* The share of the window given up at a congestion event: 2^-3 = 1/8. */
#define DECREASE_SHIFT 3

/* No private state: tcp_cong_avoid_ai counts in snd_cwnd_cnt. */

static __always_inline void scalable_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!reaches_avoidance(tp, &acked))
		return;
	tcp_cong_avoid_ai(tp, min(tp->snd_cwnd, INCREASE_INTERVAL), acked);
}

static __always_inline __u32 scalable_ssthresh(struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	/* Truncated to whole segments: a window below 8 is not reduced. */
	return max(cwnd - (cwnd >> DECREASE_SHIFT), 2u);
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_SSTHRESH scalable_ssthresh
#define WINDOW_CONG_AVOID scalable_cong_avoid
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd

#endif
