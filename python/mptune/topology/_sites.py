"""Sites, their interfaces, and the N x M paths between two of them: frozen records of integers.

Rates are bit/s, times nanoseconds, sizes bytes, losses parts per billion (ppb) of packets. No TOML and
no units here (see `_load`), and no simulation.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import msgspec

from mptune.topology._effects import Effects

#: Stands for a rate, a queue or a delay that is not known (`Topology.missing`); no rate and no queue is 0.
UNKNOWN = 0

#: Fate of MPTCP on a path, by the file (`mptune.topology._mptcp`).
Carries = Literal["full", "first", "none"]

_PPB = 10**9
_BIT_NS_PER_BYTE = 8 * 10**9


class Provenance(msgspec.Struct, frozen=True, kw_only=True, rename={"by": "measured"}):
    """Origin of one value: exactly one of `source` (published there), `assumed` (why) and `measured`.

    `default` marks a value that the file did not give.

    Attributes
    ----------
    by : what `measured` (when and how) is made from. JSON leaves it out where there is none: a store
        recognises trials by the JSON of their network, those of versions that did not know it too.
    """

    value: str
    source: str | None = None
    assumed: str | None = None
    default: bool = False
    by: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def measured(self) -> str | None:
        """Time and method of its measurement."""
        return None if isinstance(self.by, msgspec.UnsetType) else self.by


class Interface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attachment of a site to an ISP: an up and a down access link, shared by all its paths.

    Attributes
    ----------
    isp, abbr : the ISP's name, and its abbreviation in path labels.
    up_bps, down_bps : rates of the two links; for a trace its mean.
    delay_ns : one-way delay of either link.
    queue_up_bytes, queue_down_bytes : limits of the queues in front of the two links.
    loss_ppb : random loss on either link.
    adsl : an ADSL line (decides the defaults for what the file leaves out).
    ipv4, ipv6 : addresses, for testbeds of real hosts.
    device : its network device there, such as eth1.
    metered : whether its data are paid for.
    max_data_bytes : most that measurements may move over it; None is no limit.
    price_per_gb : of 10^9 bytes over it, either way, in any currency.
    monthly_bytes : what a contract has in a month; None is no limit. It is reported, and limits nothing.
    jitter_ns : largest extra delay of either link, uniform per packet; packets stay in order.
    up_effects, down_effects : what else the two links do to packets.
    """

    isp: str
    abbr: str
    up_bps: int
    down_bps: int
    delay_ns: int
    queue_up_bytes: int
    queue_down_bytes: int
    loss_ppb: int
    adsl: bool = False
    ipv4: str | None = None
    ipv6: str | None = None
    device: str | None = None
    metered: bool = False
    max_data_bytes: int | None = None
    price_per_gb: float = 0.0
    monthly_bytes: int | None = None
    jitter_ns: int = 0
    up_effects: Effects = Effects()
    down_effects: Effects = Effects()

    def address(self, family: str) -> str | None:
        """Its address of a family, "ipv4" or "ipv6"; None if it has none."""
        return self.ipv6 if family == "ipv6" else self.ipv4


