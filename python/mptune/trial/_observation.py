"""The observation: the result of a trial."""

import msgspec

from mptune.errors import Failure
from mptune.trial._trial import BIN_NS, Trial
from mptune.trial.kept import Piece
from mptune.trial.workloads import Bulk


class SubflowObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one subflow. `bins` are payload bytes that it delivered first, per 100 ms.

    `counters` has the testbed's other counters by name: segments sent, recoveries, reductions and so on.
    `rto_ns` is the retransmission timeout at the end, 0 if it is not known; a kernel's includes its back-off.
    """

    path: str
    active: bool
    bytes: int
    srtt_ns: int
    min_rtt_ns: int
    retransmitted: int
    timeouts: int
    bins: list[int]
    counters: dict[str, int] = {}
    rto_ns: int = 0


class BackgroundObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one background TCP connection while it had data to send."""

    path: str
    duration_ns: int
    bytes: int
    retransmitted: int


class ConnectionObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one connection of many; times count from its own first SYN.

    `duration_ns` is how long it was measured, and `delays_ns` and `pieces` are those of `Observation`.
    """

    duration_ns: int
    bytes: int
    retransmitted: int
    completion_ns: int | None = None
    delays_ns: list[int] = []
    pieces: list[Piece] = []

    @property
    def throughput_bps(self) -> float:
        """In-order payload bits per second."""
        return bits_per_second(self.bytes, self.duration_ns) if self.duration_ns else 0.0


class PartObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of the connections of one part of a mix."""

    connections: list[ConnectionObservation]


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a trial. `bins` are payload bytes delivered in order, per 100 ms from the first SYN.

    `failed` is the reason if the trial gave no usable number; the numbers are then those measured up to the
    failure, and no statistics may include them.

    Attributes
    ----------
    duration_ns : how long it lasted; less than was asked for if it ended early.
    in_order_bytes, bins : what arrived in that time.
    parts : of a mix, one for each of its parts. Everything else but `background` is then of the connections
        of the first part together: payload and counters are sums, the duration and completion that of the
        last, there is one subflow for each path, and the delays of a connection follow those of the one
        before.
    delays_ns : of each message of the workload `messages` that arrived, in order: the time from when it was
        due to its last byte in order; of each response, page or segment of a video, from its request. Of
        messages both ways those back follow the others.
    pieces : the rest of what is known of each segment of a video.
    expected_bps : of a trial that ended early, its throughput had it lasted as long as was asked for: what
        arrived, slow start included, and the rate of the last two thirds for the time left.
    """

    testbed: str
    duration_ns: int
    in_order_bytes: int
    bins: list[int]
    subflows: list[SubflowObservation]
    completion_ns: int | None = None
    delays_ns: list[int] = []
    pieces: list[Piece] = []
    failed: Failure | None = None
    background: list[BackgroundObservation] = []
    metadata: dict[str, bool | int | float | str] = {}
    expected_bps: float | None = None
    parts: list[PartObservation] = []

    @property
    def throughput_bps(self) -> float:
        """In-order payload bits per second over the whole trial (0 for an empty one).

        Of a trial that ended early, over the duration that was asked for, as far as that is known.
        """
        if self.expected_bps is not None:
            return self.expected_bps
        return bits_per_second(self.in_order_bytes, self.duration_ns) if self.duration_ns else 0.0

    def rates_mbps(self, window_ns: int) -> list[float]:
        """In-order payload in each whole window of so many bins (`BIN_NS`), Mbit/s."""
        wide = window_ns // BIN_NS
        windows = range(self.duration_ns // window_ns)
        sums = [sum(self.bins[number * wide : (number + 1) * wide]) for number in windows]
        return [size * 8e3 / window_ns for size in sums]


def bits_per_second(size_bytes: int, duration_ns: int) -> float:
    """Throughput of this many bytes in a time that is not 0."""
    return size_bytes * 8e9 / duration_ns


def expected_bps(trial: Trial, expected_bytes: int | None) -> float | None:
    """Throughput over the whole duration of a trial that ended early; None if it did not."""
    if expected_bytes is None or not isinstance(trial.workload, Bulk):
        return None
    return bits_per_second(expected_bytes, trial.workload.duration_ns)
