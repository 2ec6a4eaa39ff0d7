// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The program of a window algorithm of congestion/, alone or with a path policy of scheduling/: their hooks, in the kernel's
 * table of a congestion control.
 *
 * Neither an algorithm nor a policy. Compiled with their headers before it (-include), the policy's first, and two names:
 * ALGORITHM for the programs of the hooks, REGISTERED for the table and for TCP_CONGESTION.
 *
 * Alone, an algorithm has `cong_avoid`, and the kernel does the rest. With a policy, which owns the pacing rate, it has
 * `cong_control` in its place, and recovery.h does the rest.
 *
 * With TX_START it is for kernels in which the start of sending after an idle time is a hook of its own (Linux 7.3).
 */
#include "kernel.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define PASTED(a, b) a##_##b
#define NAMED(algorithm, hook) PASTED(algorithm, hook)
/* A hook of the kernel, as a program called like both. */
#define TEXT(name) #name
#define QUOTED(name) TEXT(name)
#define DEFINED(name, ...) BPF_PROG(name, __VA_ARGS__)
#define PROGRAM(hook, ...) DEFINED(NAMED(hook, ALGORITHM), __VA_ARGS__)

/* The state in the socket: the algorithm's in front, the policy's and that of its recovery behind it. */
#define SOCKET_BYTES sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv)
#ifdef POLICY_PRIVATE
struct paired {
	POLICY_PRIVATE policy;
	__u32 delivered; /* see reduce() */
};
#define WINDOW_BYTES 64
_Static_assert(WINDOW_BYTES + sizeof(struct paired) <= SOCKET_BYTES, "the socket has no room for more state");
#else
#define WINDOW_BYTES SOCKET_BYTES
#endif
#ifdef WINDOW_PRIVATE
_Static_assert(sizeof(WINDOW_PRIVATE) <= WINDOW_BYTES, "the socket has no room for more state");
#endif

#ifdef POLICY_PRIVATE

static __always_inline struct paired *paired(const struct tcp_sock *tp)
{
	return (struct paired *)((char *)tp->inet_conn.icsk_ca_priv + WINDOW_BYTES);
}

/* Not every policy reads its own state, or that of a sibling. */
__attribute__((unused)) static __always_inline POLICY_PRIVATE *policy(struct sock *sk)
{
	return &paired(tcp_sk(sk))->policy;
}

__attribute__((unused)) static __always_inline const POLICY_PRIVATE *policy_of(const struct tcp_sock *tp)
{
	return &paired(tp)->policy;
}

static __always_inline void pace(struct sock *sk)
{
	sk->sk_pacing_rate = min(policy_rate(sk), (__u64)sk->sk_max_pacing_rate);
}

#endif

#if defined(WINDOW_INIT) || defined(POLICY_PRIVATE)
SEC("struct_ops/init")
void PROGRAM(init, struct sock *sk)
{
#ifdef WINDOW_INIT
	WINDOW_INIT(sk);
#endif
#ifdef POLICY_PRIVATE
	__builtin_memset(paired(tcp_sk(sk)), 0, sizeof(struct paired));
	policy_init(sk);
	pace(sk);
#endif
}
#endif

SEC("struct_ops/ssthresh")
__u32 PROGRAM(ssthresh, struct sock *sk)
{
	return WINDOW_SSTHRESH(sk);
}

#ifdef POLICY_PRIVATE
SEC("struct_ops/cong_control")
void PROGRAM(cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_reducing(ca_state(tp)))
		reduce(tp, &paired(tp)->delivered, rs, flag);
	else if (may_grow(tp, flag))
		WINDOW_CONG_AVOID(sk, ack, rs->acked_sacked);
	POLICY_OBSERVE(sk);
	pace(sk);
}

