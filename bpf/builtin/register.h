/* SPDX-License-Identifier: GPL-2.0 */
/* A congestion control of congestion/, alone or with a path policy of scheduling/, as a part of a kernel that runs no BPF
 * programs: program.bpf.c, and the registration of its table. Compiled in a kernel's tree, after headers.h and the headers
 * that ../Makefile puts before it, with one name more: NAME, for TCP_CONGESTION.
 *
 * What a policy is told of paths is in a table (table.c). No walk over subflows meets an entry that is being removed: a
 * kernel for guests has one processor, and no hook is preempted.
 */
#include "program.bpf.c"

static int __init mptune_register(void)
{
	strscpy(REGISTERED.name, NAME, sizeof(REGISTERED.name));
	REGISTERED.flags = TCP_CONG_NON_RESTRICTED;
	REGISTERED.owner = THIS_MODULE;
	return tcp_register_congestion_control(&REGISTERED);
}
late_initcall(mptune_register);
