/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* cap: at most so many bit/s of payload on a path.
 *
 *   (1)  rate = min(rate of the window algorithm, cap), enforced by pacing
 *
 * A congestion control with `cong_control` owns sk_pacing_rate, and with sk_pacing_status it asks for it to be kept, by TCP's
 * own timer or by fq. As of any paced subflow the first ten segments leave at once (tcp_update_skb_after_send). The
 * scheduler weighs the subflow by the same rate. Without a cap, and without MPTCP, nothing is paced that the window algorithm
 * alone would not pace. Not here: growth and reduction of windows; the caps (paths.h).
 */
#ifndef MPTUNE_CAP_H
#define MPTUNE_CAP_H

#include "pacing.h"
#include "paths.h"
#include "recovery.h"

struct cap {
	__u64 most;   /* bytes per second, 0 without a cap */
	__u32 looked; /* us */
	bool paced;
};

static __always_inline struct cap *policy(struct sock *sk);

static __always_inline void look(struct sock *sk)
{
	const struct parameters *parameters = told(sk);

	policy(sk)->most = parameters ? parameters->cap : 0;
}

/* Bytes per second of the subflow. */
static __always_inline __u64 policy_rate(struct sock *sk)
{
	struct cap *cap = policy(sk);

	if (is_subflow(tcp_sk(sk)) && looks_again(&cap->looked))
		look(sk);
	return limited(sk, &cap->paced, cap->most);
}

/* A new subflow. */
static __always_inline void policy_init(struct sock *sk)
{
	policy(sk)->looked = now_us();
	if (is_subflow(tcp_sk(sk)))
		look(sk);
}

static __always_inline void policy_observe(struct sock *sk)
{
}

#define POLICY_PRIVATE struct cap
#define POLICY_OBSERVE policy_observe

#endif
