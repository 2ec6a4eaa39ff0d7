/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See bpf_helpers.h. */
#define BPF_PROG(name, arguments...) name(arguments)
