"""Trial, Observation, and the one verb a testbed has: `run(trial) -> Observation`.

This is the seam between what is asked (campaigns, impact factors, the CLI) and where it is
measured (simulator, kernel namespaces, hosts). It holds no algorithm. A new testbed is one file
beside this one and one line in `mptune.testbeds`.
"""

from typing import Literal, Protocol

import msgspec

from mptune.topology import Topology

#: Width of one bin of every throughput series, nanoseconds (100 ms).
BIN_NS = 100_000_000

#: Default maximum segment size: payload bytes of a full segment.
MSS = 1448


class ScriptedAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something done to a path from outside while the trial runs.

    `standby` withdraws the path's subflows from carrying data (as MP_PRIO does, RFC 8684 section 3.3.8,
    but not even as last resort: a withdrawn subflow stays silent), `active` readmits them;
    `down`/`up` cut and restore the path itself; `remove`/`add` withdraw its remote address and announce it
    again (REMOVE_ADDR, ADD_ADDR, RFC 8684 section 3.4): both ends close its subflows, and what they carried
    goes to others.
    """

    at_ns: int
    path: str
    action: Literal["standby", "active", "down", "up", "remove", "add"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement to do. Exactly one of `duration_ns` (saturated sender) or `transfer_bytes`.

    Attributes
    ----------
    topology : the network between the two sites.
    pm, cc, scheduler : names from the core's lists.
    opportunistic : opportunistic retransmission and penalisation, as the v0.9x kernels do when the
        shared window is full (Raiciu et al., NSDI 2012, section 4.2).
    buffer_bytes : connection-level send buffer and receive buffer, bytes each: of payload, or with the
        accounting "linux" the value given to SO_SNDBUF and SO_RCVBUF, as on the kernel.
    accounting : what the simulator charges the buffers with: "payload", or "linux" for socket memory as the
        kernel counts it (docs/explanation/buffers.md). The kernel has only its own.
    tso : the simulator's segments leave in bursts, as with segmentation offload.
    duration_ns : saturated sender for so long, counted from the first SYN.
    transfer_bytes : transfer of so many payload bytes, measured to its last byte in order.
    deadline_ns : give a transfer up after so long (it is then reported as failed).
    initial_path : label of the path of the MP_CAPABLE handshake; None leaves it to the path manager.
    active : labels of the subflows that carry data (PCDC's optional set); None means the path
        manager's own choice (all of them).
    standby_order : labels of the standby subflows, best impact factor first (take-over order).
    class_bytes : PCDC's data-size class limits (L1 up to the first, L2 up to the second, L3 above).
    ndiffports : subflows of the ndiffports path manager.
    script : scripted actions, in any order.
    """

    topology: Topology
    pm: str
    cc: str
    buffer_bytes: int
    seed: int
    duration_ns: int | None = None
    transfer_bytes: int | None = None
    deadline_ns: int = 600_000_000_000
    scheduler: str = "minrtt"
    opportunistic: bool = False
    accounting: str = "payload"
    tso: bool = False
    initial_path: str | None = None
    active: tuple[str, ...] | None = None
    standby_order: tuple[str, ...] = ()
    class_bytes: tuple[int, int] = (512 * 1024, 1024 * 1024)
    ndiffports: int = 2
    mss: int = MSS
    script: tuple[ScriptedAction, ...] = ()


class SubflowObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one subflow did. `bins` are payload bytes first delivered by it, per 100 ms.

    `counters` hold what else the testbed counts, by name: segments sent, recoveries, reductions and so on.
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


class BackgroundObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one background TCP connection did in the time it had data to send."""

    path: str
    duration_ns: int
    bytes: int
    retransmitted: int


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial gave. `bins` are payload bytes delivered in order, per 100 ms from the first SYN.

    `failed` is the reason when the trial gave no usable number; the numbers are then what was
    measured up to the failure and must not enter any statistic.
    """

    testbed: str
    duration_ns: int
    in_order_bytes: int
    bins: list[int]
    subflows: list[SubflowObservation]
    completion_ns: int | None = None
    failed: str | None = None
    background: list[BackgroundObservation] = []
    metadata: dict[str, bool | int | float | str] = {}

    @property
    def throughput_bps(self) -> float:
        """In-order payload bits per second over the whole trial (0 for an empty one)."""
        return self.in_order_bytes * 8e9 / self.duration_ns if self.duration_ns else 0.0


class Testbed(Protocol):
    """Where trials are run."""

    name: str
    #: How many trials may run side by side without disturbing each other (None: one per core).
    parallel: int | None

    def run(self, trial: Trial) -> Observation:
        """Run one trial.

        Raises
        ------
        InputError : the trial itself is impossible (unknown path, buffer below one segment).
        """
        ...
