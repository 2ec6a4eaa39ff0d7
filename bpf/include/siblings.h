/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Access to the connection's other subflows, for coupled congestion controls and path policies. Not here: what they make of it.
 *
 * A hook holds only its own subflow's lock. It reaches the others through the connection's list (subflow context
 * -> mptcp_sock -> conn_list) and reads them in place:
 *
 * - Nothing is written to them, and there is no table beside the kernel's: nothing to update when a subflow
 *   goes to standby (without ACKs it could not report that), nothing to remove, no limit.
 * - The list may change during the walk. Hooks run in an RCU read section, within which neither the subflow
 *   contexts (kfree_rcu) nor the connection (each subflow holds it) are freed; a removed entry points to
 *   poison, where a load through a read-only cast yields 0 instead of a fault. At worst one ACK grows the
 *   window by a sum that misses a subflow.
 *
 * A subflow counts when it is established with an RTT sample, uses the same algorithm, is not stale, and
 * has the hook's own subflow's role, active or standby: standby ones carry data only when no active one can
 * (RFC 8684 section 3.3.8). Under a path policy that holds subflows, its rate is not 0.
 */
#ifndef MPTUNE_SIBLINGS_H
#define MPTUNE_SIBLINGS_H

#include "kernel.h"

/* Entries of the list that are visited: in-kernel path managers make up to 9 subflows. */
#define MAX_SUBFLOWS 32
/* Larger windows count as 2^20 segments, 1.5 GB. */
#define MAX_WINDOW (1ull << 20)
/* Ratios of RTTs are in units of 2^-16 and at most 2^10. */
#define RATIO_SHIFT 16
#define MAX_RATIO (1ull << (10 + RATIO_SHIFT))
/* A subflow that counts. */
struct subflow {
	const struct tcp_sock *tp;
	__u64 cwnd;  /* segments, 1 to 2^20; ssthresh while a recovery reduces the window */
	__u64 ratio; /* own RTT / its RTT: 1 for the own subflow */
};

/* A walk over the subflows. The hook's own comes first, whether or not the connection lists it yet. */
struct walk {
	const struct tcp_sock *own;
	const struct mptcp_subflow_context *mine, *current;
	const struct list_head *node, *end;
	int step; /* 0 for its own */
};

static __always_inline const struct mptcp_subflow_context *context_at(const void *address)
{
	return bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct mptcp_subflow_context));
}

/* False for plain TCP, without MPTCP in the kernel, and before the handshake has given an RTT sample. */
static __always_inline bool begin(struct walk *walk, const struct tcp_sock *own)
{
	const struct mptcp_sock *connection;

	if (!bpf_core_field_exists(own->is_mptcp) || !own->is_mptcp || !own->srtt_us)
		return false;
	walk->own = own;
	walk->mine = walk->current = context_at(own->inet_conn.icsk_ulp_data);
	connection = bpf_rdonly_cast(walk->mine->conn, bpf_core_type_id_kernel(struct mptcp_sock));
	walk->end = &connection->conn_list;
	walk->node = walk->end->next;
	return true;
}

/* To its own subflow first. */
static __always_inline bool advance(struct walk *walk)
{
	if (!walk->step)
		return true;
	if (!walk->node || walk->node == walk->end)
		return false;
	walk->current = context_at((const void *)walk->node -
				   bpf_core_field_offset(struct mptcp_subflow_context, node));
	walk->node = walk->node->next;
	return true;
}

static __always_inline bool is_standby(const struct mptcp_subflow_context *context)
{
	return BPF_CORE_READ_BITFIELD(context, backup) || BPF_CORE_READ_BITFIELD(context, request_bkup);
}

static __always_inline bool counts(const struct walk *walk, const struct tcp_sock *tp)
{
	__u8 state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

	return (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT) && tp->srtt_us &&
	       tp->inet_conn.icsk_ca_ops == walk->own->inet_conn.icsk_ca_ops &&
#ifdef POLICY_HOLDS
	       tp->inet_conn.icsk_inet.sk.sk_pacing_rate &&
#endif
	       !BPF_CORE_READ_BITFIELD(walk->current, stale) &&
	       is_standby(walk->current) == is_standby(walk->mine);
}

/* Reads the subflow that the walk has reached; false if it does not count or has already been counted. */
static __always_inline bool observe(const struct walk *walk, struct subflow *subflow)
{
	const struct tcp_sock *tp = walk->own;
	__u64 cwnd;
	__u8 state;

	if (walk->step) {
		tp = bpf_rdonly_cast(walk->current->tcp_sock, bpf_core_type_id_kernel(struct tcp_sock));
		if (walk->current == walk->mine || !counts(walk, tp))
			return false;
	}
	state = ca_state(tp);
	cwnd = state == TCP_CA_CWR || state == TCP_CA_Recovery ? tp->snd_ssthresh : tp->snd_cwnd;
	subflow->tp = tp;
	subflow->cwnd = min(max(cwnd, 1ull), MAX_WINDOW);
	/* The numerator has 32 + 16 bits. */
	subflow->ratio = min(((__u64)walk->own->srtt_us << RATIO_SHIFT) / max(tp->srtt_us, 1u), MAX_RATIO);
	return true;
}

/* for_each_subflow(&walk, &subflow) { ... } after begin(&walk, own). Keep the body's sums in the socket, not in variables:
 * the verifier forgets what is stored there, and so sees soon that a turn brings nothing new. */
#define for_each_subflow(walk, subflow)                 \
	for_turns((walk)->step, MAX_SUBFLOWS + 1)       \
		if (!advance(walk))                     \
			break;                          \
		else if (observe(walk, subflow))

/* Segments per own RTT, 2^-16. At most 2^46; the sum over 32 subflows at most 2^51. */
static __always_inline __u64 rate(const struct subflow *subflow)
{
	return subflow->cwnd * subflow->ratio;
}

#endif
