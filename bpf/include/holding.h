/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For path policies that hold subflows, by rate 0: an idle one that is held decides again about a second later.
 *
 * Only a subflow's own hooks can write its rate, and one that is held and idle gets no ACKs. TCP's keepalive, of its smallest time
 * of 1 s, brings one. Not here: when to hold.
 */
#ifndef MPTUNE_HOLDING_H
#define MPTUNE_HOLDING_H

#define POLICY_HOLDS
#include "kernel.h"

/* Keepalive: s of idle time and between probes, and how many may stay unanswered: an outage closes nothing. */
#define BEAT_S 1
#define BEATS 127

/* A new subflow. */
static __always_inline void keep_alive(struct sock *sk)
{
	int on = 1, beat = BEAT_S, beats = BEATS;

	bpf_setsockopt(sk, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	bpf_setsockopt(sk, SOL_TCP, TCP_KEEPIDLE, &beat, sizeof(beat));
	bpf_setsockopt(sk, SOL_TCP, TCP_KEEPINTVL, &beat, sizeof(beat));
	bpf_setsockopt(sk, SOL_TCP, TCP_KEEPCNT, &beats, sizeof(beats));
}

#endif
