"""The trial: one measurement to make, with everything that its result depends on."""

from typing import Any, Literal, get_args

import msgspec

from mptune.topology import BOTH, FAMILIES, Topology
from mptune.trial.kept import PLAIN_TCP
from mptune.trial.mixes import Workload
from mptune.trial.path_parameters import PathParameters
from mptune.trial.stacks import MEMBERS, Members

#: Width of one bin of every throughput series, nanoseconds (100 ms).
BIN_NS = 100_000_000

#: The modes of buffers: they have a size, or they grow up to it.
FIXED, AUTO = "fixed", "auto"
#: Purpose of a size that is the sender's alone: buffers that grow, the receiver's further.
SENDER = "sender"

#: Default maximum segment size: bytes of a full segment.
MSS = Members().mss


#: Transport protocols: the names of `Trial.protocol`.
PROTOCOLS: tuple[str, ...] = ("mptcp", PLAIN_TCP)

#: The names of `Trial.family`.
FAMILY_CHOICES: tuple[str, ...] = (*FAMILIES, BOTH)

#: The family of a trial that names none.
DEFAULT_FAMILY = "ipv4"


#: Actions of a script on a path.
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


class Trial(Members, frozen=True, kw_only=True):
    """One measurement to make, with the members of its stack.

    Attributes
    ----------
    topology : the network between the two sites; with MPTCP those of its paths alone on which that passes.
    protocol : "mptcp", or "tcp" for plain TCP on the initial path: with the path manager default, and with
        no scripted actions but down and up. Of the stack, its scheduler and scheduling rules then do nothing.
    family : "ipv4" or "ipv6" for every subflow, and for background connections of the simulator; or "both":
        each path has its own (`Topology.over`).
    pm, cc : names from the core's lists.
    buffer_bytes : connection-level send buffer and receive buffer, bytes each: of payload, or with the
        accounting "linux" the value given to SO_SNDBUF and SO_RCVBUF, as on the kernel.
    buffer_mode : "fixed", or "auto": the buffers grow as needed and `buffer_bytes` is their limit, of
        payload, or with the accounting "linux" the value of `tcp_wmem[2]` and `tcp_rmem[2]`.
    workload : what is sent.
    receive_buffer_bytes : the receive buffer alone, in the same way; None for `buffer_bytes`.
    initial_path : label of the path of the MP_CAPABLE handshake; None leaves it to the path manager.
    pm_options : options of the path manager by name (see `mptune.path_managers`); paths by label.
    size_known : the path manager knows in advance how much there is to send (no limit for a saturated
        sender); otherwise it sees only what was sent so far.
    script : scripted actions, in any order.
    path_parameters : what the path policy is told of paths.
    """

    topology: Topology
    pm: str
    cc: str
    buffer_bytes: int
    seed: int
    workload: Workload
    protocol: Literal["mptcp", "tcp"] = "mptcp"
    family: str = DEFAULT_FAMILY
    initial_path: str | None = None
    pm_options: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    size_known: bool = True
    buffer_mode: str = FIXED
    script: tuple[ScriptedAction, ...] = ()
    path_parameters: PathParameters = PathParameters()
    receive_buffer_bytes: int | None = None

    def __post_init__(self) -> None:
        """Take the paths of its family, without those that MPTCP cannot use, whoever makes the trial."""
        left = self.topology.over(self.family)
        if self.protocol != PLAIN_TCP:
            left = left.for_mptcp(self.initial_path)
        if left is not self.topology:
            msgspec.structs.force_setattr(self, "topology", left)

    @property
    def sized(self) -> str:
        """Purpose of its buffer's size: its `buffer_mode`, or `SENDER`."""
        receive = self.receive_buffer_bytes
        alone = self.buffer_mode == AUTO and receive is not None and receive > self.buffer_bytes
        return SENDER if alone else self.buffer_mode

    @property
    def members(self) -> dict[str, Any]:
        """The members of its stack, by name."""
        return {name: getattr(self, name) for name in MEMBERS}

    @property
    def lsrr_honoured(self) -> bool:
        """True if binder may use its gateways: only IPv4 has loose source routes (RFC 791, RFC 5095).

        Of a connection over both families the core knows which paths those are.
        """
        return self.topology.lsrr_honoured and self.family != "ipv6"
