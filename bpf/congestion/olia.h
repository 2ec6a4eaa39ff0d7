/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* OLIA, the opportunistic linked-increases algorithm: draft-khalili-mptcp-congestion-control-05; R. Khalili
 * et al., "MPTCP is not Pareto-optimal", CoNEXT 2012. Together the subflows take what one Reno flow would on
 * the best path, and a term alpha moves window from the largest subflows to better but smaller ones.
 *
 * Not slow start, halving and recovery, which are Reno's; on one subflow, and for plain TCP, it is Reno.
 * The twin of crates/mptune-core/src/congestion/olia.rs, which lists their differences from the MPTCP fork's.
 */
#ifndef MPTUNE_OLIA_H
#define MPTUNE_OLIA_H

#include "coupled.h"

/* Smallest ssthresh of coupled subflows: together they can be as slow as one. */
#define MIN_SSTHRESH 1u
/* Where paths are compared, ratios of RTTs are in units of 2^-12 and at most 2^6, intervals at most 2^27
 * segments (190 GB): interval * ratio^2 has 27 + 2 * 18 bits. */
#define COMPARED_SHIFT 12
#define MAX_COMPARED_RATIO (1ull << (6 + COMPARED_SHIFT))
#define MAX_INTERVAL (1u << 27)

/* Results of a walk; kept in the socket (see for_each_subflow). */
struct view {
	__u64 sum, best; /* of the rates; largest quality */
	__u64 largest;	 /* window, segments */
	__u32 paths, large, collected;
	bool own_is_large, own_is_collected;
};

struct olia {
	__u32 loss;	/* `delivered` at the last congestion event */
	__u32 between;	/* segments delivered between the last two */
	__u32 fraction; /* of a segment that the window has grown, 2^-32 */
	struct view view;
};

/* l / rtt^2 in units of this subflow's RTT, where l estimates the segments sent from one loss to the next. */
static __always_inline __u64 quality(const struct subflow *subflow)
{
	const struct olia *its = (const void *)subflow->tp->inet_conn.icsk_ca_priv;
	__u32 since = subflow->tp->delivered - its->loss;
	__u32 interval = min(max(since, its->between), MAX_INTERVAL);
	__u64 ratio = min(subflow->ratio >> (RATIO_SHIFT - COMPARED_SHIFT), MAX_COMPARED_RATIO);

	return interval * ratio * ratio;
}

/* Number of subflows that share the growth; 0 for plain TCP. */
static __always_inline __u32 survey(const struct tcp_sock *tp, struct view *view)
{
	struct subflow subflow;
	struct walk walk;

	view->paths = 0;
	view->sum = view->largest = view->best = 0;
	if (!begin(&walk, tp))
		return 0;
	for_each_subflow(&walk, &subflow) {
		__u64 its_quality = quality(&subflow);

		view->paths++;
		view->sum += rate(&subflow);
		if (subflow.cwnd > view->largest)
			view->largest = subflow.cwnd;
		if (its_quality > view->best)
			view->best = its_quality;
	}
	return view->paths;
}

/* alpha / w of this subflow, 2^-32: positive on a best path that is not among the largest, and then
 * negative on the largest; 0 while the best are the largest. */
static __always_inline __s64 alpha_over_window(const struct tcp_sock *tp, struct view *view)
{
	struct subflow subflow;
	struct walk walk;

	view->large = view->collected = 0;
	if (!begin(&walk, tp))
		return 0;
	for_each_subflow(&walk, &subflow) {
		bool large = subflow.cwnd >= view->largest;
		bool collected = !large && quality(&subflow) >= view->best;

		view->large += large;
		view->collected += collected;
		if (subflow.tp == tp) {
			view->own_is_large = large;
			view->own_is_collected = collected;
		}
	}
	/* At most 32 * 32 * 2^32; not 0, since this subflow is counted too. */
	if (view->own_is_collected)
		return SEGMENT / ((__u64)view->paths * view->collected * tp->snd_cwnd);
	if (view->own_is_large && view->collected)
		return -(__s64)(SEGMENT / ((__u64)view->paths * view->large * tp->snd_cwnd));
	return 0;
}

static __always_inline void olia_init(struct sock *sk)
{
	struct olia *olia = private(sk);

	olia->loss = tcp_sk(sk)->delivered;
	olia->between = 0;
	olia->fraction = 0;
}

static __always_inline void olia_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct olia *olia = private(sk);
	__s64 increase;

	if (!reaches_avoidance(tp, &acked))
		return;
	if (survey(tp, &olia->view) < 2) {
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
		return;
	}
	/* Either term is at most 2^32, so that growth stays below 2^54. */
	increase = linked_increase(tp->snd_cwnd, olia->view.sum) + alpha_over_window(tp, &olia->view);
	grow(tp, &olia->fraction, increase * min(acked, (__u32)MAX_WINDOW));
	/* A window that alpha shrinks stays in congestion avoidance. */
	tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
}

static __always_inline __u32 olia_ssthresh(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct olia *olia = private(sk);

	if (tp->delivered != olia->loss) {
		olia->between = tp->delivered - olia->loss;
		olia->loss = tp->delivered;
	}
	return survey(tp, &olia->view) > 1 ? max(tp->snd_cwnd / 2, MIN_SSTHRESH) : tcp_reno_ssthresh(sk);
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT olia_init
#define WINDOW_SSTHRESH olia_ssthresh
#define WINDOW_CONG_AVOID olia_cong_avoid
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct olia

#endif
