/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* hold: a subflow takes no new data while it would hold up faster ones.
 *
 * The kernel's scheduler (net/mptcp/protocol.c, mptcp_subflow_get_send) takes the subflow with the smallest send queue
 * for its pacing rate, whatever its RTT, and skips one whose rate is 0. Data on a slow subflow keeps the connection's
 * window open until it is acknowledged; meanwhile the faster ones fill the window, and wait. As ECF (Y. Lim et al., CoNEXT
 * 2017) and BLEST (S. Ferlin et al., IFIP Networking 2016) estimate before each segment, this does at each ACK:
 *
 *   (1)  R = sum of best_j over siblings j with min_rtt_j N_j < min_rtt N that are neither held nor timed out
 *   (2)  T = max(srtt, 5/4 min_rtt) N                   a loss on the way costs more than an RTT; seldom there is one
 *   (3)  hold while R T > W, release when R T < 27/32 W      W: what of the window is left to the connection; of one that
 *                                                          grows, by its being used, release when R T <= W
 *   (4)  rate = 2 min(best, cwnd / srtt)                else slow start on a slow path asks for many times its rate
 *
 * where best_j is j's largest delivery rate of the last 2 to 4 s, and N the round trips of a burst: the scheduler hands
 * over 64 KiB at a time, so that on a path with a window of a few segments the last one leaves many RTTs later.
 *
 *   (5)  N = max(1, 64 KiB / cwnd), and 1 before the first loss: slow start opens the window meanwhile
 *
 * A buffer of a fixed size would go whole into the send queue of the first subflow, before others are established, and what
 * is queued stays there. So TCP_NOTSENT_LOWAT, which the kernel's scheduler obeys, limits what waits unsent to
 *
 *   (6)  unsent <= max(cwnd, 3 best max_j(srtt_j)) over the subflows j that are not held
 *
 * which is enough for the longest path to be asked for data in its turn: the scheduler compares waits in queues.
 *
 * Where a burst overflows a queue, the repair takes round trip after round trip, and holds up the faster ones for as long. So
 * the kernel paces a subflow that would hold them up by a single one:
 *
 *   (7)  it sends no faster than its rate while R (T + srtt N) > W, and before its first loss; unless less than
 *        64 KiB of the program's are sent or waiting
 *
 * A buffer that grows would stay small while a path is held, and the path held while the buffer is small. So a subflow's part of
 * it (sndbuf_expand) has room for what the faster ones send meanwhile:
 *
 *   (8)  buffer >= 2 cwnd (1 + min(R T, W) / cwnd)            the kernel's is 2 cwnd; best_j may be that of a burst
 *
 * A released path carries data a second later at worst (holding.h). Reinjection ignores rates, so that a held path takes over
 * when the others die. Not here: growth and reduction of windows.
 */
#ifndef MPTUNE_HOLD_H
#define MPTUNE_HOLD_H

#include "holding.h"
#include "pacing.h"
#include "siblings.h"

/* Equation 5: bytes that the scheduler hands over at a time (MPTCP_SEND_BURST_SIZE). */
#define BURST 65428
/* Equation 2: quarters of the smallest RTT. Equation 3: the window's part below which it is released, 1/64. */
#define LEAST_RTTS 5
#define RELEASED_BELOW 54
/* us, 2 minutes: bounds the product of equation 3. */
#define LONGEST_US (1ull << 27)
/* Equation 6: what may wait, in parts of what is delivered in the longest RTT; and in bytes, more than any buffer. */
#define WAITING_RTTS 3
#define MOST_UNSENT (1ull << 30)
/* Equation 8: windows in the kernel's buffer, segments of its smallest, and segments beyond which a part does not grow. */
#define WINDOWS 2
#define LEAST_WINDOW 10u
#define MOST_BUFFERED (1u << 18)
/* us for which a best rate counts, once or twice. */
#define MEMORY_US 2000000

