/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* wVegas, weighted Vegas: draft-xu-mptcp-congestion-control-05; Y. Cao, M. Xu, X. Fu, "Delay-based congestion
 * control for multipath TCP", ICNP 2012. Each subflow keeps a number of segments in its bottleneck's queue, and
 * the numbers of a connection's subflows add up to a constant: traffic moves to the paths with the least
 * queueing delay.
 *
 * Not loss-based growth: losses halve the window as in Reno, whatever the queues were. For plain TCP it is one
 * subflow with the whole constant. The twin of crates/mptune-core/src/congestion/wvegas.rs, which lists
 * their differences from the MPTCP fork's.
 */
#ifndef MPTUNE_WVEGAS_H
#define MPTUNE_WVEGAS_H

#include "coupled.h"
#include "rounds.h"

/* Segments the subflows keep queued together, and the fewest for one of them. */
#define TOTAL_ALPHA 10
#define MIN_ALPHA 2
/* Leave slow start above this many queued segments. */
#define GAMMA 1

struct wvegas {
	struct round round;
	__u64 sum;	/* of the rates, at most 2^51; kept in the socket (see for_each_subflow) */
	__u32 alpha;	/* segments to keep queued */
	__u32 queueing; /* smallest queueing delay of a round since the queue was last drained, us; 0: none yet */
};

/* This subflow's share of the segments to keep queued: own rate / sum of the rates. */
static __always_inline __u32 share(const struct tcp_sock *tp, struct wvegas *wvegas)
{
	__u64 own = min(tp->snd_cwnd, MAX_WINDOW) << RATIO_SHIFT;
	struct subflow subflow;
	struct walk walk;

	wvegas->sum = 0;
	if (!begin(&walk, tp))
		return TOTAL_ALPHA;
	for_each_subflow(&walk, &subflow)
		wvegas->sum += rate(&subflow);
	return max(own * TOTAL_ALPHA / wvegas->sum, (__u64)MIN_ALPHA);
}

/* A step towards the share. */
static __always_inline void follow_share(struct tcp_sock *tp, struct wvegas *wvegas, __u64 queued)
{
	if (queued >= wvegas->alpha)
		wvegas->alpha = share(tp, wvegas);
	if (queued > wvegas->alpha) {
		tp->snd_cwnd = tp->snd_cwnd - 1;
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd - 1);
	} else if (queued < wvegas->alpha) {
		tp->snd_cwnd = tp->snd_cwnd + 1;
	}
}

/* Lets the queue run empty when its delay has doubled, so that the base RTT shows. */
static __always_inline void drain(struct tcp_sock *tp, struct wvegas *wvegas, __u64 base, __u64 rtt)
{
	__u64 queueing = rtt - base;

	if (!wvegas->queueing || queueing < wvegas->queueing)
		wvegas->queueing = queueing;
	if (queueing && queueing >= 2ull * wvegas->queueing) {
		tp->snd_cwnd = tp->snd_cwnd * base / (2 * rtt);
		wvegas->queueing = 0;
	}
}

/* The once-per-RTT decision. RTTs and windows are below 2^31: products below 2^62. */
static __always_inline void adjust(struct tcp_sock *tp, struct wvegas *wvegas, __u32 acked)
{
	__u64 cwnd = tp->snd_cwnd, base = wvegas->round.base_rtt;
	__u64 rtt = wvegas->round.sum / wvegas->round.samples;
	__u64 queued = cwnd * (rtt - base) / rtt;

	if (!in_slow_start(tp)) {
		follow_share(tp, wvegas, queued);
		drain(tp, wvegas, base, rtt);
	} else if (queued > GAMMA) {
		tp->snd_cwnd = min(cwnd, cwnd * base / rtt + 1);
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd - 1);
	} else {
		tcp_slow_start(tp, acked);
	}
	settle(tp);
}

/* Restarts everything but the base RTT. */
static __always_inline void begin_anew(struct wvegas *wvegas, const struct tcp_sock *tp)
{
	begin_round(&wvegas->round, tp);
	wvegas->alpha = MIN_ALPHA;
	wvegas->queueing = 0;
}

static __always_inline void wvegas_init(struct sock *sk)
{
	struct wvegas *wvegas = private(sk);

	wvegas->round.base_rtt = NO_RTT;
	begin_anew(wvegas, tcp_sk(sk));
}

static __always_inline void wvegas_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct wvegas *wvegas = private(sk);

	take_sample(&wvegas->round, sample);
}

static __always_inline void wvegas_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct wvegas *wvegas = private(sk);
	enum step step = next_step(&wvegas->round, tp, ack);

	if (step == GROW)
		tcp_reno_cong_avoid(sk, ack, acked);
	else if (step == ADJUST)
		adjust(tp, wvegas, acked);
	else if (in_slow_start(tp))
		tcp_slow_start(tp, acked);
	if (step != WAIT)
		begin_round(&wvegas->round, tp);
}

static __always_inline void wvegas_set_state(struct sock *sk, __u8 new_state)
{
	struct wvegas *wvegas = private(sk);

	if (new_state == TCP_CA_Open)
		begin_anew(wvegas, tcp_sk(sk));
}

static __always_inline void wvegas_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct wvegas *wvegas = private(sk);

	if (event == CA_EVENT_CWND_RESTART) {
		wvegas->round.base_rtt = NO_RTT;
		begin_anew(wvegas, tcp_sk(sk));
	}
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT wvegas_init
#define WINDOW_CONG_AVOID wvegas_cong_avoid
#define WINDOW_SET_STATE wvegas_set_state
#define WINDOW_CWND_EVENT wvegas_cwnd_event
#define WINDOW_PKTS_ACKED wvegas_pkts_acked
#define WINDOW_SSTHRESH tcp_reno_ssthresh
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct wvegas

#endif
