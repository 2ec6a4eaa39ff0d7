/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See bpf_helpers.h. */
#define __bpf_htonl(value) ((__force __u32)htonl(value))
