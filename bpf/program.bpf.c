// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The program of a window algorithm of congestion/: its hooks, in the kernel's table of a congestion control.
 *
 * Not an algorithm. Compiled with the algorithm's header before it (-include) and two names: ALGORITHM for the programs
 * of its hooks, REGISTERED for the table and for TCP_CONGESTION.
 */
#include "kernel.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define PASTED(a, b) a##_##b
#define NAMED(algorithm, hook) PASTED(algorithm, hook)
/* A hook of the kernel, as a program called like both. */
#define DEFINED(name, ...) BPF_PROG(name, __VA_ARGS__)
#define PROGRAM(hook, ...) DEFINED(NAMED(hook, ALGORITHM), __VA_ARGS__)
#define TEXT(name) #name
#define QUOTED(name) TEXT(name)

#ifdef WINDOW_PRIVATE
_Static_assert(sizeof(WINDOW_PRIVATE) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "the socket has no room for more state");
#endif

#ifdef WINDOW_INIT
SEC("struct_ops/init")
void PROGRAM(init, struct sock *sk)
{
	WINDOW_INIT(sk);
}
#endif

SEC("struct_ops/ssthresh")
__u32 PROGRAM(ssthresh, struct sock *sk)
{
	return WINDOW_SSTHRESH(sk);
}

SEC("struct_ops/cong_avoid")
void PROGRAM(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	WINDOW_CONG_AVOID(sk, ack, acked);
}

#ifdef WINDOW_SET_STATE
SEC("struct_ops/set_state")
void PROGRAM(set_state, struct sock *sk, __u8 new_state)
{
	WINDOW_SET_STATE(sk, new_state);
}
#endif

#ifdef WINDOW_CWND_EVENT
SEC("struct_ops/cwnd_event")
void PROGRAM(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	WINDOW_CWND_EVENT(sk, event);
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

SEC(".struct_ops")
struct tcp_congestion_ops REGISTERED = {
#ifdef WINDOW_INIT
	.init = (void *)NAMED(init, ALGORITHM),
#endif
	.ssthresh = (void *)NAMED(ssthresh, ALGORITHM),
	.cong_avoid = (void *)NAMED(cong_avoid, ALGORITHM),
#ifdef WINDOW_SET_STATE
	.set_state = (void *)NAMED(set_state, ALGORITHM),
#endif
#ifdef WINDOW_CWND_EVENT
	.cwnd_event = (void *)NAMED(cwnd_event, ALGORITHM),
#endif
#ifdef WINDOW_PKTS_ACKED
	.pkts_acked = (void *)NAMED(pkts_acked, ALGORITHM),
#endif
	.undo_cwnd = (void *)NAMED(undo_cwnd, ALGORITHM),
	.name = QUOTED(REGISTERED),
};
