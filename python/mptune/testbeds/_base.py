"""Trial, Observation, and the one verb a testbed has: `run(trial) -> Observation`.

This is the interface between the users of trials (campaigns, impact factors, the CLI) and the places where
they are measured (simulator, kernel namespaces, hosts). It has no algorithm. A new testbed is one file next
to this one and one line in `mptune.testbeds`.
"""

from typing import Any, Literal, Protocol, get_args

import msgspec

from mptune.errors import Failure
from mptune.testbeds.stacks import DEFAULT_STACK, MEMBERS, STACKS
from mptune.topology import Topology

#: Width of one bin of every throughput series, nanoseconds (100 ms).
BIN_NS = 100_000_000

#: What a trial has that says nothing about its stack.
_STACK = STACKS[DEFAULT_STACK]

#: The mode of buffers that have a size; the others are in the core's list.
FIXED = "fixed"

#: Default maximum segment size: bytes of a full segment.
MSS = _STACK.mss


#: What the two ends speak: the names of `Trial.protocol`.
PROTOCOLS: tuple[str, ...] = ("mptcp", "tcp")

#: The protocol without MPTCP; where path managers are listed, it stands for one, and no path manager has this
#: name.
PLAIN_TCP = "tcp"

#: What carries the packets: the names of `Trial.family`.
FAMILIES: tuple[str, ...] = ("ipv4", "ipv6")

#: The family of a trial that names none.
DEFAULT_FAMILY = "ipv4"


#: What a script can do to a path.
ScriptedWord = Literal["standby", "active", "down", "up", "remove", "add"]
ACTIONS: tuple[str, ...] = get_args(ScriptedWord)


class ScriptedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action on a path, from outside, while the trial runs.

    `standby` withdraws the path's subflows from carrying data (as MP_PRIO does, RFC 8684 section 3.3.8,
    but a withdrawn subflow stays silent even as a last resort), `active` readmits them;
    `down`/`up` cut and restore the path itself; `remove`/`add` withdraw its remote address and announce it
    again (REMOVE_ADDR, ADD_ADDR, RFC 8684 section 3.4): both ends close its subflows, and other subflows
    carry their data.
    """

    at_ns: int
    path: str
    action: ScriptedWord


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement to make, with exactly one of `duration_ns` (saturated sender) and `transfer_bytes`.

    Attributes
    ----------
    topology : the network between the two sites; with MPTCP those of its paths alone on which that passes.
    protocol : "mptcp", or "tcp" for plain TCP on the initial path: with the path manager default, and with
        no scripted actions but down and up. Of the stack, its scheduler and scheduling rules then do nothing.
    family : "ipv4", or "ipv6" for every subflow; background connections of the simulator have the same.
    pm, cc : names from the core's lists.
    scheduler, accounting, opportunistic, tso, mss, ecn : members of its stack (`mptune.testbeds.stacks`); the
        default is upstream Linux.
    buffer_bytes : connection-level send buffer and receive buffer, bytes each: of payload, or with the
        accounting "linux" the value given to SO_SNDBUF and SO_RCVBUF, as on the kernel.
    buffer_mode : "fixed", or "auto": the buffers grow as needed and `buffer_bytes` is their limit, of
        payload, or with the accounting "linux" the value of `tcp_wmem[2]` and `tcp_rmem[2]`.
    duration_ns : saturated sender for this long, counted from the first SYN.
    ends_early : the trial ends as soon as its throughput is known well enough, at the earliest after 4 s
        (`crates/mptune-core/src/early_end.rs`); only with `duration_ns` and without a script.
    transfer_bytes : transfer of this many payload bytes, measured to its last byte in order.
    deadline_ns : give up a transfer after this long (it is then reported as failed).
    initial_path : label of the path of the MP_CAPABLE handshake; None leaves it to the path manager.
    pm_options : options of the path manager by name (see `mptune.path_managers`); paths by label.
    size_known : the path manager knows in advance how much there is to send (no limit for a saturated
        sender); otherwise it sees only what was sent so far.
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
    protocol: Literal["mptcp", "tcp"] = "mptcp"
    family: str = DEFAULT_FAMILY
    scheduler: str = _STACK.scheduler
    opportunistic: bool = _STACK.opportunistic
    accounting: str = _STACK.accounting
    tso: bool = _STACK.tso
    initial_path: str | None = None
    pm_options: dict[str, Any] = {}
    size_known: bool = True
    buffer_mode: str = FIXED
    mss: int = MSS
    ecn: bool = _STACK.ecn
    script: tuple[ScriptedAction, ...] = ()
    ends_early: bool = False

    def __post_init__(self) -> None:
        """Leave out the paths that MPTCP cannot use, whoever makes the trial."""
        if self.protocol != PLAIN_TCP:
            left = self.topology.for_mptcp(self.initial_path)
            msgspec.structs.force_setattr(self, "topology", left)

    @property
    def members(self) -> dict[str, Any]:
        """The members of its stack, by name."""
        return {name: getattr(self, name) for name in MEMBERS}

    @property
    def lsrr_honoured(self) -> bool:
        """Whether binder may use its gateways: only IPv4 has loose source routes (RFC 791, RFC 5095)."""
        return self.topology.lsrr_honoured and self.family == DEFAULT_FAMILY


class SubflowObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one subflow did. `bins` are payload bytes that it delivered first, per 100 ms.

    `counters` has the testbed's other counters by name: segments sent, recoveries, reductions and so on.
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
    """What one background TCP connection did while it had data to send."""

    path: str
    duration_ns: int
    bytes: int
    retransmitted: int


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a trial. `bins` are payload bytes delivered in order, per 100 ms from the first SYN.

    `failed` is the reason if the trial gave no usable number; the numbers are then those measured up to the
    failure, and no statistics may include them.

    Attributes
    ----------
    duration_ns : how long it lasted; less than was asked for if it ended early.
    in_order_bytes, bins : what arrived in that time.
    expected_bps : of a trial that ended early, its throughput had it lasted as long as was asked for: what
        arrived, slow start included, and the rate of the last two thirds for the time left.
    """

    testbed: str
    duration_ns: int
    in_order_bytes: int
    bins: list[int]
    subflows: list[SubflowObservation]
    completion_ns: int | None = None
    failed: Failure | None = None
    background: list[BackgroundObservation] = []
    metadata: dict[str, bool | int | float | str] = {}
    expected_bps: float | None = None

    @property
    def throughput_bps(self) -> float:
        """In-order payload bits per second over the whole trial (0 for an empty one).

        Of a trial that ended early, over the duration that was asked for, as far as that is known.
        """
        if self.expected_bps is not None:
            return self.expected_bps
        return bits_per_second(self.in_order_bytes, self.duration_ns) if self.duration_ns else 0.0


def bits_per_second(size_bytes: int, duration_ns: int) -> float:
    """Throughput of this many bytes in a time that is not 0."""
    return size_bytes * 8e9 / duration_ns


def expected_bps(trial: Trial, expected_bytes: int | None) -> float | None:
    """Throughput over the whole duration of a trial that ended early; None if it did not."""
    if expected_bytes is None or trial.duration_ns is None:
        return None
    return bits_per_second(expected_bytes, trial.duration_ns)


class Testbed(Protocol):
    """Where trials are run."""

    name: str
    #: Number of trials that can run in parallel without disturbing each other (None: one per core).
    parallel: int | None

    def run(self, trial: Trial) -> Observation:
        """Run one trial.

        Raises
        ------
        InputError : the trial itself is impossible (unknown path, buffer below one segment).
        """
        ...
