"""Theoretical buffer sizes: what a connection needs when only rates, RTTs and RTOs are known.

Eq. 1-3 of Zhou et al. (AINA 2017) and the formula behind MPCOA Table 5; nothing is measured. A single path is
a list of one. Everything is integer arithmetic, rounded up to whole bytes.
"""

from collections.abc import Sequence

import msgspec

from mptune.topology import Path, Topology

#: Retransmission timeout assumed where none is known: 1 s, as in AINA 2017 section V-C (and the
#: lower bound of RFC 6298 section 2.4).
RTO_NS = 1_000_000_000

_BIT_NS_PER_BYTE = 8 * 1_000_000_000


class Subflow(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one subflow for the formulas.

    Attributes
    ----------
    rate_bps : its bandwidth, bit/s (nominal or measured; the papers do both, errata E23).
    rtt_ns, rto_ns : round-trip time and retransmission timeout, nanoseconds.
    """

    rate_bps: int
    rtt_ns: int
    rto_ns: int = RTO_NS


def initial_transmission(subflows: Sequence[Subflow]) -> int:
    """Eq. 1: `max RTT * sum of bandwidths`, bytes; every segment arrives at the first attempt."""
    return _bytes(max(s.rtt_ns for s in subflows), subflows)


def fast_retransmission(subflows: Sequence[Subflow]) -> int:
    """Eq. 2: twice Eq. 1, bytes; a lost segment is repaired by one fast retransmission."""
    return _bytes(2 * max(s.rtt_ns for s in subflows), subflows)


def timer_retransmission(subflows: Sequence[Subflow]) -> int:
    """Eq. 3: `(3 max RTT + max RTO) * sum of bandwidths`, bytes; the fast retransmission is lost too.

    MPCOA prints the same formula as its Eq. 1.
    """
    return _bytes(3 * max(s.rtt_ns for s in subflows) + max(s.rto_ns for s in subflows), subflows)


def table5(subflows: Sequence[Subflow]) -> int:
    """Formula that gives the "traditional" column of MPCOA Table 5, bytes.

    `3 (max RTT + max RTO) * sum of min(sender up, receiver down)`: recovered from the numbers; it is not
    printed anywhere. `rate_bps` must be that minimum.
    """
    return _bytes(3 * (max(s.rtt_ns for s in subflows) + max(s.rto_ns for s in subflows)), subflows)


def half_of_table5(subflows: Sequence[Subflow]) -> int:
    """MPCOA's rule where measuring takes too long: half of its traditional size, bytes (section 6, (4))."""
    return -(-table5(subflows) // 2)


def access(path: Path, rtt_ns: int, rto_ns: int = RTO_NS) -> Subflow:
    """A path as Table 5 takes it: with the rate of its slower access link."""
    return Subflow(rate_bps=min(path.local.up_bps, path.remote.down_bps), rtt_ns=rtt_ns, rto_ns=rto_ns)


def traditional(topology: Topology, rto_ns: int = RTO_NS) -> dict[str, int]:
    """Every formula for the subflows between two sites, bytes: "eq1", "eq2", "eq3", "table5".

    RTTs are those of empty queues, so the sizes are at the lower end of what the formulas give. The rate is
    that of a path's slowest link; for Table 5 that of the slower access link.

    Raises
    ------
    InputError : a rate or an RTT is not known.
    """
    topology.check_known("the formulas")
    slowest = [Subflow(rate_bps=p.rate_bps, rtt_ns=p.base_rtt_ns, rto_ns=rto_ns) for p in topology.paths]
    accesses = [access(path, path.base_rtt_ns, rto_ns) for path in topology.paths]
    return {
        "eq1": initial_transmission(slowest),
        "eq2": fast_retransmission(slowest),
        "eq3": timer_retransmission(slowest),
        "table5": table5(accesses),
    }


def _bytes(time_ns: int, subflows: Sequence[Subflow]) -> int:
    """Bytes that the sum of the bandwidths carries in a time, rounded up."""
    return -(-time_ns * sum(s.rate_bps for s in subflows) // _BIT_NS_PER_BYTE)
