/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* weight: shares of the data among paths.
 *
 * Rates as weights of the scheduler give shares of queued data, and those only while the paths carry less than they could. So a
 * share is enforced, by pacing:
 *
 *   (1)  b_j = largest delivery rate of j in the last 2 to 4 s;  x_j = average of what it delivers, over T = 1 s
 *   (2)  m = min b_j / w_j  and  a = (x / w) / min (x_j / w_j)  over siblings j that have data out, have made progress
 *        since an RTO, and have lost something or delivered for 2 T
 *   (3)  limit = w m min(max(9/8 + 1 - a, 1/2), 2), none without such a sibling
 *   (4)  rate = min(rate of the window algorithm, limit), enforced by pacing
 *
 * A subflow follows the sibling that is the tightest for its weight, by what the path of that one can do rather than by
 * what it was given; an eighth more leaves that one room to grow, and who is ahead (a > 1) gets less. On one path, and
 * without MPTCP, there is no sibling and no limit. Not here: growth and reduction of windows; the weights (paths.h).
 */
#ifndef MPTUNE_WEIGHT_H
#define MPTUNE_WEIGHT_H

#include "pacing.h"
#include "paths.h"
#include "recovery.h"
#include "siblings.h"

/* Equation 1, us. */
#define AVERAGE_US 1000000u
#define STEP_US 50000u
#define MEMORY_US 2000000u
/* Equation 3, 1/64: 9/8 + 1, 1/2 and 2. */
#define BALANCED 136
#define LEAST_PART 32
#define MOST_PART 128
/* Rates are kept in units of 64 bytes per second. */
#define RATE_SHIFT 6
#define UNLIMITED (~0u)

/* 36 bytes, which is all that there is. */
struct weight {
	__u32 best[2];	   /* of this and the last period */
	__u32 period;	   /* when this one began, us */
	__u32 average, at; /* and its last step, us */
	__u32 delivered;   /* segments until then */
	__u32 able, share; /* smallest of siblings, for their weights; kept in the socket (see for_each_subflow) */
	__u16 weight;
	__u8 periods; /* so far, up to 255 */
	bool paced;
};

static __always_inline struct weight *policy(struct sock *sk);
static __always_inline const struct weight *policy_of(const struct tcp_sock *tp);

/* Segments in a time. */
static __always_inline __u32 rate_of(const struct tcp_sock *tp, __u32 segments, __u32 us)
{
	/* 2^31 * 2^14 * 2^20 at most would not fit: 2^24 segments are 16 million between two ACKs. */
	__u64 rate = (__u64)min(segments, 1u << 24) * tp->mss_cache * 1000000 / max(us, 1u) >> RATE_SHIFT;

	return min(rate, (__u64)(UNLIMITED - 1));
}

static __always_inline void look(struct sock *sk)
{
	const struct parameters *parameters = told(sk);

	policy(sk)->weight = parameters && parameters->weight ? min(parameters->weight, 0xffffu) : 1;
}

/* Equation 1: the average. The mean of all, until there is enough for it. */
static __always_inline void step(const struct tcp_sock *tp, struct weight *weight, __u32 now)
{
	__u32 span = now - weight->at, age = now - weight->period;
	__s64 rate;

	if (span < STEP_US)
		return;
	rate = rate_of(tp, tp->delivered - weight->delivered, span);
	age = max(span, weight->periods ? AVERAGE_US : min(age, AVERAGE_US));
	/* Unsigned division: the average grows or shrinks. */
	if (rate >= weight->average)
		weight->average += (__u64)(rate - weight->average) * span / age;
	else
		weight->average -= (__u64)(weight->average - rate) * span / age;
	weight->at = now;
	weight->delivered = tp->delivered;
}

/* An ACK. */
static __always_inline void remember(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct weight *weight = policy(sk);
	__u32 now = now_us();

	if (!is_subflow(tp))
		return;
	if (passed(&weight->period, now, MEMORY_US)) {
		weight->best[1] = weight->best[0];
		weight->best[0] = 0;
		weight->periods = min(weight->periods + 1, 255);
		look(sk);
	}
	if (tp->rate_interval_us)
		weight->best[0] = max(weight->best[0], rate_of(tp, tp->rate_delivered, tp->rate_interval_us));
	step(tp, weight, now);
}

/* A rate for its weight, in sixteenths of the units that both have. */
static __always_inline __u32 for_weight(const struct weight *weight, __u32 rate)
{
	return min((__u64)rate * 16 / max((__u32)weight->weight, 1u), (__u64)(UNLIMITED - 1));
}

/* Equation 2. */
static __always_inline void smallest(const struct tcp_sock *tp, struct weight *weight, struct walk *walk)
{
	struct subflow subflow;

	weight->able = weight->share = UNLIMITED;
	for_each_subflow(walk, &subflow) {
		const struct tcp_sock *sibling = subflow.tp;
		const struct weight *other = policy_of(sibling);
		__u32 best = max(other->best[0], other->best[1]);

		if (sibling == tp || !sibling->packets_out || sibling->inet_conn.icsk_retransmits || !best ||
		    (!other->periods && sibling->snd_ssthresh >= INFINITE_SSTHRESH))
			continue;
		weight->able = min(weight->able, for_weight(other, best));
		weight->share = min(weight->share, for_weight(other, other->average));
	}
}

/* Equation 3, bytes per second; 0 for no limit. */
SEPARATE __u64 limit_of(struct tcp_sock *tp HOOKS_SOCKET)
{
	struct weight *weight = policy((struct sock *)tp);
	struct walk walk;
	__u64 ahead, part, least = (__u64)tp->mss_cache * 8000000 / max(tp->srtt_us, 1u);

	if (!begin(&walk, tp))
		return 0;
	smallest(tp, weight, &walk);
	if (weight->able == UNLIMITED)
		return 0;
	ahead = (__u64)for_weight(weight, weight->average) * 64 / max(weight->share, 1u);
	part = ahead > BALANCED - LEAST_PART ? LEAST_PART : min((__u64)BALANCED - ahead, (__u64)MOST_PART);
	/* 2^16 * 2^32 * 2^7; the units of 64 bytes and the 64ths cancel each other. */
	return max((__u64)weight->weight * weight->able * part / 16, max(least, 1ull));
}

/* Bytes per second of the subflow. */
static __always_inline __u64 policy_rate(struct sock *sk)
{
	struct weight *weight = policy(sk);

	return limited(sk, &weight->paced, is_subflow(tcp_sk(sk)) ? limit_of(tcp_sk(sk)) : 0);
}

/* A new subflow. */
static __always_inline void policy_init(struct sock *sk)
{
	struct weight *weight = policy(sk);

	if (!is_subflow(tcp_sk(sk)))
		return;
	weight->at = now_us();
	weight->period = weight->at;
	weight->delivered = tcp_sk(sk)->delivered;
	look(sk);
}

#define POLICY_PRIVATE struct weight
#define POLICY_OBSERVE remember

#endif
