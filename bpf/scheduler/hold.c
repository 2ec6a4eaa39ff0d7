// SPDX-License-Identifier: GPL-2.0
/* hold as a packet scheduler: struct mptcp_sched_ops, a part of a kernel whose interface has get_send (Linux 7.x).
 *
 * The default scheduler (net/mptcp/protocol.c, mptcp_subflow_get_send) takes the subflow with the shortest send queue for its
 * pacing rate, whatever its RTT. Data on a slow subflow keeps the connection's window open until it is acknowledged; meanwhile
 * the faster ones fill the window, and wait. As ECF (Y. Lim et al., CoNEXT 2017) and BLEST (S. Ferlin et al., IFIP Networking
 * 2016), before each burst, for the subflows by min_rtt N, the quickest first:
 *
 *   (1)  R = sum of rate_j over the quicker subflows j that are not held and have made progress since an RTO
 *   (2)  T = max(srtt, 3/2 min_rtt) N
 *   (3)  hold if R T > W                                       W: what the connection may have under way
 *   (4)  wait = queued / (2 min(rate, cwnd / srtt))            the shortest of those that are not held takes the burst
 *   (5)  N = max(1, 64 KiB / cwnd), and 1 before the first loss
 *   (6)  unsent <= max(cwnd, 3 rate max_j(srtt_j)) over the subflows j that are not held
 *   (7)  while R (T + srtt N) > W, and before the first loss beside a quicker one: TCP paces it by its own rate, and
 *        unsent and in flight <= 3 rate min_rtt
 *   (8)  what the connection repeats goes to the subflow with the smallest srtt of those that have nothing out
 *
 * where rate is the largest delivery rate of this and the last period of 2 s. Windows, recovery and rates are left to the kernel
 * and its congestion control: what the path policy of this name (../scheduling/hold.h) does by rates at ACKs, is a page here.
 *
 * What is remembered of a subflow stands in its avg_pacing_rate, which is the default scheduler's alone; a kernel that has this
 * scheduler for good would give it a field of its own.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>
#include "protocol.h"

/* MPTCP_SEND_BURST_SIZE, which protocol.c has for itself. */
#define BURST 65428u
#define MOST_SUBFLOWS 64
/* Equation 2, halves of the smallest RTT; equations 6 and 7; segments that equation 7 always leaves. */
#define LEAST_RTTS 3
#define WAITING_RTTS 3
#define QUEUED_RTTS 3
#define LEAST_QUEUED 4
/* us, two minutes: a bound of products. */
#define LONGEST_US (1ull << 27)

/* avg_pacing_rate: pacing is on by this scheduler; the number of a period; the largest rates of the one before it and of it,
 * 1024 bytes per second.
 */
#define PACED (1ull << 63)
#define PERIOD (2 * HZ)
#define PERIODS 0xffff
#define RATE_BITS 23
#define MOST_RATE ((1ull << RATE_BITS) - 1)
static_assert(sizeof_field(struct mptcp_subflow_context, avg_pacing_rate) == 8);

/* Small, as many stand on the stack. */
struct candidate {
	struct mptcp_subflow_context *subflow;
	u32 time;	/* min_rtt N, us */
	u32 rate;	/* 1024 bytes per second; 0 before a sample */
	u32 quicker;	/* R, likewise */
	bool held;
	bool bounded;	/* equation 7 */
};

static const struct tcp_sock *tcp_of(const struct candidate *candidate)
{
	return tcp_sk(mptcp_subflow_tcp_sock(candidate->subflow));
}

static u64 window_of(const struct tcp_sock *tp)
{
	return (u64)max(tcp_snd_cwnd(tp), 1u) * max(tp->mss_cache, 1u);
}

