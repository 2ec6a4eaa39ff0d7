"""The compiled core (crate mptune-python). Private: use the modules of `mptune` that wrap it."""

import sys
from typing import final

__all__ = [
    "PathManager",
    "SpecError",
    "accountings",
    "congestion_controls",
    "path_managers",
    "schedulers",
    "simulate",
    "version",
]

if sys.platform == "linux":
    __all__ += ["emulator_main", "meter_main"]

class SpecError(ValueError):
    """A trial that cannot be run; `args` are the key and what was expected there."""

@final
class PathManager:
    """A path-management policy with its state: the same code that the simulator runs.

    Texts are JSON of the core's `pathmanager` types; an enum is a string, or an object with one key.

    Parameters
    ----------
    name : one of `path_managers()`.
    options : the core's `Options`; what is left out has its default.

    Raises
    ------
    SpecError : no such policy, or an option it cannot have.
    """

    def __new__(cls, name: str, options: bytes) -> PathManager: ...
    def initial_path(self, paths: bytes, default: int) -> int:
        """Number of the path for the first subflow; `paths` is a list of {"local", "remote"}.

        Raises
        ------
        SpecError : the paths are malformed.
        """

    def on_event(self, event: bytes, view: bytes) -> bytes:
        """Tell an `Event` with the core's `Situation`; the answer is a list of `Command`s.

        Raises
        ------
        SpecError : malformed, or a situation that cannot be.
        """

def version() -> str:
    """Version of the core, "MAJOR.MINOR.PATCH"."""

def congestion_controls() -> list[str]:
    """Names of all congestion controls, in the order of the core's list."""

def path_managers() -> list[str]:
    """Names of all path managers, in the order of the core's list."""

def schedulers() -> list[str]:
    """Names of all schedulers, in the order of the core's list."""

def accountings() -> list[str]:
    """Names of what the simulator can charge the buffers with, the default first."""

def simulate(trial: bytes) -> bytes:
    """Run one trial: JSON of the core's `TrialSpec` in, JSON of its `Outcome` out.

    Releases the GIL while it runs.

    Raises
    ------
    SpecError : the trial is impossible (unknown name, buffer below one segment, ...).
    """

if sys.platform == "linux":
    def emulator_main() -> int:
        """Emulate a network between standard input and output, as `python -m mptune.linux.emulator` does.

        Returns the exit status: 0 after a report, 1 if an error ended it. Releases the GIL while it runs.
        Takes SIGTERM and SIGINT over for good, has the calling thread scheduled in real time where that is
        permitted, and has the kernel kill the process when the thread that started it ends.
        """

    def meter_main() -> int:
        """Run one measurement between standard input and output, as `python -m mptune.linux.meter` does.

        Returns the exit status: 0 with a result, 1 if none took place. Releases the GIL while it runs. Takes
        SIGTERM and SIGINT over for good, and has the kernel kill the process when the thread that started
        it ends.
        """
