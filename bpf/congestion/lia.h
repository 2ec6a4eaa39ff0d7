/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* LIA, the linked-increases algorithm: RFC 6356. Together the subflows take what one Reno flow would on the best
 * of their paths, and none takes more than Reno would on its own.
 *
 * Not slow start, halving and recovery, which are Reno's; on one subflow, and for plain TCP, it is Reno.
 * The twin of crates/mptune-core/src/congestion/lia.rs, which lists their differences from the MPTCP fork's.
 */
#ifndef MPTUNE_LIA_H
#define MPTUNE_LIA_H

#include "coupled.h"

/* Results of a walk; kept in the socket (see for_each_subflow). */
struct view {
	__u64 sum;		     /* of the rates, at most 2^51 */
	__u64 best;		     /* largest w / rtt^2 in units of this subflow's RTT, 2^-22 */
	__u64 best_rate, best_ratio; /* of the subflow that has it */
	__u32 paths;
};

struct lia {
	struct per_window growth;
	__u32 fraction; /* of a segment that the window has grown, 2^-32 */
	struct view view;
};

static __always_inline void survey(const struct tcp_sock *tp, struct view *view)
{
	struct subflow subflow;
	struct walk walk;

	view->paths = 0;
	view->sum = view->best = 0;
	if (!begin(&walk, tp))
		return;
	for_each_subflow(&walk, &subflow) {
		/* rate >> 10 has 36 bits, the ratio 26. */
		__u64 gain = (rate(&subflow) >> 10) * subflow.ratio;

		view->paths++;
		view->sum += rate(&subflow);
		if (gain >= view->best) {
			view->best = gain;
			view->best_rate = rate(&subflow);
			view->best_ratio = subflow.ratio;
		}
	}
}

/* alpha / cwnd_total (equation 2 in equation 1), 2^-32: max(w / rtt^2) / (sum of w / rtt)^2 for every subflow. It
 * is the share of the best subflow in the sum, at most 1, times its ratio over the sum, at most 1: the shifted
 * numerators have 46 + 16 and 26 + 32 bits, the product 48. */
static __always_inline __u64 linked(const struct view *view)
{
	__u64 share = (view->best_rate << 16) / view->sum;
	__u64 per_segment = (view->best_ratio << 32) / view->sum;

	return share * per_segment >> 16;
}

static __always_inline void lia_init(struct sock *sk)
{
	struct lia *lia = private(sk);

	lia->growth.valid = false;
	lia->fraction = 0;
}

static __always_inline void lia_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct lia *lia = private(sk);

	if (!reaches_avoidance(tp, &acked))
		return;
	if (!is_current(&lia->growth, tp, ack)) {
		survey(tp, &lia->view);
		lia->growth.increase = lia->view.paths > 1 ? linked(&lia->view) : 0;
	}
	if (lia->view.paths > 1) {
		__u64 increase = min(lia->growth.increase, SEGMENT / tp->snd_cwnd);

		grow(tp, &lia->fraction, increase * min(acked, (__u32)MAX_WINDOW));
	} else {
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
	}
}

/* Congestion began or ended. */
static __always_inline void lia_set_state(struct sock *sk, __u8 new_state)
{
	struct lia *lia = private(sk);

	lia->growth.valid = false;
}

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_INIT lia_init
#define WINDOW_CONG_AVOID lia_cong_avoid
#define WINDOW_SET_STATE lia_set_state
#define WINDOW_SSTHRESH tcp_reno_ssthresh
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd
#define WINDOW_PRIVATE struct lia

#endif
