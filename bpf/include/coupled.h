/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Parts of the coupled congestion controls: access to the connection's other subflows, sums over them, and growth by
 * fractions of a segment. Not here: the increase, in which they differ.
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
 * (RFC 8684 section 3.3.8).
 */
#ifndef MPTUNE_COUPLED_H
#define MPTUNE_COUPLED_H

#include "kernel.h"

/* Entries of the list that are visited: in-kernel path managers make up to 9 subflows. */
#define MAX_SUBFLOWS 32
/* Larger windows count as 2^20 segments, 1.5 GB. */
#define MAX_WINDOW (1ull << 20)
/* Ratios of RTTs are in units of 2^-16 and at most 2^10. */
#define RATIO_SHIFT 16
#define MAX_RATIO (1ull << (10 + RATIO_SHIFT))
/* Growth is in units of 2^-32 segment. */
#define SEGMENT (1ull << 32)

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

static __always_inline bool advance(struct walk *walk)
{
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
	       !BPF_CORE_READ_BITFIELD(walk->current, stale) &&
	       is_standby(walk->current) == is_standby(walk->mine);
}

/* Reads the subflow that the walk has reached; false if it does not count or has already been counted. */
static __always_inline bool observe(const struct walk *walk, bool first, struct subflow *subflow)
{
	const struct tcp_sock *tp = walk->own;
	__u64 cwnd;
	__u8 state;

	if (!first) {
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

/* for_each_subflow(&walk, &subflow) { ... } after begin(&walk, own). Keep the body's sums in the socket, not in
 * variables: the verifier forgets what is stored there, but would track every value that a variable can take
 * from subflow to subflow. */
#define for_each_subflow(walk, subflow)                                        \
	for (int step_ = 0; step_ <= MAX_SUBFLOWS && (!step_ || advance(walk)); step_++) \
		if (observe(walk, !step_, subflow))

/* Segments per own RTT, 2^-16. At most 2^46; the sum over 32 subflows at most 2^51. */
static __always_inline __u64 rate(const struct subflow *subflow)
{
	return subflow->cwnd * subflow->ratio;
}

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
