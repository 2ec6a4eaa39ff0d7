/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* prefer: an order of paths; one takes data when those before it are full.
 *
 *   (1)  j is full once half a window has waited unsent at each of its ACKs for 2 srtt_j after its first slow start, until
 *        for as long less than a quarter has
 *   (2)  hold while a sibling before it in the order, that is not held itself and has made progress since an RTO, is not full
 *   (3)  rate of a subflow that is not held: that of the window algorithm
 *
 * So a sender that is slower than the first path leaves the others idle, and one that always has data gets what the window
 * algorithm alone gets. A connection whose window is full waits for the window, not for its paths: nothing waits unsent, and no
 * path is full. Paths without a place in the order come after those that have one, and hold each other never; without any
 * order there is nothing to hold. A released path carries data a second later at worst (holding.h). Not here: growth and
 * reduction of windows; the order (paths.h).
 */
#ifndef MPTUNE_PREFER_H
#define MPTUNE_PREFER_H

#include "holding.h"
#include "pacing.h"
#include "paths.h"
#include "siblings.h"

#define LAST (~0u)

struct prefer {
	__u32 rank;   /* from 1 on */
	__u32 looked; /* us */
	__u32 since;  /* when the queue began to show the contrary of `full`, us */
	__u32 before; /* siblings before it that are not full; kept in the socket (see for_each_subflow) */
	bool full, changes;
};

static __always_inline struct prefer *policy(struct sock *sk);
static __always_inline const struct prefer *policy_of(const struct tcp_sock *tp);

static __always_inline void look(struct sock *sk)
{
	const struct parameters *parameters = told(sk);

	policy(sk)->rank = parameters && parameters->rank ? parameters->rank : LAST;
}

/* Equation 1, at an ACK. */
static __always_inline void observe_queue(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct prefer *prefer = policy(sk);
	__u64 window = (__u64)tp->snd_cwnd * tp->mss_cache;
	__u32 unsent = tp->write_seq - tp->snd_nxt, now = now_us();
	bool changes = prefer->full ? unsent < window / 4
				    : unsent >= window / 2 && tp->snd_ssthresh < INFINITE_SSTHRESH;

	if (changes && !prefer->changes)
		prefer->since = now;
	prefer->changes = changes;
	/* srtt_us is in eighths. */
	if (changes && now - prefer->since >= tp->srtt_us / 4) {
		prefer->full = !prefer->full;
		prefer->changes = false;
	}
}

/* Equation 2. */
SEPARATE int others_have_room(struct tcp_sock *tp HOOKS_SOCKET)
{
	struct prefer *prefer = policy((struct sock *)tp);
	struct subflow subflow;
	struct walk walk;

	if (!begin(&walk, tp))
		return false;
	prefer->before = 0;
	for_each_subflow(&walk, &subflow) {
		const struct prefer *other = policy_of(subflow.tp);

		if (subflow.tp != tp && !subflow.tp->inet_conn.icsk_retransmits && other->rank < prefer->rank && !other->full)
			prefer->before++;
	}
	return prefer->before;
}

/* Bytes per second of the subflow, 0 to hold it. */
static __always_inline __u64 policy_rate(struct sock *sk)
{
	struct prefer *prefer = policy(sk);

	if (is_subflow(tcp_sk(sk))) {
		if (looks_again(&prefer->looked))
			look(sk);
		if (others_have_room(tcp_sk(sk)))
			return 0;
	}
	return max(window_rate(tcp_sk(sk)), 1ull);
}

/* A new subflow. */
static __always_inline void policy_init(struct sock *sk)
{
	if (!is_subflow(tcp_sk(sk)))
		return;
	policy(sk)->looked = now_us();
	look(sk);
	keep_alive(sk);
}

#define POLICY_PRIVATE struct prefer
#define POLICY_OBSERVE observe_queue

#endif
