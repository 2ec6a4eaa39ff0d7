/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Replaces libbpf's header of this name in a kernel (../builtin.c): programs are plain functions, and helpers of BPF are
 * what they stand for. */
#ifndef MPTUNE_BUILTIN_BPF_HELPERS_H
#define MPTUNE_BUILTIN_BPF_HELPERS_H

#include <linux/timekeeping.h>

#define SEC(name)
#define __ksym
#define BPF_PROG(name, arguments...) name(arguments)

#define bpf_ktime_get_ns() ktime_get_ns()
#define bpf_rdonly_cast(object, type) ((void *)(object))
#define SEPARATE static
#define HOOKS_SOCKET
#define for_turns(turn, times) for ((turn) = 0; (turn) < (times); (turn)++)
#define bpf_jiffies64() get_jiffies_64()

/* Maps are types without content; the only one that is read has a table in its place (../table.c). */
const void *mptune_told(const void *key);
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define bpf_map_lookup_elem(map, key) ((void)(map), mptune_told(key))

/* Options that programs set on their own subflow, whose lock a hook has (do_tcp_setsockopt in net/ipv4/tcp.c). */
static inline int bpf_setsockopt(struct sock *sk, int level, int option, const int *value, int size)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (level == SOL_SOCKET && option == SO_KEEPALIVE) {
		tcp_set_keepalive(sk, *value);
		sock_set_flag(sk, SOCK_KEEPOPEN);
	} else if (option == TCP_KEEPIDLE) {
		return tcp_sock_set_keepidle_locked(sk, *value);
	} else if (option == TCP_KEEPINTVL) {
		tp->keepalive_intvl = *value * HZ;
	} else if (option == TCP_KEEPCNT) {
		tp->keepalive_probes = *value;
	} else if (option == TCP_NOTSENT_LOWAT) {
		tp->notsent_lowat = *value;
		sk->sk_write_space(sk);
	}
	return 0;
}

#endif
