/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Rounds of Vegas and wVegas: RTT samples by rounds of about an RTT, and the time of the decision. Not here: the
 * decision. As in Linux net/ipv4/tcp_vegas.c. */
#ifndef MPTUNE_ROUNDS_H
#define MPTUNE_ROUNDS_H

#include "kernel.h"

#define NO_RTT 0x7fffffff
/* Fewer RTT samples in a round may all come from delayed ACKs. */
#define MIN_SAMPLES 3
/* The window is at least two segments after an adjustment. */
#define MIN_WINDOW 2u

/* RTTs in microseconds, 1 to 2^31 - 1. */
struct round {
	__u64 sum;
	__u32 end;	/* it ends when something after this sequence number is acknowledged */
	__u32 samples;
	__u32 min_rtt;
	__u32 base_rtt; /* the smallest of all rounds: the path's RTT without a queue */
};

static __always_inline void begin_round(struct round *round, const struct tcp_sock *tp)
{
	round->end = tp->snd_nxt;
	round->sum = 0;
	round->samples = 0;
	round->min_rtt = NO_RTT;
}

static __always_inline void take_sample(struct round *round, const struct ack_sample *sample)
{
	__u32 rtt = (__u32)sample->rtt_us + 1; /* never 0: it divides */

	if (sample->rtt_us < 0)
		return;
	round->base_rtt = min(round->base_rtt, rtt);
	round->min_rtt = min(round->min_rtt, rtt);
	round->sum += rtt;
	round->samples++;
}

/* The action of an ACK: the decision at the end of a round; before that only slow start; Reno's growth outside
 * the open state and after a round with few samples. */
enum step { GROW, ADJUST, WAIT };

static __always_inline enum step next_step(const struct round *round, const struct tcp_sock *tp, __u32 ack)
{
	if (ca_state(tp) != TCP_CA_Open)
		return GROW;
	if (!after(ack, round->end))
		return WAIT;
	return round->samples < MIN_SAMPLES ? GROW : ADJUST;
}

/* A window after an adjustment; ssthresh is lifted to 3/4 of it (tcp_current_ssthresh). */
static __always_inline void settle(struct tcp_sock *tp)
{
	__u32 cwnd = min(max(tp->snd_cwnd, MIN_WINDOW), tp->snd_cwnd_clamp);

	tp->snd_cwnd = cwnd;
	tp->snd_ssthresh = max(tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2));
}

#endif
