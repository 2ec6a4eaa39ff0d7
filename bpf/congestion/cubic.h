/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Cubic: RFC 9438, by the kernel's own functions (net/ipv4/tcp_cubic.c), for a path policy to go with it. Not a program
 * alone: that is in every kernel.
 */
#ifndef MPTUNE_CUBIC_H
#define MPTUNE_CUBIC_H

#include "kernel.h"

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;

#ifdef TX_START
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym;

static __always_inline void cubic_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		cubictcp_cwnd_event_tx_start(sk);
}
#else
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;

#define cubic_cwnd_event cubictcp_cwnd_event
#endif

/* Its state in the kernel, struct bictcp: 60 bytes. */
struct cubic {
	__u64 kernel[8];
};

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT cubictcp_init
#define WINDOW_SSTHRESH cubictcp_recalc_ssthresh
#define WINDOW_CONG_AVOID cubictcp_cong_avoid
#define WINDOW_SET_STATE cubictcp_state
#define WINDOW_CWND_EVENT cubic_cwnd_event
#define WINDOW_PKTS_ACKED cubictcp_acked
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct cubic

#endif
