/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* TCP Vegas: L. Brakmo, L. Peterson, "TCP Vegas: end to end congestion avoidance on a global internet", IEEE JSAC
 * 13(8), 1995. Once per RTT it estimates how many segments it keeps in the bottleneck's queue and holds that
 * number between alpha and beta.
 *
 * Not the paper's own loss detection and its slow start of every other RTT, which Linux lacks too. Behaves like
 * Linux net/ipv4/tcp_vegas.c, for kernels without it; the twin of crates/mptune-core/src/congestion/vegas.rs,
 * which lists where that departs from the paper.
 */
#ifndef MPTUNE_VEGAS_H
#define MPTUNE_VEGAS_H

#include "rounds.h"

/* Queued segments: grow below ALPHA, shrink above BETA, leave slow start above GAMMA. */
#define ALPHA 2
#define BETA 4
#define GAMMA 1

struct vegas {
	struct round round;
};

/* The once-per-RTT decision. RTTs and windows are below 2^31: products below 2^62. */
static __always_inline void adjust(struct tcp_sock *tp, const struct round *round, __u32 acked)
{
	__u64 cwnd = tp->snd_cwnd, base = round->base_rtt, rtt = round->min_rtt;
	__u64 queued = cwnd * (rtt - base) / base;

	if (in_slow_start(tp) && queued <= GAMMA) {
		tcp_slow_start(tp, acked);
	} else if (in_slow_start(tp)) {
		/* The delivered rate times the base RTT. */
		tp->snd_cwnd = min(cwnd, cwnd * base / rtt + 1);
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (queued > BETA) {
		tp->snd_cwnd = cwnd - 1;
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (queued < ALPHA) {
		tp->snd_cwnd = cwnd + 1;
	}
	settle(tp);
}

static __always_inline void vegas_init(struct sock *sk)
{
	struct vegas *vegas = private(sk);

	vegas->round.base_rtt = NO_RTT;
	begin_round(&vegas->round, tcp_sk(sk));
}

static __always_inline void vegas_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *vegas = private(sk);

	take_sample(&vegas->round, sample);
}

static __always_inline void vegas_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *vegas = private(sk);
	enum step step = next_step(&vegas->round, tp, ack);

	if (step == GROW)
		tcp_reno_cong_avoid(sk, ack, acked);
	else if (step == ADJUST)
		adjust(tp, &vegas->round, acked);
	else if (in_slow_start(tp))
		tcp_slow_start(tp, acked);
	if (step != WAIT)
		begin_round(&vegas->round, tp);
}

/* Measurements from before the open state are out of date. */
static __always_inline void vegas_set_state(struct sock *sk, __u8 new_state)
{
	struct vegas *vegas = private(sk);

	if (new_state == TCP_CA_Open)
		begin_round(&vegas->round, tcp_sk(sk));
}

/* Nothing was in flight: the path may have changed meanwhile. */
static __always_inline void vegas_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct vegas *vegas = private(sk);

	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START) {
		vegas->round.base_rtt = NO_RTT;
		begin_round(&vegas->round, tcp_sk(sk));
	}
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT vegas_init
#define WINDOW_CONG_AVOID vegas_cong_avoid
#define WINDOW_SET_STATE vegas_set_state
#define WINDOW_CWND_EVENT vegas_cwnd_event
#define WINDOW_PKTS_ACKED vegas_pkts_acked
#define WINDOW_SSTHRESH tcp_reno_ssthresh
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct vegas

#endif