struct hold {
	__u32 rate;	  /* R, 1024 bytes per second; kept in the socket (see for_each_subflow) */
	__u32 best[2];	  /* of this and the last period, 1024 bytes per second */
	__u32 period;	  /* when this one began, us */
	__u32 longest;	  /* of equation 6, us */
	__u8 faster;	  /* siblings in R */
	bool held;
	bool paced; /* equation 7 */
};

/* A policy that goes on from here (quick.h) has a state of its own, which begins with this one. */
#ifndef POLICY_PRIVATE
#define POLICY_PRIVATE struct hold
#define POLICY_OBSERVE remember
#define POLICY_BUFFERED buffered_windows
#define policy_rate hold_rate
#endif

static __always_inline POLICY_PRIVATE *policy(struct sock *sk);
static __always_inline const POLICY_PRIVATE *policy_of(const struct tcp_sock *tp);

static __always_inline struct hold *holding(struct sock *sk)
{
	return (struct hold *)policy(sk);
}

/* Largest delivery rate of a subflow, bytes per second. */
static __always_inline __u64 best(const struct hold *hold)
{
	return (__u64)max(hold->best[0], hold->best[1]) << 10;
}

/* An ACK: its sample of the delivery rate. */
static __always_inline void remember(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hold *hold = holding(sk);
	__u64 rate;

	if (!tp->rate_interval_us)
		return;
	rate = (__u64)tp->rate_delivered * tp->mss_cache * 1000000 / tp->rate_interval_us;
	if (passed(&hold->period, now_us(), MEMORY_US)) {
		hold->best[1] = hold->best[0];
		hold->best[0] = 0;
	}
	hold->best[0] = max(hold->best[0], (__u32)(rate >> 10));
}

/* A time on a path, N times: equation 5. us, below 2^32 * 2^16. */
static __always_inline __u64 of_burst(const struct tcp_sock *tp, __u32 time)
{
	__u64 window = (__u64)max(tp->snd_cwnd, 1u) * max(tp->mss_cache, 1u);

	if (window >= BURST || tp->snd_ssthresh >= INFINITE_SSTHRESH)
		return time;
	return (__u64)time * BURST / window;
}

/* Equation 1, and the longest RTT. */
static __always_inline void sum_of_faster(const struct tcp_sock *tp, struct hold *hold, struct walk *walk)
{
	__u64 own = of_burst(tp, tp->rtt_min.s[0].v);
	struct subflow subflow;

	hold->rate = 0;
	hold->faster = 0;
	hold->longest = 0;
	for_each_subflow(walk, &subflow) {
		hold->longest = max(hold->longest, subflow.tp->srtt_us >> 3);
		if (subflow.tp != tp && !subflow.tp->inet_conn.icsk_retransmits &&
		    of_burst(subflow.tp, subflow.tp->rtt_min.s[0].v) < own) {
			hold->rate += best((const struct hold *)policy_of(subflow.tp)) >> 10;
			hold->faster++;
		}
	}
}

static __always_inline const struct mptcp_sock *connection_of(const struct walk *walk)
{
	return bpf_rdonly_cast(walk->mine->conn, bpf_core_type_id_kernel(struct mptcp_sock));
}

/* Bytes that the connection may have under way. */
static __always_inline __u64 window_of(const struct walk *walk)
{
	const struct mptcp_sock *connection = connection_of(walk);

	return min(connection->wnd_end - connection->snd_una, (__u64)connection->sk.icsk_inet.sk.sk_sndbuf);
}

/* Equation 3, in 1/64 of the window. */
static __always_inline __u32 held_above(const struct walk *walk, const struct hold *hold)
{
	const struct sock *sk = &connection_of(walk)->sk.icsk_inet.sk;

	return hold->held && BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_SNDBUF_LOCK ? RELEASED_BELOW : 64;
}

