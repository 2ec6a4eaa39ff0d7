/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the kernel does around a window algorithm that has `cong_avoid`, for programs that have `cong_control` in its place:
 * reduction of the window (RFC 9937, PRR), end of a reduction, restart after an idle time, pacing rate.
 *
 * A congestion control with `cong_control` owns the window in every state and the pacing rate: the kernel then skips
 * tcp_cwnd_reduction, tcp_end_cwnd_reduction, tcp_slow_start_after_idle_check and tcp_update_pacing_rate
 * (net/ipv4/tcp_input.c, tcp_output.c). Not here: the algorithm, and rates that a policy wants.
 *
 * Differences from the kernel: the window is restarted when the first segment leaves, not before; one that
 * the application left unused for an RTO (RFC 7661, tcp_cwnd_application_limited) stays; sysctls have their
 * default values (tcp_reordering, tcp_slow_start_after_idle, tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
 */
#ifndef MPTUNE_RECOVERY_H
#define MPTUNE_RECOVERY_H

#include "kernel.h"

/* Of `flag` (net/ipv4/tcp_input.c): the ACK acknowledged data; the SYN; data selectively; SND.UNA moved. */
enum {
	FLAG_DATA_ACKED = 0x04,
	FLAG_SYN_ACKED = 0x10,
	FLAG_DATA_SACKED = 0x20,
	FLAG_SND_UNA_ADVANCED = 0x400,
};
#define FLAG_FORWARD_PROGRESS (FLAG_DATA_ACKED | FLAG_SYN_ACKED | FLAG_DATA_SACKED)
/* Segments that must be reordered before growth waits for cumulative ACKs no longer (net.ipv4.tcp_reordering). */
#define REORDERING 3
/* ssthresh before the first loss (TCP_INFINITE_SSTHRESH), and segments of a first window (RFC 6928). */
#define INFINITE_SSTHRESH 0x7fffffffu
#define INITIAL_WINDOW 10u
/* tcp_pacing_ss_ratio and tcp_pacing_ca_ratio, per cent. */
#define SLOW_START_RATIO 200
#define AVOIDANCE_RATIO 120

/* Segments in flight (RFC 6675 pipe). */
static __always_inline __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline bool is_reducing(__u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/* RFC 9937 section 6: the window of a recovery from the segments that ACKs deliver. `delivered` counts them since it began;
 * the kernel's own count may not be written. */
static __always_inline void reduce(struct tcp_sock *tp, __u32 *delivered, const struct rate_sample *rs, int flag)
{
	__s32 flight = in_flight(tp), room = (__s32)tp->snd_ssthresh - flight, acked = rs->acked_sacked, count;

	if (acked <= 0 || !tp->prior_cwnd)
		return;
	*delivered += acked;
	if (room < 0) {
		/* In proportion: ceil(delivered * ssthresh / RecoverFS). */
		__u64 share = ((__u64)tp->snd_ssthresh * *delivered + tp->prior_cwnd - 1) / tp->prior_cwnd;

		count = (__s32)share - (__s32)tp->prr_out;
	} else {
		count = max((__s32)(*delivered - tp->prr_out), acked);
		/* Slow start where the ACK shows progress and no loss. */
		if ((flag & FLAG_SND_UNA_ADVANCED) && !rs->losses)
			count++;
		count = min(count, room);
	}
	/* The fast retransmission leaves in any case. */
	count = max(count, tp->prr_out ? 0 : 1);
	tp->snd_cwnd = max(flight + count, 1);
}

/* The window may grow (tcp_may_raise_cwnd). */
static __always_inline bool may_grow(const struct tcp_sock *tp, int flag)
{
	return flag & (tp->reordering > REORDERING ? FLAG_FORWARD_PROGRESS : FLAG_DATA_ACKED);
}

/* The state changes from the socket's to `next`: a reduction begins or ends (tcp_init_cwnd_reduction,
 * tcp_end_cwnd_reduction). */
static __always_inline void change_state(struct tcp_sock *tp, __u32 *delivered, __u8 next)
{
	__u8 state = ca_state(tp);

	if (is_reducing(next) && !is_reducing(state))
		*delivered = 0;
	if (is_reducing(state) && next <= TCP_CA_Disorder && tp->snd_ssthresh < INFINITE_SSTHRESH &&
	    (state == TCP_CA_CWR || tp->undo_marker))
		tp->snd_cwnd = tp->snd_ssthresh;
}

/* A segment leaves with nothing in flight: after an idle time a window is halved for every RTO, down to the first
 * one (RFC 5681 section 4.1, RFC 9438 section 4.10; tcp_cwnd_restart). True if it was. */
static __always_inline bool restart(struct tcp_sock *tp)
{
	__u32 rto = max(tp->inet_conn.icsk_rto, 1u), cwnd = tp->snd_cwnd;
	__u32 idle = (__u32)bpf_jiffies64() - tp->lsndtime, least = min(cwnd, INITIAL_WINDOW);
	__u32 periods = (idle - 1) / rto;

	if (!tp->lsndtime || idle <= rto)
		return false;
	tp->snd_ssthresh = max(tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2));
	tp->snd_cwnd = max(periods < 32 ? cwnd >> periods : 0, least);
	return true;
}

/* Bytes per second at which the kernel would pace (tcp_update_pacing_rate): twice the window per RTT in slow start, 1.2
 * times after it. Below 2^14 * 2^20 * 2^8 * 8 10^6 / 100 < 2^59. */
static __always_inline __u64 window_rate(const struct tcp_sock *tp)
{
	__u64 rate = (__u64)tp->mss_cache * (1000000 / 100 * 8);

	rate *= tp->snd_cwnd < tp->snd_ssthresh / 2 ? SLOW_START_RATIO : AVOIDANCE_RATIO;
	rate *= max(tp->snd_cwnd, tp->packets_out);
	return rate / max(tp->srtt_us, 1u);
}

#endif
