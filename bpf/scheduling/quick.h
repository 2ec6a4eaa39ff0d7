/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* quick: messages take the path that delivers them first.
 *
 * The kernel's scheduler compares waits in send queues, and a message of a few segments finds them empty: it goes to the
 * first subflow of the connection's list whatever the RTTs, or, while that one's last message is not acknowledged, to the
 * next. A burst of 64 KiB goes to one subflow, so that a message below that is as quick as the path it is given:
 *
 *   (1)  m = what the program has written and the peer has not acknowledged as data, the most of the last 2 to 4 s
 *   (2)  E = srtt max(1, m / cwnd)
 *   (3)  while m <= 64 KiB: hold if a sibling j that is neither held nor timed out has E_j < 7/8 E, release if none has E_j < E
 *   (4)  beyond it, and for the rate of a subflow that is not held: as hold (hold.h)
 *
 * A held subflow's srtt is that of its last segments: one that has become quicker meanwhile is not noticed until the others
 * are slower than it was. A released path carries data a second later at worst (holding.h). Not here: growth and reduction
 * of windows.
 */
#ifndef MPTUNE_QUICK_H
#define MPTUNE_QUICK_H

#define POLICY_PRIVATE struct quick
#define POLICY_OBSERVE remember
#define POLICY_BUFFERED buffered_windows
#include "hold.h"

/* Equation 3: eighths of its own time that another has to be below, if it is not held. */
#define CLEARLY 7

struct quick {
	struct hold hold;
	__u32 period;	  /* when this one began, us */
	__u16 most[2];	  /* of equation 1 in this and the last period, segments */
	__u16 message;	  /* m; kept in the socket (see for_each_subflow) */
	__u8 quicker;	  /* siblings of equation 3; likewise */
};

/* Equation 1 of one subflow, at this moment. */
static __always_inline void measure(const struct tcp_sock *tp, struct quick *quick, const struct walk *walk)
{
	const struct mptcp_sock *connection =
		bpf_rdonly_cast(walk->mine->conn, bpf_core_type_id_kernel(struct mptcp_sock));
	__u64 waiting = (connection->write_seq - connection->snd_una + tp->mss_cache - 1) / max(tp->mss_cache, 1u);

	if (passed(&quick->period, now_us(), MEMORY_US)) {
		quick->most[1] = quick->most[0];
		quick->most[0] = 0;
	}
	quick->most[0] = max(quick->most[0], (__u16)min(waiting, 0xffffull));
}

/* Equation 2, in eighths of a us. */
static __always_inline __u64 delivery(const struct tcp_sock *tp, __u32 message)
{
	__u32 cwnd = max(tp->snd_cwnd, 1u);

	/* 2^32 times 2^16. */
	return message > cwnd ? (__u64)tp->srtt_us * message / cwnd : tp->srtt_us;
}

/* Equation 3. */
SEPARATE int others_are_quicker(struct tcp_sock *tp HOOKS_SOCKET)
{
	struct quick *quick = policy((struct sock *)tp);
	struct subflow subflow;
	struct walk walk;
	__u64 own;

	if (!begin(&walk, tp))
		return false;
	measure(tp, quick, &walk);
	quick->message = 0;
	for_each_subflow(&walk, &subflow) {
		const struct quick *other = policy_of(subflow.tp);

		quick->message = max(quick->message, max(other->most[0], other->most[1]));
	}
	if ((__u32)quick->message * tp->mss_cache > BURST + tp->mss_cache || !begin(&walk, tp))
		return false;
	quick->quicker = 0;
	own = delivery(tp, quick->message) * (quick->hold.held ? 8 : CLEARLY);
	for_each_subflow(&walk, &subflow) {
		if (subflow.tp != tp && !subflow.tp->inet_conn.icsk_retransmits &&
		    delivery(subflow.tp, quick->message) * 8 < own)
			quick->quicker++;
	}
	return quick->quicker;
}

/* Bytes per second of the subflow, 0 to hold it. */
static __always_inline __u64 policy_rate(struct sock *sk)
{
	struct quick *quick = policy(sk);
	bool quicker = others_are_quicker(tcp_sk(sk));
	__u64 rate = hold_rate(sk);

	if (!quicker)
		return rate;
	quick->hold.held = true;
	return 0;
}

#endif
