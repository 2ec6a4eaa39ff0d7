/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a path policy is told of paths, in a map that whoever registers the program writes, and may write again.
 *
 * A path is the pair of addresses of its subflow. An entry is of an address at this end and of a prefix at the other, which
 * may be an address or, empty, every destination; the longest one counts. Not here: what a policy makes of it.
 */
#ifndef MPTUNE_PATHS_H
#define MPTUNE_PATHS_H

#include "kernel.h"
#include <bpf/bpf_endian.h>

#define MOST_PATHS 1024
/* us after which a subflow looks again. */
#define LOOK_AGAIN_US 100000

/* Addresses in network order; one of IPv4 is ::ffff:a.b.c.d. The first number is that of their bits that count. */
struct path_pair {
	__u32 bits;
	__u32 local[4], remote[4];
};
#define ALL_BITS 256

/* Each 0 where nothing is told. */
struct parameters {
	__u64 cap; /* bytes per second */
	__u32 weight;
	__u32 rank; /* from 1 on */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MOST_PATHS);
	__type(key, struct path_pair);
	__type(value, struct parameters);
} paths SEC(".maps");

static __always_inline void of_ipv4(__u32 *to, __be32 address)
{
	to[2] = __bpf_htonl(0xffff);
	to[3] = address;
}

static __always_inline void of_ipv6(__u32 *to, const struct in6_addr *address)
{
	for (int i = 0; i < 4; i++)
		to[i] = address->in6_u.u6_addr32[i];
}

/* What is told of a subflow's path; null for nothing. */
static __always_inline const struct parameters *told(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;
	struct path_pair path = { .bits = ALL_BITS };

	if (common->skc_family != AF_INET6) {
		of_ipv4(path.local, common->skc_rcv_saddr);
		of_ipv4(path.remote, common->skc_daddr);
	} else if (bpf_core_field_exists(common->skc_v6_daddr)) {
		of_ipv6(path.local, &common->skc_v6_rcv_saddr);
		of_ipv6(path.remote, &common->skc_v6_daddr);
	}
	return bpf_map_lookup_elem(&paths, &path);
}

/* It is time to look again; notes the time in `looked`. */
static __always_inline bool looks_again(__u32 *looked)
{
	return passed(looked, now_us(), LOOK_AGAIN_US);
}

#endif
