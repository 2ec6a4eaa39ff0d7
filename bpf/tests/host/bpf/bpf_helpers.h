/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Replaces libbpf's header of this name when a congestion control is compiled for the host (../host.c):
 * programs are plain functions, kernel structures are laid out as kernel.h declares them. */
#ifndef MPTUNE_HOST_BPF_HELPERS_H
#define MPTUNE_HOST_BPF_HELPERS_H

#define SEC(name)
#define __always_inline inline __attribute__((always_inline))
#define __ksym
#define SEPARATE static
#define HOOKS_SOCKET

#endif
