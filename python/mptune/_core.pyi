"""The compiled core (crate mptune-python). Private: use the modules of `mptune` that wrap it."""

from typing import Self, final

__all__ = [
    "LimitRule",
    "SpecError",
    "accountings",
    "buffer_modes",
    "congestion_controls",
    "early_end",
    "path_manager_options",
    "path_manager_start",
    "path_managers",
    "schedulers",
    "simulate",
    "simulate_recorded",
    "version",
    "wire_effects",
    "wire_mean_loss_ppb",
]

class SpecError(ValueError):
    """A trial that cannot be run; `args` are the key and what was expected there."""

@final
class LimitRule:
    """The daemon's rule for the limit of send buffers, with one destination (crates/mptune-core/src/limits).

    Parameters
    ----------
    least, most : bounds of the limit, bytes.
    target : share of the curve's maximum that is enough.
    limit : in force at first, bytes.
    curve : throughput over the limit, points of bytes and Mbit/s; None if it is not known.

    Raises
    ------
    SpecError : the points are no curve.
    """

    def __new__(
        cls, least: int, most: int, target: float, limit: int, curve: list[tuple[int, float]] | None
    ) -> Self: ...
    def step(self, mbit_s: float, pipe_bytes: float, limited: float) -> tuple[int, str]:
        """The next limit (bytes) and the reason, after an interval with one saturated connection.

        Parameters
        ----------
        mbit_s : its throughput.
        pipe_bytes : the rate of each subflow times its smallest RTT, added up.
        limited : share of the interval in which the buffer held it up.
        """

def version() -> str:
    """Version of the core, "MAJOR.MINOR.PATCH"."""

def congestion_controls() -> list[str]:
    """Names of all congestion controls, in the order of the core's list."""

def path_managers() -> list[str]:
    """Names of all path managers, in the order of the core's list."""

def path_manager_options() -> bytes:
    """JSON: the list of each path manager's options, each with name, kind, unit, help and default."""

def path_manager_start(
    name: str, options: bytes, paths: bytes, transfer_bytes: int | None, default: int
) -> tuple[int, list[int]]:
    """Beginning of a connection under a path manager.

    Parameters
    ----------
    name : one of `path_managers()`.
    options : its options by name, a JSON object; missing ones have their defaults.
    paths : a JSON list of {"local", "remote"}, the numbers of their interfaces.
    transfer_bytes : None if unknown, 2**64 - 1 if there is no end.
    default : number of the topology's initial path.

    Returns
    -------
    The number of the path for the first subflow, and the numbers of sent bytes at which the path manager may
    want a notification.

    Raises
    ------
    SpecError : no such path manager, or an invalid option.
    """

def early_end(bins: list[int], duration_ns: int, bin_ns: int) -> tuple[int, int] | None:
    """When a trial with these bins would have ended early (ns), and the bytes expected over its duration."""

def schedulers() -> list[str]:
    """Names of all schedulers, in the order of the core's list."""

def accountings() -> list[str]:
    """Names of the simulator's buffer accountings, the default first."""

def buffer_modes() -> list[str]:
    """Modes of the buffers, the default first."""

def simulate(trial: bytes) -> bytes:
    """Run one trial: JSON of the core's `TrialSpec` in, JSON of its `Outcome` out.

    Releases the GIL while it runs.

    Raises
    ------
    SpecError : the trial is impossible (unknown name, buffer below one segment, ...).
    """

def simulate_recorded(trial: bytes, packets: int, spacing_ns: int) -> tuple[bytes, bytes, int, bytes]:
    """The same with a recording (`crates/mptune-core/src/recording.rs`).

    Parameters
    ----------
    packets : most packets that are kept.
    spacing_ns : time between two samples of the senders.

    Returns
    -------
    JSON of the `Outcome`, the packets' records, how many packets came beyond the limit, JSON of the samples.

    Raises
    ------
    SpecError : as `simulate`, or the trial may end early.
    """

def wire_effects() -> bytes:
    """JSON: the list of effects on the wire, each with key, words, bursts and parameters."""

def wire_mean_loss_ppb(effect: str, parameters: bytes) -> int:
    """Share of packets that an effect on the wire loses in the long run, parts per billion.

    Parameters
    ----------
    effect : its key.
    parameters : by name, a JSON object.

    Raises
    ------
    SpecError : no such effect, or invalid parameters.
    """
