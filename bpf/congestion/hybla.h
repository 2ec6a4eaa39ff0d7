/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* TCP Hybla: C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International
 * Journal of Satellite Communications and Networking 22, 2004. Gives a flow the rate growth (segments/s per s)
 * of a reference flow with an RTT of 25 ms, whatever its own RTT.
 *
 * Not the paper's pacing and bandwidth-estimated initial ssthresh, which Linux lacks too. Behaves like Linux
 * net/ipv4/tcp_hybla.c, for kernels without it, except that the limit of 65535 segments applies only to the
 * growth made here (a program may not write snd_cwnd_clamp).
 */
#ifndef MPTUNE_HYBLA_H
#define MPTUNE_HYBLA_H

#include "kernel.h"

/* The reference RTT, microseconds. */
#define RTT_0 25000
/* rho = RTT / RTT_0 is in units of 1/8, as srtt_us is: at most 2^32 / 25000 < 2^18. */
#define RHO_SHIFT 3
/* Largest whole part of rho in the exponent of slow start. */
#define MAX_EXPONENT 16
/* Growth is in units of 1/128 segment. */
#define GROWTH_SHIFT 7
#define ONE_SEGMENT (1 << GROWTH_SHIFT)
#define LARGEST_WINDOW 65535u

/* 2^(i/8) in units of 1/128, truncated: 128, 139, 152, 165, 181, 197, 215, 234. One byte each, i = 0 lowest. */
#define POWERS_OF_2 0xead7c5b5a5988b80ull

struct hybla {
	__u32 min_srtt; /* smallest srtt_us, from which rho follows */
	__u32 rho;
	__u32 fraction; /* of a segment that the window has grown */
};

static __always_inline void set_rho(struct hybla *hybla, __u32 srtt)
{
	hybla->min_srtt = srtt;
	hybla->rho = max(srtt / RTT_0, 1u << RHO_SHIFT);
}

/* Segments per ACK in slow start, 2^rho - 1: below 2^24. */
static __always_inline __u32 slow_start_growth(const struct hybla *hybla)
{
	__u32 whole = min(hybla->rho >> RHO_SHIFT, MAX_EXPONENT);
	__u32 fraction = (POWERS_OF_2 >> (hybla->rho % 8 * 8)) & 0xff;

	return (fraction << whole) - ONE_SEGMENT;
}

/* Segments per ACK in congestion avoidance, rho^2 / w: rho^2 has 36 bits and 6 of fraction. */
static __always_inline __u32 avoidance_growth(const struct hybla *hybla, __u32 cwnd)
{
	__u64 square = ((__u64)hybla->rho * hybla->rho) << (GROWTH_SHIFT - 2 * RHO_SHIFT);

	return min(square / cwnd, (__u64)LARGEST_WINDOW << GROWTH_SHIFT);
}

static __always_inline void add(struct tcp_sock *tp, struct hybla *hybla, __u32 growth, __u32 limit)
{
	__u32 total = hybla->fraction + growth;
	__u32 cwnd = tp->snd_cwnd + (total >> GROWTH_SHIFT);

	hybla->fraction = total % ONE_SEGMENT;
	tp->snd_cwnd = min(cwnd, min(limit, tp->snd_cwnd_clamp));
}

static __always_inline void hybla_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *hybla = private(sk);

	set_rho(hybla, tp->srtt_us);
	hybla->fraction = 0;
	tp->snd_cwnd = min(hybla->rho >> RHO_SHIFT, LARGEST_WINDOW);
}

static __always_inline void hybla_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *hybla = private(sk);
	__u32 growth;

	if (tp->srtt_us < hybla->min_srtt)
		set_rho(hybla, tp->srtt_us);
	if (!window_limited(tp))
		return;
	if (ca_state(tp) != TCP_CA_Open) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (in_slow_start(tp)) {
		add(tp, hybla, slow_start_growth(hybla), min(tp->snd_ssthresh, LARGEST_WINDOW));
		return;
	}
	growth = avoidance_growth(hybla, tp->snd_cwnd);
	if (growth) {
		add(tp, hybla, growth, LARGEST_WINDOW);
		return;
	}
	/* Above 128 rho^2 segments the increment is 0: one segment per window of ACKs instead. */
	tp->snd_cwnd_cnt++;
	if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		tp->snd_cwnd_cnt = 0;
		add(tp, hybla, ONE_SEGMENT, LARGEST_WINDOW);
	}
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT hybla_init
#define WINDOW_CONG_AVOID hybla_cong_avoid
#define WINDOW_SSTHRESH tcp_reno_ssthresh
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct hybla

#endif