/* T of equation 2 for N = 1, us. */
static __always_inline __u32 under_way(const struct tcp_sock *tp)
{
	__u64 least = (__u64)tp->rtt_min.s[0].v * LEAST_RTTS / 4;

	return max(tp->srtt_us >> 3, (__u32)least);
}

/* R times a time on the path, of us, and N, after equation 1. Below 2^34 bytes per second for 2^27 us. */
static __always_inline __u64 sent_meanwhile(const struct tcp_sock *tp, const struct hold *hold, __u32 time)
{
	return ((__u64)hold->rate << 10) * min(of_burst(tp, time), LONGEST_US) / 1000000;
}

/* Equations 3 and 7. */
enum { HARMLESS, PACED, HELD };

SEPARATE int harm(struct tcp_sock *tp HOOKS_SOCKET)
{
	struct hold *hold = holding((struct sock *)tp);
	__u64 window, most, waiting;
	struct walk walk;

	hold->faster = 0;
	if (!begin(&walk, tp))
		return HARMLESS;
	window = window_of(&walk);
	most = window * held_above(&walk, hold);
	waiting = connection_of(&walk)->write_seq - connection_of(&walk)->snd_una;
	sum_of_faster(tp, hold, &walk);
	if (!hold->faster)
		return HARMLESS;
	if (sent_meanwhile(tp, hold, under_way(tp)) * 64 > most)
		return HELD;
	if (waiting <= BURST)
		return HARMLESS;
	if (tp->snd_ssthresh >= INFINITE_SSTHRESH)
		return PACED;
	return sent_meanwhile(tp, hold, under_way(tp) + (tp->srtt_us >> 3)) > window ? PACED : HARMLESS;
}

/* Equation 8, in windows. The kernel's product is of 32 bits, with less than 2^13 bytes for a segment. */
static __always_inline __u32 buffered_windows(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct hold *hold = holding(sk);
	__u32 cwnd = max(tp->snd_cwnd, LEAST_WINDOW);
	__u64 meanwhile, windows = WINDOWS;
	struct walk walk;

	if (hold->faster && begin(&walk, tp)) {
		meanwhile = min(sent_meanwhile(tp, hold, under_way(tp)), window_of(&walk));
		windows += WINDOWS * meanwhile / ((__u64)cwnd * max(tp->mss_cache, 1u));
	}
	return min(windows, max((__u64)MOST_BUFFERED / cwnd, (__u64)WINDOWS));
}

/* Equation 6. The kernel wakes up whoever waits for room, so that small changes are not worth it. */
static __always_inline void limit_queue(struct sock *sk, const struct hold *hold)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u64 window = (__u64)tp->snd_cwnd * tp->mss_cache;
	__u64 unsent = max(window, best(hold) * hold->longest * WAITING_RTTS / 1000000);
	__u32 before = tp->notsent_lowat;
	int bytes = min(unsent, MOST_UNSENT);

	/* It is the connection that the kernel wakes up. */
	if (!context_at(tp->inet_conn.icsk_ulp_data)->conn)
		return;
	if (bytes > before + before / 8 || bytes < before - before / 8)
		bpf_setsockopt(sk, SOL_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

/* Bytes per second of the subflow, 0 to hold it. */
static __always_inline __u64 hold_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hold *hold = holding(sk);
	__u64 delivers = best(hold);
	int does = harm(tp);

	hold->held = does == HELD;
	pace_only_if(sk, &hold->paced, does == PACED);
	if (is_subflow(tp))
		limit_queue(sk, hold);
	if (hold->held)
		return 0;
	if (!is_subflow(tp) || !delivers)
		return max(window_rate(tp), 1ull);
	/* Equation 4. */
	return max(2 * min(delivers, (__u64)tp->snd_cwnd * tp->mss_cache * 8000000 / max(tp->srtt_us, 1u)), 1ull);
}

/* A new subflow. */
static __always_inline void policy_init(struct sock *sk)
{
	if (is_subflow(tcp_sk(sk)))
		keep_alive(sk);
}

#endif
