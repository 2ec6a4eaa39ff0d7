/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own headers in place of include/fields.h, for a congestion control that is part of a kernel which runs no BPF
 * programs. First of all in its source; register.h comes last.
 */
#ifndef MPTUNE_FIELDS_H
#define MPTUNE_FIELDS_H

#include <linux/module.h>
#include <net/tcp.h>
#include <net/inet_connection_sock.h>
#include "protocol.h" /* of net/mptcp */

/* Words that programs use themselves; their own min and max serve all types. */
#undef current
#undef min
#undef max

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#endif
