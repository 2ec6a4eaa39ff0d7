/* SPDX-License-Identifier: GPL-2.0 */
/* A congestion control of congestion/, alone or with a path policy of scheduling/, as a part of a kernel that runs no BPF
 * programs: program.bpf.c, and the registration of its table. Compiled in a kernel's tree, after headers.h and the headers
 * that ../Makefile puts before it, with one name more: NAME, for TCP_CONGESTION.
 *
 * What a policy is told of paths is in a table (table.c). No walk over subflows meets an entry that is being removed: a
 * kernel for guests has one processor, and no hook is preempted.
 */
#include "program.bpf.c"

#ifdef HAS_TX_START
/* In Linux 7.3 the event of a start is a hook of its own, Cubic's too. */
#ifdef MPTUNE_CUBIC_H
extern void cubictcp_cwnd_event_tx_start(struct sock *sk);

void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		cubictcp_cwnd_event_tx_start(sk);
}
#endif

static void tx_start(struct sock *sk)
{
	REGISTERED.cwnd_event(sk, CA_EVENT_TX_START);
}
#endif

static int __init mptune_register(void)
{
	strscpy(REGISTERED.name, NAME, sizeof(REGISTERED.name));
	REGISTERED.flags = TCP_CONG_NON_RESTRICTED;
	REGISTERED.owner = THIS_MODULE;
#ifdef HAS_TX_START
	if (REGISTERED.cwnd_event)
		REGISTERED.cwnd_event_tx_start = tx_start;
#endif
	return tcp_register_congestion_control(&REGISTERED);
}
late_initcall(mptune_register);
