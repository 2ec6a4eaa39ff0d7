"""Defaults for link properties that a topology file leaves out, each with its reason.

A default is an assumption like any other: its reason is shown next to it wherever values are listed. Effects
that a file does not mention do not occur; the parameters of those it does mention are in `_effects`.
The evidence is Table II of the buffer-size study (AINA 2017), whose RTTs were measured under load.
"""

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_TABLE2 = "(buffer-size study, Table II)"


class Assumption(NamedTuple, Generic[T]):
    """A value nobody gave, and the reason for it."""

    value: T
    reason: str


def access_delay(adsl: bool) -> Assumption[int]:
    """One-way delay of an access link, ns."""
    if adsl:
        return Assumption(
            5_000_000, "no access delay given: 5 ms one way is usual for ADSL with interleaving"
        )
    return Assumption(500_000, "no access delay given: 0.5 ms one way is a fibre across a city")


#: Delay of an access link between real hosts, ns: what is known of them are RTTs of whole paths.
NO_ACCESS_DELAY = Assumption(
    0, "no access delay given: between real hosts the RTT of a path is known, not where it arises"
)


def access_queue(rate_bps: int, adsl: bool) -> Assumption[int]:
    """Drop-tail queue in front of an access link, bytes.

    An ADSL modem holds a second of traffic, at least 10 packets of 1500 bytes; anything else 30 ms, at least
    64 KiB and at most 4 MiB.
    """
    if adsl:
        reason = f"no queue given: 1 s at the line's rate, as the largest RTTs over ADSL lines show {_TABLE2}"
        return Assumption(max(rate_bps // 8, 15_000), reason)
    return Assumption(
        min(max(rate_bps * 30 // 8_000, 64 * 1024), 4 * 1024**2),
        "no queue given: 30 ms at the link's rate, 64 KiB to 4 MiB; over research networks the mean "
        f"RTT is 15 to 31 ms above the smallest {_TABLE2}",
    )


def access_loss(adsl: bool) -> Assumption[int]:
    """Random loss of an access link, ppb."""
    if adsl:
        return Assumption(
            1_000_000,
            "no loss given: the windows seen over ADSL lines (throughput times mean RTT) need 0.02 to 0.8 % "
            f"by TCP's response function {_TABLE2}",
        )
    return Assumption(0, "no loss given: a fibre loses only what its queue drops")


def core_loss() -> Assumption[int]:
    """Random loss of a core segment, ppb."""
    return Assumption(0, "no loss given: nothing is lost between the access links")


def core_jitter(core_rtt_ns: int) -> Assumption[int]:
    """Largest extra delay of a core segment one way, ns: 1 % of its one-way delay."""
    reason = "no jitter given: 1 % of the core delay, enough to keep subflows from moving in lockstep"
    return Assumption(core_rtt_ns // 200, reason)


#: One-way delay of a shared segment, ns.
SHARED_DELAY = Assumption(0, "no delay given: the RTT of a path is known, not where it arises")
#: Why a shared segment without a rate has none.
NO_SHARED_CAP = "no rate given: it is not known to limit its paths"
#: Why a core segment without a rate has none.
NO_CAP = "no rate given: the access links are the bottlenecks"
#: Reason why source routes are ignored by default.
NO_LSRR = "not given: routers on the Internet ignore loose source routes (path-management study, V-A)"
#: Reason why the first path is the initial one by default.
FIRST_PATH = "not given: the first pair of interfaces; the papers try every initial path"
FIRST_WITH_MPTCP = "not given: the first pair of interfaces between which MPTCP passes"
#: Source of plain values in a file that names no source.
NO_SOURCE = "stated in the topology file"
