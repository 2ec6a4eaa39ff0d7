/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the congestion controls share of a socket: its state, its window's limits, and the hooks that most leave to Reno. */
#ifndef MPTUNE_KERNEL_H
#define MPTUNE_KERNEL_H

#include "fields.h"

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

/* The algorithm's own state in the socket; zero before `init`. */
static __always_inline void *private(struct sock *sk)
{
	return tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

static __always_inline __u8 ca_state(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Only a window that limited sending may grow (RFC 9293 section 3.8.6, RFC 7661); in slow start, one of
 * which more than half was used (tcp_is_cwnd_limited). */
static __always_inline bool window_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* An ACK grows the window by congestion avoidance, with the acknowledged segments that slow start leaves in `acked`. */
static __always_inline bool reaches_avoidance(struct tcp_sock *tp, __u32 *acked)
{
	if (!window_limited(tp))
		return false;
	if (!in_slow_start(tp))
		return true;
	*acked = tcp_slow_start(tp, *acked);
	return *acked;
}

/* The hooks that most algorithms leave to Reno: halving, and undoing a spurious reduction. */
#define RENO_SSTHRESH(algorithm)                                      \
	SEC("struct_ops/ssthresh")                                    \
	__u32 BPF_PROG(algorithm##_ssthresh, struct sock *sk)         \
	{                                                             \
		return tcp_reno_ssthresh(sk);                         \
	}
#define RENO_UNDO(algorithm)                                          \
	SEC("struct_ops/undo_cwnd")                                   \
	__u32 BPF_PROG(algorithm##_undo_cwnd, struct sock *sk)        \
	{                                                             \
		return tcp_reno_undo_cwnd(sk);                        \
	}

/* Wraps after 71 minutes. */
static __always_inline __u32 now_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

/* A span has passed since `begun`, us; the next begins then. The difference is unsigned, so that the 0 of a new socket is
 * over within a span, whatever the time. */
static __always_inline bool passed(__u32 *begun, __u32 now, __u32 span)
{
	if (now - *begun < span)
		return false;
	*begun = now;
	return true;
}

#endif
