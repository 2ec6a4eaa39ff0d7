"""What a topology file becomes: frozen records of integers, and the N x M paths between two sites.

Rates are bit/s, times nanoseconds, sizes bytes, losses parts per billion (ppb) of packets. No TOML and
no units here (see `_load`), and no simulation.
"""

from typing import Any

import msgspec

from mptune.errors import InputError
from mptune.topology import _network
from mptune.topology._effects import Background, Effects
from mptune.topology._network import Link

_PPB = 10**9
_BIT_NS_PER_BYTE = 8 * 10**9


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where one value comes from: exactly one of `source` (published there) and `assumed` (why).

    `default` tells that the file did not give the value at all.
    """

    value: str
    source: str | None = None
    assumed: str | None = None
    default: bool = False


class Interface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attachment of a site to an ISP: an up and a down access link, shared by all its paths.

    Attributes
    ----------
    isp, abbr : the ISP's name, and its abbreviation in path labels.
    up_bps, down_bps : rates of the two links, of a trace its mean.
    delay_ns : one-way delay of either link.
    queue_up_bytes, queue_down_bytes : limits of the queues in front of the two links.
    loss_ppb : random loss on either link.
    adsl : an ADSL line (decides the defaults of what the file leaves out).
    ipv4, ipv6 : addresses, for testbeds of real hosts.
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
    jitter_ns: int = 0
    up_effects: Effects = Effects()
    down_effects: Effects = Effects()


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A multi-homed endpoint; `abbr` is its key in the file."""

    abbr: str
    name: str
    location: str
    interfaces: tuple[Interface, ...]


class CoreSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lies between two access links, seen from the data sender.

    Attributes
    ----------
    forward_ns, reverse_ns : one-way delays for data and for ACKs.
    jitter_ns : largest extra delay, uniform per packet, either way; packets stay in order.
    loss_ppb : random loss in the data direction (ACKs are not lost here).
    rate_bps : rate cap, either way, of a trace its mean; None does not limit.
    queue_bytes : limit of the queue in front of the cap or the token bucket; None without one.
    forward_effects, back_effects : what else happens to data and to ACKs.
    """

    forward_ns: int
    reverse_ns: int
    jitter_ns: int
    loss_ppb: int
    rate_bps: int | None = None
    queue_bytes: int | None = None
    forward_effects: Effects = Effects()
    back_effects: Effects = Effects()


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """A (local interface, remote interface) pair; data flows from local (the sender) to remote."""

    label: str
    local_index: int
    remote_index: int
    local: Interface
    remote: Interface
    core: CoreSegment

    @property
    def base_rtt_ns(self) -> int:
        """Sum of all one-way delays there and back: the RTT with empty queues and no jitter.

        Delays are those before the first step of a schedule.
        """
        access = 2 * (self.local.delay_ns + self.remote.delay_ns)
        return access + self.core.forward_ns + self.core.reverse_ns

    @property
    def rate_bps(self) -> int:
        """Rate in the long run of the slowest link that data crosses: where it varies, its mean."""
        return self._bottleneck[0]

    @property
    def queue_bytes(self) -> int:
        """Queue in front of the slowest link that data crosses (the first of them if several).

        It is what lasting load fills: the limit, but of CoDel what its target allows.
        """
        rate, limit, effects = self._bottleneck
        return effects.standing_bytes(limit, rate)

    @property
    def loss_ppb(self) -> int:
        """Probability that a data packet is lost on the way over any of the three links, in the long run."""
        kept = (
            (_PPB - self.local.up_effects.mean_loss_ppb(self.local.loss_ppb))
            * (_PPB - self.core.forward_effects.mean_loss_ppb(self.core.loss_ppb))
            * (_PPB - self.remote.down_effects.mean_loss_ppb(self.remote.loss_ppb))
        )
        return _PPB - round(kept / _PPB**2)

    @property
    def bdp_bytes(self) -> int:
        """Bandwidth-delay product at the base RTT, rounded up to bytes."""
        return -(-self.rate_bps * self.base_rtt_ns // _BIT_NS_PER_BYTE)

    @property
    def _bottleneck(self) -> tuple[int, int, Effects]:
        """Long-run rate, queue limit and effects of the slowest link."""
        local, core, remote = self.local, self.core, self.remote
        links = [
            (local.up_bps, local.queue_up_bytes, local.up_effects),
            (core.rate_bps, core.queue_bytes, core.forward_effects),
            (remote.down_bps, remote.queue_down_bytes, remote.down_effects),
        ]
        limited = [
            (rate, queue, effects)
            for own, queue, effects in links
            if (rate := effects.mean_rate_bps(own)) is not None and queue is not None
        ]
        return min(limited, key=lambda link: link[0])


class Topology(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a testbed needs to know about the network between two sites.

    Attributes
    ----------
    paths : all N x M pairs, local interface by local interface.
    initial_path : label of the path of the first handshake unless a trial names another.
    lsrr_honoured : routers obey loose source routes (RFC 791), which the binder path manager needs.
    provenance : dotted key of every value -> where it comes from.
    file : name of the file it was read from, without folders.
    background : traffic of others.
    """

    name: str
    description: str
    sender: Site
    receiver: Site
    paths: tuple[Path, ...]
    initial_path: str
    lsrr_honoured: bool
    provenance: dict[str, Provenance]
    file: str
    background: tuple[Background, ...] = ()

    def path(self, label: str, where: str) -> Path:
        """Path with this label; `where` (a file or option) is named if there is none.

        Raises
        ------
        InputError : no such path; the message lists those that exist.
        """
        for path in self.paths:
            if path.label == label:
                return path
        known = ", ".join(path.label for path in self.paths)
        raise InputError(where, "", f"expected a path of {self.name} ({known}), found {label!r}")

    @property
    def links(self) -> list[Link]:
        """Every link in one direction, in the order of `network()`."""
        return _network.links(self.sender, self.receiver, self.paths)

    def network(self) -> dict[str, Any]:
        """Description of links and paths as the core reads it (JSON types only)."""
        return _network.describe(self)
