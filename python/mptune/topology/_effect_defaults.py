"""Parameters of effects and of background traffic that a topology file may leave out, each with its reason.

They apply only to effects in the file: one that is not mentioned does nothing. The defaults of links are in
`_defaults`.
"""

from mptune.topology._defaults import Assumption

_FULL_PACKET = 1500
_TC_RED = "as iproute2's tc sets it (tc/q_red.c)"
_TARGET_NS = 5_000_000
_INTERVAL_NS = 100_000_000
#: The core takes intervals of up to 100 s.
_MAX_TARGET_NS = 10**10
_FLOYD_1997 = "Floyd's recommendation of 1997 (RED: Discussions of Setting Parameters)"

#: A queue for a discipline that keeps itself short: 10240 full packets.
CODEL_QUEUE = Assumption(
    10_240 * _FULL_PACKET,
    "no queue given: 10240 packets, out of CoDel's way, which keeps the queue short (RFC 8290, section 5.2)",
)


def red_max(queue_bytes: int, min_bytes: int | None) -> Assumption[int]:
    """Upper threshold of RED, bytes."""
    if min_bytes is None:
        return Assumption(queue_bytes // 4, f"no max given: a quarter of the queue, {_TC_RED}")
    reason = f"no max given: three times min within the queue, {_FLOYD_1997}"
    return Assumption(min(3 * min_bytes, queue_bytes), reason)


def red_min(max_bytes: int) -> Assumption[int]:
    """Lower threshold of RED, bytes."""
    return Assumption(max_bytes // 3, f"no min given: a third of max, {_FLOYD_1997}")


RED_PROBABILITY = Assumption(100_000_000, f"no probability given: 10 %, {_FLOYD_1997}")
RED_WEIGHT = Assumption(2_000_000, "no weight given: 0.002, as in the paper's simulations (1993)")
RED_GENTLE = Assumption(
    True, "not given: gentle, Floyd's recommendation of 2000 (Recommendation on using the gentle variant)"
)
RED_ECN = Assumption(False, "not given: drops, as Linux does by default (sch_red.c)")


def step_mark(queue_bytes: int) -> Assumption[int]:
    """Threshold of step marking, bytes."""
    reason = "no mark given: 20 packets, DCTCP's for 1 Gbit/s (SIGCOMM 2010), within half the queue"
    return Assumption(min(20 * _FULL_PACKET, queue_bytes // 2), reason)


def codel_target(rate_bps: int) -> Assumption[int]:
    """Acceptable time in the queue, ns."""
    packet_ns = min(_FULL_PACKET * 8 * 10**9 // rate_bps, _MAX_TARGET_NS)
    if packet_ns <= _TARGET_NS:
        return Assumption(_TARGET_NS, "no target given: 5 ms, the recommendation (RFC 8289, section 4)")
    reason = "no target given: the time of a full packet where that is more than 5 ms (RFC 8290, section 5.2)"
    return Assumption(packet_ns, reason)


def codel_interval(target_ns: int) -> Assumption[int]:
    """Time for which the target must be exceeded, ns."""
    if 10 * target_ns <= _INTERVAL_NS:
        reason = "no interval given: 100 ms, the recommendation (RFC 8289, section 4)"
        return Assumption(_INTERVAL_NS, reason)
    reason = "no interval given: ten times the target, which should be 5 to 10 % of it (RFC 8289, section 4)"
    return Assumption(10 * min(target_ns, _MAX_TARGET_NS), reason)


CODEL_ECN = Assumption(False, "not given: drops, as Linux does by default (sch_codel.c)")
FQ_CODEL_ECN = Assumption(True, "not given: marks, as Linux does by default (sch_fq_codel.c)")
FQ_CODEL_QUEUES = Assumption(1024, "no queues given: 1024, the recommendation (RFC 8290, section 5.2)")
FQ_CODEL_QUANTUM = Assumption(1514, "no quantum given: 1514 bytes, an Ethernet frame (RFC 8290, section 5.2)")

GOOD_LOSS = Assumption(0, "no good_loss given: the good state loses nothing (Gilbert 1960)")
BAD_LOSS = Assumption(
    10**9, "no bad_loss given: the bad state loses everything (the simple Gilbert model), so bursts are runs"
)

BACKGROUND_CC = Assumption("cubic", "no cc given: Linux' default")
BACKGROUND_START = Assumption(0, "no start given: from the beginning of the trial")
UDP_PACKET = Assumption(_FULL_PACKET, "no packet given: full packets, headers included")
UDP_LENGTHS = Assumption(
    "exponential", "no lengths given: drawn from exponential distributions, so sources do not synchronise"
)