/* An ACK of nothing, as keepalive brings. */
SEC("struct_ops/in_ack_event")
void PROGRAM(in_ack_event, struct sock *sk, __u32 flags)
{
	if (!tcp_sk(sk)->packets_out)
		pace(sk);
}
#else
SEC("struct_ops/cong_avoid")
void PROGRAM(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	WINDOW_CONG_AVOID(sk, ack, acked);
}
#endif

#if defined(WINDOW_SET_STATE) || defined(POLICY_PRIVATE)
SEC("struct_ops/set_state")
void PROGRAM(set_state, struct sock *sk, __u8 new_state)
{
#ifdef POLICY_PRIVATE
	change_state(tcp_sk(sk), &paired(tcp_sk(sk))->delivered, new_state);
#endif
#ifdef WINDOW_SET_STATE
	WINDOW_SET_STATE(sk, new_state);
#endif
}
#endif

#if defined(WINDOW_CWND_EVENT) || defined(POLICY_PRIVATE)
#ifdef WINDOW_CWND_EVENT
#define REPORT(sk, event) WINDOW_CWND_EVENT(sk, event)
#else
#define REPORT(sk, event) ((void)0)
#endif

static __always_inline void sending_starts(struct sock *sk)
{
#ifdef POLICY_PRIVATE
	/* The kernel would have reported the restart, and then the start. */
	if (restart(tcp_sk(sk)))
		REPORT(sk, CA_EVENT_CWND_RESTART);
#endif
	REPORT(sk, CA_EVENT_TX_START);
}

#ifdef TX_START
SEC("struct_ops/cwnd_event_tx_start")
void PROGRAM(cwnd_event_tx_start, struct sock *sk)
{
	sending_starts(sk);
}
#endif

SEC("struct_ops/cwnd_event")
void PROGRAM(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		sending_starts(sk);
	else
		REPORT(sk, event);
}
#endif

#ifdef WINDOW_PKTS_ACKED
SEC("struct_ops/pkts_acked")
void PROGRAM(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	WINDOW_PKTS_ACKED(sk, sample);
}
#endif

SEC("struct_ops/undo_cwnd")
__u32 PROGRAM(undo_cwnd, struct sock *sk)
{
	return WINDOW_UNDO_CWND(sk);
}

#ifdef POLICY_BUFFERED
SEC("struct_ops/sndbuf_expand")
__u32 PROGRAM(sndbuf_expand, struct sock *sk)
{
	return POLICY_BUFFERED(sk);
}
#endif

SEC(".struct_ops")
struct tcp_congestion_ops REGISTERED = {
#if defined(WINDOW_INIT) || defined(POLICY_PRIVATE)
	.init = (void *)NAMED(init, ALGORITHM),
#endif
	.ssthresh = (void *)NAMED(ssthresh, ALGORITHM),
#ifdef POLICY_PRIVATE
	.cong_control = (void *)NAMED(cong_control, ALGORITHM),
	.in_ack_event = (void *)NAMED(in_ack_event, ALGORITHM),
#else
	.cong_avoid = (void *)NAMED(cong_avoid, ALGORITHM),
#endif
#if defined(WINDOW_SET_STATE) || defined(POLICY_PRIVATE)
	.set_state = (void *)NAMED(set_state, ALGORITHM),
#endif
#if defined(WINDOW_CWND_EVENT) || defined(POLICY_PRIVATE)
	.cwnd_event = (void *)NAMED(cwnd_event, ALGORITHM),
#ifdef TX_START
	.cwnd_event_tx_start = (void *)NAMED(cwnd_event_tx_start, ALGORITHM),
#endif
#endif
#ifdef WINDOW_PKTS_ACKED
	.pkts_acked = (void *)NAMED(pkts_acked, ALGORITHM),
#endif
	.undo_cwnd = (void *)NAMED(undo_cwnd, ALGORITHM),
#ifdef POLICY_BUFFERED
	.sndbuf_expand = (void *)NAMED(sndbuf_expand, ALGORITHM),
#endif
	.name = QUOTED(REGISTERED),
};