static bool starts(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

static u32 srtt_of(const struct tcp_sock *tp)
{
	return max(READ_ONCE(tp->srtt_us) >> 3, 1u);
}

/* Before a sample of the RTT it is none. */
static u32 min_rtt_of(const struct tcp_sock *tp)
{
	u32 least = tcp_min_rtt(tp);

	return least == ~0u ? srtt_of(tp) : least;
}

/* Equation 5: a time on the path, N times, us. */
static u64 of_burst(const struct tcp_sock *tp, u64 time)
{
	u64 window = window_of(tp);

	if (starts(tp) || window >= BURST)
		return min(time, LONGEST_US);
	return min(div64_u64(time * BURST, window), LONGEST_US);
}

/* The last sample of the delivery rate, bytes per second; 0 before it. */
static u64 delivered(const struct tcp_sock *tp)
{
	u32 interval = READ_ONCE(tp->rate_interval_us);

	return interval ? div_u64((u64)READ_ONCE(tp->rate_delivered) * tp->mss_cache * USEC_PER_SEC, interval) : 0;
}

/* The largest delivery rate of this and the last period, 1024 bytes per second. */
static u32 remember(struct mptcp_subflow_context *subflow)
{
	u64 memory = subflow->avg_pacing_rate, now = (get_jiffies_64() / PERIOD) & PERIODS;
	u64 then = memory >> (2 * RATE_BITS) & PERIODS;
	u64 sample = min(delivered(tcp_sk(mptcp_subflow_tcp_sock(subflow))) >> 10, MOST_RATE);
	u64 best = memory & MOST_RATE, last = memory >> RATE_BITS & MOST_RATE;

	if (then != now) {
		last = then == ((now - 1) & PERIODS) ? best : 0;
		best = 0;
	}
	best = max(best, sample);
	subflow->avg_pacing_rate = (memory & PACED) | now << (2 * RATE_BITS) | last << RATE_BITS | best;
	return max(best, last);
}

/* Bytes at a rate, in 1024 per second, in a time of us. The product is below 2^29 2^29. */
static u64 sent_in(u32 rate, u64 time)
{
	return div_u64((u64)rate * time, USEC_PER_SEC >> 6) << 4;
}

/* Equation 2. */
static u64 under_way(const struct tcp_sock *tp)
{
	return of_burst(tp, max_t(u64, srtt_of(tp), (u64)min_rtt_of(tp) * LEAST_RTTS / 2));
}

/* Equation 7: TCP paces the subflow by its own rate, unless someone else has asked for it already. */
static void pace(struct mptcp_subflow_context *subflow, bool wanted)
{
	struct sock *ssk = mptcp_subflow_tcp_sock(subflow);
	bool paced = subflow->avg_pacing_rate & PACED;

	if (wanted && !paced && cmpxchg(&ssk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED) == SK_PACING_NONE)
		subflow->avg_pacing_rate |= PACED;
	if (!wanted && paced) {
		subflow->avg_pacing_rate &= ~PACED;
		if (READ_ONCE(ssk->sk_max_pacing_rate) == ~0UL)
			cmpxchg(&ssk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
	}
}

/* Subflows that may carry data, the quickest first; backups where there is no other. */
static int collect(struct mptcp_sock *msk, struct candidate *candidates)
{
	struct mptcp_subflow_context *subflow;
	bool backups = true;
	int number = 0, place;

	mptcp_for_each_subflow(msk, subflow)
		if (mptcp_subflow_active(subflow) && !(subflow->backup || subflow->request_bkup))
			backups = false;
	mptcp_for_each_subflow(msk, subflow) {
		struct candidate new = { .subflow = subflow };

		if (number == MOST_SUBFLOWS || !mptcp_subflow_active(subflow))
			continue;
		if ((subflow->backup || subflow->request_bkup) != backups)
			continue;
		new.rate = remember(subflow);
		new.time = of_burst(tcp_of(&new), min_rtt_of(tcp_of(&new)));
		for (place = number++; place && candidates[place - 1].time > new.time; place--)
			candidates[place] = candidates[place - 1];
		candidates[place] = new;
	}
	return number;
}

/* Equations 1, 3 and 7; the longest RTT of those that are not held, us. */
static u32 decide(struct candidate *candidates, int number, u64 window)
{
	u32 rates = 0, quicker = 0, time = 0, longest = 0;
	int i;

	for (i = 0; i < number; i++) {
		struct candidate *own = &candidates[i];
		const struct tcp_sock *tp = tcp_of(own);

		if (own->time > time)
			quicker = rates;
		time = own->time;
		own->quicker = quicker;
		own->held = sent_in(quicker, under_way(tp)) > window;
		own->bounded = quicker && (starts(tp) || sent_in(quicker, under_way(tp) + of_burst(tp, srtt_of(tp))) > window);
		pace(own->subflow, own->bounded);
		if (own->held)
			continue;
		longest = max(longest, srtt_of(tp));
		if (!tp->inet_conn.icsk_retransmits)
			rates += own->rate;
	}
	return longest;
}

/* Equations 6 and 7: bytes that the subflow may still take. */
static s64 room_of(const struct candidate *own, u32 longest)
{
	const struct tcp_sock *tp = tcp_of(own);
	s64 room = max(window_of(tp), WAITING_RTTS * sent_in(own->rate, longest));
	s64 most;

	room -= tp->write_seq - READ_ONCE(tp->snd_nxt);
	if (!own->bounded || !own->rate)
		return room;
	most = max_t(u64, QUEUED_RTTS * sent_in(own->rate, min_rtt_of(tp)), LEAST_QUEUED * tp->mss_cache);
	return min(room, most - (s64)(tp->write_seq - READ_ONCE(tp->snd_una)));
}

/* Equation 4, in 2^-32 s. */
static u64 wait_of(const struct candidate *own)
{
	const struct sock *ssk = mptcp_subflow_tcp_sock(own->subflow);
	const struct tcp_sock *tp = tcp_sk(ssk);
	u64 rate = (u64)own->rate << 10;

	if (rate)
		rate = 2 * min(rate, div_u64(window_of(tp) * USEC_PER_SEC, srtt_of(tp)));
	else
		rate = READ_ONCE(ssk->sk_pacing_rate);
	return div64_u64((u64)READ_ONCE(ssk->sk_wmem_queued) << 32, max(rate, 1ull));
}

/* The period of the connection's retransmission timer, as the default scheduler leaves it. */
static void set_timeout(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow;
	long longest = 0;

	mptcp_for_each_subflow(msk, subflow) {
		const struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

		if (inet_csk(ssk)->icsk_pending && !subflow->stale_count)
			longest = max(longest, (long)(tcp_timeout_expires(ssk) - jiffies));
	}
	msk->timer_ival = longest > 0 ? longest : READ_ONCE(inet_csk((struct sock *)msk)->icsk_rto_min);
}

static int hold_get_send(struct mptcp_sock *msk)
{
	u64 window = min_t(u64, READ_ONCE(msk->wnd_end) - msk->snd_una, READ_ONCE(((struct sock *)msk)->sk_sndbuf));
	struct candidate candidates[MOST_SUBFLOWS], *chosen = NULL;
	int number = collect(msk, candidates), i;
	u32 longest = decide(candidates, number, window);
	u64 least = U64_MAX;
	s64 burst = 0;

	for (i = 0; i < number; i++) {
		struct candidate *own = &candidates[i];
		s64 room = own->held ? 0 : room_of(own, longest);
		u64 wait = wait_of(own);

		if (room < (s64)tcp_of(own)->mss_cache || wait >= least)
			continue;
		chosen = own;
		least = wait;
		burst = room;
	}
	set_timeout(msk);
	if (!chosen || !sk_stream_memory_free(mptcp_subflow_tcp_sock(chosen->subflow)))
		return -EINVAL;
	burst = min3(burst, (s64)BURST, (s64)(READ_ONCE(msk->wnd_end) - msk->snd_nxt));
	if (burst > 0)
		msk->snd_burst = burst;
	mptcp_subflow_set_scheduled(chosen->subflow, true);
	return 0;
}

/* Equation 8. The kernel takes the first one with empty queues, which is the one that is held, and backups as a last resort. */
static int hold_get_retrans(struct mptcp_sock *msk)
{
	struct sock *ssk = mptcp_subflow_get_retrans(msk);
	struct mptcp_subflow_context *subflow;

	if (!ssk)
		return -EINVAL;
	mptcp_for_each_subflow(msk, subflow) {
		struct sock *other = mptcp_subflow_tcp_sock(subflow);

		if (mptcp_subflow_active(subflow) && !(subflow->backup || subflow->request_bkup) &&
		    tcp_rtx_and_write_queues_empty(other) && srtt_of(tcp_sk(other)) < srtt_of(tcp_sk(ssk)))
			ssk = other;
	}
	mptcp_subflow_set_scheduled(mptcp_subflow_ctx(ssk), true);
	return 0;
}

static struct mptcp_sched_ops hold = {
	.get_send = hold_get_send,
	.get_retrans = hold_get_retrans,
	.name = "hold",
	.owner = THIS_MODULE,
};

static int __init hold_register(void)
{
	return mptcp_register_scheduler(&hold);
}
late_initcall(hold_register);
