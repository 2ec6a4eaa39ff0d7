/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reno: RFC 5681, by the kernel's own functions (net/ipv4/tcp_cong.c), for a path policy to go with it. Not a program alone:
 * that is in every kernel.
 */
#ifndef MPTUNE_RENO_H
#define MPTUNE_RENO_H

#include "kernel.h"

/* The hooks, for `../program.bpf.c`. */
#define WINDOW_SSTHRESH tcp_reno_ssthresh
#define WINDOW_CONG_AVOID tcp_reno_cong_avoid
#define WINDOW_UNDO_CWND tcp_reno_undo_cwnd

#endif
