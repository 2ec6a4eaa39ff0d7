/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Parts of the coupled congestion controls: growth by fractions of a segment. Not here: the increase, in which they differ,
 * and the way to the other subflows (siblings.h).
 */
#ifndef MPTUNE_COUPLED_H
#define MPTUNE_COUPLED_H

#include "siblings.h"

/* Growth is in units of 2^-32 segment. */
#define SEGMENT (1ull << 32)

/* The linked increase of OLIA and BALIA, (w_r / rtt_r^2) / (sum of w_p / rtt_p)^2, for one acknowledged
 * segment. With rtt_r^2 multiplied into the denominator it is share / sum, where share = w_r / sum is at most 1 and in
 * units of 2^-26, so that nothing is squared: the numerators have 20 + 42 and 26 + 22 bits. */
static __always_inline __u64 share_of(__u64 cwnd, __u64 sum)
{
	return (min(cwnd, MAX_WINDOW) << (RATIO_SHIFT + 26)) / sum;
}

static __always_inline __u64 linked_increase(__u64 cwnd, __u64 sum)
{
	return (share_of(cwnd, sum) << (RATIO_SHIFT + 6)) / sum;
}

/* An increase computed once per window of the hook's own subflow: the cost of an ACK does not rise with the number of
 * subflows, and the increase is at most an RTT old. */
struct per_window {
	__u64 increase; /* for each acknowledged segment, 2^-32 segment */
	__u32 end;	/* the window ends when this sequence number is acknowledged */
	bool valid;	/* false after congestion, which changes windows */
};

static __always_inline bool is_current(struct per_window *growth, const struct tcp_sock *tp, __u32 ack)
{
	if (growth->valid && after(growth->end, ack))
		return true;
	growth->end = tp->snd_nxt;
	growth->valid = true;
	return false;
}

/* Adds growth (2^-32 segment, may be negative, below 2^62) to the window; less than a segment stays in
 * `fraction`. The window stays between 1 and the socket's limit. */
static __always_inline void grow(struct tcp_sock *tp, __u32 *fraction, __s64 growth)
{
	__s64 total = growth + *fraction;
	__s64 cwnd = (__s64)tp->snd_cwnd + (total >> 32);

	*fraction = (__u32)total;
	tp->snd_cwnd = cwnd < 1 ? 1 : min(cwnd, (__s64)tp->snd_cwnd_clamp);
}

#endif
