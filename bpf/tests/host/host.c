/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A congestion control compiled for the host, and a fake connection to call its hooks on: for tests of its
 * arithmetic against the formulas (tests/linux/test_bpf_arithmetic.py). Not a TCP: the test dictates
 * everything.
 *
 *     cc -shared -include ../../congestion/olia.h -DALGORITHM=olia -I . -I ../../include host.c
 */
#define REGISTERED operations
#include "../../program.bpf.c"

#define SUBFLOWS 40

static struct tcp_sock sockets[SUBFLOWS];
static struct mptcp_subflow_context contexts[SUBFLOWS];
static struct mptcp_sock connection;

/* The kernel functions that programs call, as in include/net/tcp.h and net/ipv4/tcp_cong.c. */
void *bpf_rdonly_cast(const void *object, __u32 type)
{
	return (void *)object;
}

/* The next turn in the first half, their number in the other. */
int bpf_iter_num_new(struct bpf_iter_num *turns, int start, int end)
{
	int *bounds = (int *)turns;

	bounds[0] = start - 1;
	bounds[1] = end;
	return 0;
}

int *bpf_iter_num_next(struct bpf_iter_num *turns)
{
	int *bounds = (int *)turns;

	return ++bounds[0] < bounds[1] ? bounds : (int *)0;
}

void bpf_iter_num_destroy(struct bpf_iter_num *turns)
{
}

__u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);
	__u32 rest = acked - (cwnd - tp->snd_cwnd);

	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return rest;
}

void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked)
{
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd += tp->snd_cwnd_cnt / w;
		tp->snd_cwnd_cnt %= w;
	}
}

void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!window_limited(tp))
		return;
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

__u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd / 2, 2u);
}

__u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

/* A connection of this many subflows, all new; with none, the first socket is plain TCP. */
void begin_connection(int subflows)
{
	struct list_head *last = &connection.conn_list;

	for (int i = 0; i < SUBFLOWS; i++) {
		sockets[i] = (struct tcp_sock){
			.inet_conn.icsk_ca_ops = &operations,
			.inet_conn.icsk_inet.sk.__sk_common.skc_state = TCP_ESTABLISHED,
			.snd_cwnd = 10,
			.snd_ssthresh = 0x7fffffff,
			.snd_cwnd_clamp = ~0u,
			.is_cwnd_limited = 1,
		};
		contexts[i] = (struct mptcp_subflow_context){
			.tcp_sock = (struct sock *)&sockets[i],
			.conn = (struct sock *)&connection,
		};
		if (i >= subflows)
			continue;
		sockets[i].is_mptcp = 1;
		sockets[i].inet_conn.icsk_ulp_data = &contexts[i];
		last->next = &contexts[i].node;
		last = last->next;
	}
	last->next = &connection.conn_list;
}

/* The kernel's state of a subflow. */
void set_window(int i, __u32 cwnd, __u32 ssthresh)
{
	sockets[i].snd_cwnd = cwnd;
	sockets[i].snd_ssthresh = ssthresh;
}

void set_rtt(int i, __u32 srtt_us)
{
	sockets[i].srtt_us = srtt_us;
}

void set_delivered(int i, __u32 delivered)
{
	sockets[i].delivered = delivered;
}

void set_role(int i, int backup, int stale, int established)
{
	contexts[i].backup = backup;
	contexts[i].stale = stale;
	sockets[i].inet_conn.icsk_inet.sk.__sk_common.skc_state = established ? TCP_ESTABLISHED : 0;
}

void set_limited(int i, int limited)
{
	sockets[i].is_cwnd_limited = limited;
}

__u32 window(int i)
{
	return sockets[i].snd_cwnd;
}

__u32 threshold(int i)
{
	return sockets[i].snd_ssthresh;
}

/* Events of a subflow. */
void establish(int i)
{
	if (operations.init)
		operations.init((struct sock *)&sockets[i]);
}

void sample(int i, __s32 rtt_us)
{
	const struct ack_sample sample = { .rtt_us = rtt_us };

	operations.pkts_acked((struct sock *)&sockets[i], &sample);
}

void acknowledge(int i, __u32 acked, __u32 una, __u32 next)
{
	sockets[i].snd_nxt = next;
	operations.cong_avoid((struct sock *)&sockets[i], una, acked);
}

void change_state(int i, int state)
{
	if (operations.set_state)
		operations.set_state((struct sock *)&sockets[i], state);
	sockets[i].inet_conn.icsk_ca_state = state;
}

/* The next period of a length, us, begins at a time, after one that began at another. */
int next_period(__u32 begun, __u32 now, __u32 length)
{
	return passed(&begun, now, length);
}

__u32 lose(int i)
{
	return operations.ssthresh((struct sock *)&sockets[i]);
}
