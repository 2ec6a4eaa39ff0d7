/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* BALIA, the balanced linked adaptation: draft-walid-mptcp-congestion-control-04; Q. Peng et al., "Multipath TCP:
 * analysis, design, and implementation", IEEE/ACM Transactions on Networking 24(1), 2016. Couples growth and
 * reduction by the subflows' rates, between LIA's responsiveness and OLIA's friendliness.
 *
 * Not slow start and recovery, which are Reno's; on one subflow, and for plain TCP, it is Reno.
 * The twin of crates/mptune-core/src/congestion/balia.rs, which lists their differences from the MPTCP fork's.
 */
#ifndef MPTUNE_BALIA_H
#define MPTUNE_BALIA_H

#include "coupled.h"

/* Smallest ssthresh of coupled subflows: together they can be as slow as one. */
#define MIN_SSTHRESH 1u
/* alpha, the fastest subflow's rate over this one's, is in units of 2^-10 and at most 2^14. */
#define ALPHA_SHIFT 10
#define ONE (1ull << ALPHA_SHIFT)
#define MAX_ALPHA (1ull << (14 + ALPHA_SHIFT))
/* The reduction is at most 3/2 halves of the window. */
#define MAX_HALVES (3 * ONE / 2)

/* Results of a walk; kept in the socket (see for_each_subflow). */
struct view {
	__u64 sum;     /* of the rates, at most 2^51 */
	__u64 fastest; /* largest rate, at most 2^46 */
	__u32 paths;
};

struct balia {
	struct per_window growth;
	__u32 fraction; /* of a segment that the window has grown, 2^-32 */
	struct view view;
};

/* Number of subflows that share the growth; 0 for plain TCP. */
static __always_inline __u32 survey(const struct tcp_sock *tp, struct view *view)
{
	struct subflow subflow;
	struct walk walk;

	view->paths = 0;
	view->sum = view->fastest = 0;
	if (!begin(&walk, tp))
		return 0;
	for_each_subflow(&walk, &subflow) {
		view->paths++;
		view->sum += rate(&subflow);
		if (rate(&subflow) > view->fastest)
			view->fastest = rate(&subflow);
	}
	return view->paths;
}

/* 1 on the fastest subflow, larger on slower ones. */
static __always_inline __u64 alpha(const struct tcp_sock *tp, const struct view *view)
{
	__u64 own = min(tp->snd_cwnd, MAX_WINDOW) << RATIO_SHIFT;

	return min(max((view->fastest << ALPHA_SHIFT) / own, ONE), MAX_ALPHA);
}

/* x_r / (rtt_r (sum of x)^2) * (1 + alpha) / 2 * (4 + alpha) / 5, 2^-32 segment, in two factors: this subflow's
 * share, at most 1 / alpha, times 1 + alpha, in units of 2^-28 and below 2^30; and 4 + alpha over the sum,
 * which is at least alpha, in units of 2^-30 and below 2^33 (its numerator has 25 + 36 bits). */
static __always_inline __u64 linked(const struct tcp_sock *tp, const struct view *view)
{
	__u64 a = alpha(tp, view);
	__u64 first = share_of(tp->snd_cwnd, view->sum) * (ONE + a) >> 8;
	__u64 second = ((4 * ONE + a) << (RATIO_SHIFT + 20)) / view->sum;

	return (first * second / 10) >> 26;
}

static __always_inline void balia_init(struct sock *sk)
{
	struct balia *balia = private(sk);

	balia->growth.valid = false;
	balia->fraction = 0;
}

static __always_inline void balia_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct balia *balia = private(sk);

	if (!reaches_avoidance(tp, &acked))
		return;
	if (!is_current(&balia->growth, tp, ack) && survey(tp, &balia->view) > 1)
		balia->growth.increase = linked(tp, &balia->view);
	if (balia->view.paths > 1)
		grow(tp, &balia->fraction, balia->growth.increase * min(acked, (__u32)MAX_WINDOW));
	else
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static __always_inline __u32 balia_ssthresh(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct balia *balia = private(sk);
	__u64 halves;

	if (survey(tp, &balia->view) < 2)
		return tcp_reno_ssthresh(sk);
	halves = min(alpha(tp, &balia->view), MAX_HALVES);
	return max(tp->snd_cwnd - (__u32)((tp->snd_cwnd * halves) >> (ALPHA_SHIFT + 1)), MIN_SSTHRESH);
}

/* Congestion began or ended. */
static __always_inline void balia_set_state(struct sock *sk, __u8 new_state)
{
	struct balia *balia = private(sk);

	balia->growth.valid = false;
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT balia_init
#define WINDOW_SSTHRESH balia_ssthresh
#define WINDOW_CONG_AVOID balia_cong_avoid
#define WINDOW_SET_STATE balia_set_state
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct balia

#endif
