/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A rate above which a subflow does not send: the kernel paces it. Not here: the rate.
 *
 * Source of the facts: include/net/sock.h (enum sk_pacing), net/ipv4/tcp_output.c (tcp_needs_internal_pacing).
 */
#ifndef MPTUNE_PACING_H
#define MPTUNE_PACING_H

#include "recovery.h"

static __always_inline bool is_subflow(const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

/* The window algorithm's rate, at most `most`, which is kept; 0 for no limit. `paced`: it is this that asked for pacing,
 * not the application or fq. */
static __always_inline __u64 limited(struct sock *sk, bool *paced, __u64 most)
{
	__u64 rate = max(window_rate(tcp_sk(sk)), 1ull);

	if (!most) {
		if (*paced && sk->sk_pacing_status == SK_PACING_NEEDED)
			sk->sk_pacing_status = SK_PACING_NONE;
		*paced = false;
		return rate;
	}
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		*paced = true;
	}
	return min(rate, most);
}

#endif
