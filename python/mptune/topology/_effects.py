"""What a link can do to packets beyond a rate, a delay, a queue and a loss: records and long-run means.

Fields have the names of the core's description (`crates/mptune-core/src/network/`), so `_network` passes the
records on unchanged; what an effect does to packets is documented there. Rates are bit/s, times nanoseconds,
sizes bytes, probabilities parts per billion (ppb). How a topology file expresses all this is in `_schema`.
"""

from collections.abc import Callable
from itertools import pairwise

import msgspec

_PPB = 10**9
_FULL_PACKET = 1500
_BIT_NS_PER_BYTE = 8 * 10**9


class Red(msgspec.Struct, frozen=True, kw_only=True, tag="red", tag_field="kind"):
    """Random early detection (Floyd and Jacobson 1993), with the gentle variant and ECN."""

    min_bytes: int
    max_bytes: int
    max_ppb: int
    weight_ppb: int
    gentle: bool
    ecn: bool


class StepMarking(msgspec.Struct, frozen=True, kw_only=True, tag="step", tag_field="kind"):
    """Marks every ECN-capable packet that finds more than a threshold (RFC 8257 section 3.1)."""

    mark_bytes: int


class Codel(msgspec.Struct, frozen=True, kw_only=True, tag="codel", tag_field="kind"):
    """Controlled delay (RFC 8289)."""

    target_ns: int
    interval_ns: int
    ecn: bool


class FqCodel(msgspec.Struct, frozen=True, kw_only=True, tag="fq_codel", tag_field="kind"):
    """A controlled delay for each flow, flows taking turns (RFC 8290)."""

    target_ns: int
    interval_ns: int
    ecn: bool
    queues: int
    quantum_bytes: int


#: A queue discipline with more than a limit.
Aqm = Red | StepMarking | Codel | FqCodel


class TokenBucket(msgspec.Struct, frozen=True, kw_only=True):
    """Bursts pass at once, the long-term rate is bounded; full at the start."""

    rate_bps: int
    burst_bytes: int


class GilbertElliott(msgspec.Struct, frozen=True, kw_only=True):
    """A Markov chain with a good and a bad state, one step per packet (Gilbert 1960, Elliott 1963)."""

    enter_ppb: int
    leave_ppb: int
    good_loss_ppb: int
    bad_loss_ppb: int

    @property
    def mean_loss_ppb(self) -> int:
        """Share of packets lost in the long run: (r h + p k) / (p + r)."""
        lost = self.leave_ppb * self.good_loss_ppb + self.enter_ppb * self.bad_loss_ppb
        return round(lost / (self.enter_ppb + self.leave_ppb))


class Reorder(msgspec.Struct, frozen=True, kw_only=True):
    """Some packets are late and get overtaken."""

    probability_ppb: int
    delay_ns: int


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change; what is None stays as it is."""

    at_ns: int
    rate_bps: int | None = None
    delay_ns: int | None = None
    loss_ppb: int | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rate, delay and loss over time; without a period the last values hold for ever."""

    steps: tuple[Step, ...]
    period_ns: int | None = None

    def mean(self, base: int, value: Callable[[Step], int | None]) -> int:
        """Long-run mean of one of the values: over a period, or after the last step; rounded down.

        `base` is the link's own value, which applies if no step sets another.
        """
        steps = [(step.at_ns, found) for step in self.steps if (found := value(step)) is not None]
        if not steps:
            return base
        if self.period_ns is None:
            return steps[-1][1]
        end = (steps[0][0] + self.period_ns, 0)
        held = sum(found * (until - at) for (at, found), (until, _) in pairwise([*steps, end]))
        return held // self.period_ns


class Effects(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All effects of one link; the default does nothing.

    Attributes
    ----------
    trace_ms : instead of a rate, the times at which 1500 bytes can leave, repeated (mahimahi's format).
    """

    trace_ms: tuple[int, ...] | None = None
    schedule: Schedule | None = None
    bucket: TokenBucket | None = None
    aqm: Aqm | None = None
    gilbert_elliott: GilbertElliott | None = None
    reorder: Reorder | None = None
    duplicate_ppb: int = 0

    def mean_rate_bps(self, rate_bps: int | None) -> int | None:
        """Long-run rate of a link whose own is `rate_bps`; for a trace its mean; None is unlimited."""
        rates = [] if self.bucket is None else [self.bucket.rate_bps]
        if rate_bps is not None:
            schedule = self.schedule
            rates.append(rate_bps if schedule is None else schedule.mean(rate_bps, lambda s: s.rate_bps))
        return min(rates, default=None)

    def mean_loss_ppb(self, loss_ppb: int) -> int:
        """Long-run share of packets that the wire loses; `loss_ppb` is the link's own loss."""
        if self.schedule is not None:
            loss_ppb = self.schedule.mean(loss_ppb, lambda step: step.loss_ppb)
        bursts = 0 if self.gilbert_elliott is None else self.gilbert_elliott.mean_loss_ppb
        return _PPB - round((_PPB - loss_ppb) * (_PPB - bursts) / _PPB)

    def standing_bytes(self, queue_bytes: int, rate_bps: int) -> int:
        """What sustained load keeps in a queue of this size: all of it, or what CoDel's target allows."""
        if not isinstance(self.aqm, Codel | FqCodel):
            return queue_bytes
        return min(queue_bytes, max(_FULL_PACKET, self.aqm.target_ns * rate_bps // _BIT_NS_PER_BYTE))


class OnOff(msgspec.Struct, frozen=True, kw_only=True):
    """Periods of sending and silence; `lengths` is "fixed", or "exponential" with these as means."""

    on_ns: int
    off_ns: int
    lengths: str


class UdpBackground(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="udp", tag_field="kind"
):
    """Datagrams that use one link and leave the network after it.

    Attributes
    ----------
    link : name of the link, as in `Topology.links`.
    rate_bps : while it sends, headers included.
    packet_bytes : size of its packets, headers included.
    on_off : None to send all the time.
    stop_ns : None for never.
    """

    link: str
    rate_bps: int
    packet_bytes: int
    on_off: OnOff | None = None
    start_ns: int = 0
    stop_ns: int | None = None


class TcpBackground(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tcp", tag_field="kind"
):
    """A saturated TCP connection on one path (its label), in the direction of the data."""

    path: str
    cc: str
    start_ns: int = 0
    stop_ns: int | None = None


#: Background traffic.
Background = UdpBackground | TcpBackground
