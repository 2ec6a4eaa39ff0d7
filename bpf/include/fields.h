/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields, constants and functions of the kernel that the congestion controls use, by their kernel
 * names. Not a copy of the kernel's headers: the loader looks the fields up by name in the running kernel (CO-RE);
 * their order and number here mean nothing. Built into a kernel (builtin/), they have its own headers instead.
 *
 * Sources of the facts: include/linux/tcp.h, include/net/tcp.h, include/net/inet_connection_sock.h,
 * net/mptcp/protocol.h; net/ipv4/bpf_tcp_ca.c for what a program may write and call.
 */
#ifndef MPTUNE_FIELDS_H
#define MPTUNE_FIELDS_H

typedef unsigned char __u8;
typedef unsigned short __u16, __be16;
typedef unsigned int __u32, __be32, __wsum;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef _Bool bool;

#define true 1
#define false 0

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* include/linux/socket.h, include/uapi/asm-generic/socket.h, include/uapi/linux/tcp.h, include/uapi/linux/bpf.h */
enum { AF_INET6 = 10, SOL_SOCKET = 1, SO_KEEPALIVE = 9 };
enum { SOL_TCP = 6, TCP_KEEPIDLE = 4, TCP_KEEPINTVL = 5, TCP_KEEPCNT = 6, TCP_NOTSENT_LOWAT = 25 };
enum { BPF_MAP_TYPE_LPM_TRIE = 11, BPF_F_NO_PREALLOC = 1 };
enum { SOCK_SNDBUF_LOCK = 1 };		     /* include/net/sock.h: the application set the buffer */
enum { SK_PACING_NONE, SK_PACING_NEEDED }; /* include/net/sock.h */
enum { TCP_ESTABLISHED = 1, TCP_CLOSE_WAIT = 8 };
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	int sk_sndbuf;
	__u8 sk_userlocks : 4;
	unsigned long sk_pacing_rate; /* bytes per second; may be written */
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status; /* SK_PACING_NONE and so on; may be written */
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits; /* timeouts since the last progress */
	__u32 icsk_rto; /* jiffies */
	__u64 icsk_ca_priv[13]; /* 104 bytes; may be written */
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;     /* segments; may be written */
	__u32 snd_cwnd_cnt; /* Reno's count of segments towards the next; may be written */
	__u32 snd_ssthresh; /* segments; may be written */
	__u32 snd_cwnd_clamp;
	__u32 snd_nxt, write_seq;
	__u32 srtt_us;	 /* smoothed RTT, eighths of a microsecond; 0 without a sample */
	__u32 delivered; /* segments acknowledged, cumulatively or selectively; wraps */
	__u32 max_packets_out;
	__u32 mss_cache; /* bytes */
	__u32 packets_out, sacked_out, lost_out, retrans_out; /* segments */
	__u32 prior_cwnd, prr_out;		 /* segments; of the reduction that goes on */
	__u32 reordering;			 /* segments */
	__u32 undo_marker;			 /* not 0 while a reduction may prove spurious */
	__u32 notsent_lowat;			 /* bytes (TCP_NOTSENT_LOWAT); 0: net.ipv4.tcp_notsent_lowat */
	__u32 lsndtime;				 /* last transmission, jiffies */
	__u32 rate_delivered, rate_interval_us; /* the last sample of the delivery rate: segments, us */
	struct minmax rtt_min;			 /* us; s[0] is the smallest RTT of tcp_min_rtt_wlen */
	__u8 is_cwnd_limited : 1;
	bool is_mptcp;
};

struct ack_sample {
	__s32 rtt_us; /* negative: none (Karn) */
};

struct rate_sample {
	__s32 losses;	    /* segments that this ACK showed to be lost */
	__u32 acked_sacked; /* segments that it newly delivered */
};

struct mptcp_sock {
	struct inet_connection_sock sk;
	__u64 write_seq, snd_una, wnd_end; /* data sequence numbers */
	struct list_head conn_list;
};

struct mptcp_subflow_context {
	struct list_head node;
	struct sock *tcp_sock;
	struct sock *conn;
	__u32 request_bkup : 1; /* standby at this side's request */
	__u32 backup : 1;	/* standby at the other side's request */
	__u32 stale : 1;	/* timed out without progress: the scheduler skips it */
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	void (*init)(struct sock *sk);
#ifdef TX_START
	void (*cwnd_event_tx_start)(struct sock *sk);
#endif
	char name[16];
};

#pragma clang attribute pop

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;

/* kernel/bpf/bpf_iter.c, Linux 6.4. */
struct bpf_iter_num {
	__u64 opaque;
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *turns, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *turns) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *turns) __ksym;

/* Before Linux 6.18 the verifier takes what a turn has left in registers for a difference. */
#ifdef __bpf__
#define FORGET asm volatile("r0 = 0; r2 = 0; r3 = 0; r4 = 0; r5 = 0" ::: "r0", "r2", "r3", "r4", "r5")
#else
#define FORGET ((void)0)
#endif

/* for_turns(turn, times) { ... }: with an int from 0 to times - 1. The verifier follows it until a turn begins as one
 * before did, where it would follow every turn of an ordinary loop. Clang emits no type of a function that only ends a
 * variable: hence its name. */
#define for_turns(turn, times)                                                                       \
	for (struct bpf_iter_num turns_ __attribute__((cleanup(bpf_iter_num_destroy))),              \
	     *unused_ __attribute__((unused)) = (bpf_iter_num_new(&turns_, 0, times),                \
						     (void)bpf_iter_num_destroy, (void *)0);         \
	     ({                                                                                      \
		     FORGET;                                                                         \
		     int *at_ = bpf_iter_num_next(&turns_);                                          \
		     if (at_)                                                                        \
			     (turn) = *at_;                                                          \
		     at_;                                                                            \
	     });)

/* A function that the verifier follows once, whatever its callers know, and not again in each of their states: for walks over
 * subflows. Its argument is a socket as hooks have it (Linux 6.8); it is not inlined. */
#ifndef SEPARATE
#define SEPARATE __attribute__((noinline))
#define HOOKS_SOCKET __attribute__((btf_decl_tag("arg:trusted")))
#endif

/* Hooks get the whole tcp_sock as the type of its first member (bpf_tcp_ca_is_valid_access). */
static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* Sequence number a comes after b, modulo 2^32. */
static __always_inline bool after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

#endif