class Site(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A multi-homed endpoint; `abbr` is its key in the file.

    Attributes
    ----------
    ssh : how the system's ssh reaches it, if it is a real host.
    lat, lon : where it is, degrees north and east; both or none.
    """

    abbr: str
    name: str
    location: str
    interfaces: tuple[Interface, ...]
    ssh: str | None = None
    lat: float | None = None
    lon: float | None = None


class CoreSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A segment between two access links, seen from the data sender.

    Attributes
    ----------
    forward_ns, reverse_ns : one-way delays for data and for ACKs.
    jitter_ns : largest extra delay, uniform per packet, either way; packets stay in order.
    loss_ppb : random loss in the data direction (ACKs are not lost here).
    rate_bps : rate cap, either way; for a trace its mean; None for no limit.
    queue_bytes : limit of the queue in front of the cap or token bucket; None without one.
    forward_effects, back_effects : what else happens to data and to ACKs.
    mptcp : what becomes of MPTCP there (`mptune.topology._mptcp`); None if that is not known.
    mptcp_ipv6 : the same over IPv6, where that differs; None if it does not.
    """

    forward_ns: int
    reverse_ns: int
    jitter_ns: int
    loss_ppb: int
    rate_bps: int | None = None
    queue_bytes: int | None = None
    forward_effects: Effects = Effects()
    back_effects: Effects = Effects()
    mptcp: Carries | None = None
    mptcp_ipv6: Carries | None = None


class SharedSegment(CoreSegment, frozen=True, kw_only=True, omit_defaults=True):
    """A segment that several paths cross behind their access links, beside the segment of each.

    Attributes
    ----------
    name : unique in its topology, letters and digits.
    """

    name: str


class Path(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A (local interface, remote interface) pair; data flows from local (the sender) to remote.

    Attributes
    ----------
    label : name of the path.
    local_index, remote_index : numbers of its interfaces at their sites.
    core : its own segment.
    family : its address family, if the connection has paths of both; None is the connection's.
    segment : name of its core segment, if that is not the label: paths of one segment share its links.
    shared : segments that it crosses together with other paths, in the order of the data.
    """

    label: str
    local_index: int
    remote_index: int
    local: Interface
    remote: Interface
    core: CoreSegment
    family: Literal["ipv4", "ipv6"] | None = None
    segment: str | None = None
    shared: tuple[SharedSegment, ...] = ()

    @property
    def crosses(self) -> str:
        """Name of its core segment, as in a topology file."""
        return self.label if self.segment is None else self.segment

    @property
    def base_rtt_ns(self) -> int:
        """Sum of all one-way delays there and back: the RTT with empty queues and no jitter.

        Delays are those before the first step of a schedule.
        """
        return self.around_ns + self.core.forward_ns + self.core.reverse_ns

    @property
    def around_ns(self) -> int:
        """Part of the RTT outside its own segment: of access links and shared segments."""
        return around_ns(self.local, self.remote, self.shared)

    @property
    def metered(self) -> bool:
        """True if data over one of its interfaces are paid for."""
        return self.local.metered or self.remote.metered

    def meets(self, other: "Path") -> bool:
        """True if the two have an interface or a shared segment in common."""
        mine, theirs = ({one.name for one in path.shared} for path in (self, other))
        ends = self.local_index == other.local_index or self.remote_index == other.remote_index
        return ends or bool(mine & theirs)

    def crossing(self, shared: Mapping[str, SharedSegment]) -> Self:
        """The path with other values of shared segments, by their names."""
        return msgspec.structs.replace(self, shared=tuple(shared[one.name] for one in self.shared))

    @property
    def rate_bps(self) -> int:
        """Long-run rate of the slowest link that data crosses; its mean if it varies."""
        return self._bottleneck[0]

    @property
    def queue_bytes(self) -> int:
        """Queue in front of the slowest link that data crosses (the first of them if several).

        It is what sustained load fills: the limit, or with CoDel what its target allows.
        """
        rate, limit, effects = self._bottleneck
        return effects.standing_bytes(limit, rate)

    @property
    def loss_ppb(self) -> int:
        """Long-run probability that a data packet is lost on any of its links."""
        kept, all_ppb = 1, 1
        for effects, own in (
            (self.local.up_effects, self.local.loss_ppb),
            *((segment.forward_effects, segment.loss_ppb) for segment in (*self.shared, self.core)),
            (self.remote.down_effects, self.remote.loss_ppb),
        ):
            kept *= _PPB - effects.mean_loss_ppb(own)
            all_ppb *= _PPB
        return _PPB - round(kept * _PPB / all_ppb)

    @property
    def bdp_bytes(self) -> int:
        """Bandwidth-delay product at the base RTT, rounded up to bytes."""
        return -(-self.rate_bps * self.base_rtt_ns // _BIT_NS_PER_BYTE)

    @property
    def _bottleneck(self) -> tuple[int, int, Effects]:
        """Long-run rate, queue limit and effects of the slowest link."""
        local, remote = self.local, self.remote
        links = [
            (local.up_bps, local.queue_up_bytes, local.up_effects),
            *((one.rate_bps, one.queue_bytes, one.forward_effects) for one in (*self.shared, self.core)),
            (remote.down_bps, remote.queue_down_bytes, remote.down_effects),
        ]
        limited = [
            (rate, queue, effects)
            for own, queue, effects in links
            if (rate := effects.mean_rate_bps(own)) is not None and queue is not None
        ]
        return min(limited, key=lambda link: link[0])


def around_ns(local: Interface, remote: Interface, shared: Sequence[SharedSegment]) -> int:
    """Delay of access links and shared segments there and back, nanoseconds."""
    segments = sum(segment.forward_ns + segment.reverse_ns for segment in shared)
    return 2 * (local.delay_ns + remote.delay_ns) + segments


def together_bps(paths: Sequence[Path]) -> int:
    """Long-run rate of paths together, bit/s, where a shared segment limits several of them only once.

    Each path counts with its slowest shared segment; access links that paths share are not looked at.
    """
    alone, limited = 0, dict[str, tuple[int, int]]()
    for path in paths:
        limits = [
            (rate, segment.name)
            for segment in path.shared
            if (rate := segment.forward_effects.mean_rate_bps(segment.rate_bps)) is not None
        ]
        if limits:
            rate, name = min(limits)
            limited[name] = rate, limited.get(name, (rate, 0))[1] + path.rate_bps
        else:
            alone += path.rate_bps
    return alone + sum(min(pair) for pair in limited.values())
