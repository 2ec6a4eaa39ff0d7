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

/* The kernel paces the subflow, or it does not. `paced`: it is this that asked for pacing, not the application or fq. */
static __always_inline void pace_only_if(struct sock *sk, bool *paced, bool wanted)
{
	if (wanted && sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		*paced = true;
	}
	if (wanted)
		return;
	if (*paced && sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	*paced = false;
}

/* The window algorithm's rate, at most `most`, which is kept; 0 for no limit. */
static __always_inline __u64 limited(struct sock *sk, bool *paced, __u64 most)
{
	__u64 rate = max(window_rate(tcp_sk(sk)), 1ull);

	pace_only_if(sk, paced, most);
	return most ? min(rate, most) : rate;
}

#endif
