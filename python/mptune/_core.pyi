"""The compiled core (crate mptune-python). Private: use the modules of `mptune` that wrap it."""

__all__ = [
    "SpecError",
    "congestion_controls",
    "path_managers",
    "schedulers",
    "simulate",
    "version",
]

class SpecError(ValueError):
    """A trial that cannot be run; `args` are the key and what was expected there."""

def version() -> str:
    """Version of the core, "MAJOR.MINOR.PATCH"."""

def congestion_controls() -> list[str]:
    """Names of all congestion controls, in the order of the core's list."""

def path_managers() -> list[str]:
    """Names of all path managers, in the order of the core's list."""

def schedulers() -> list[str]:
    """Names of all schedulers, in the order of the core's list."""

def simulate(trial: bytes) -> bytes:
    """Run one trial: JSON of the core's `TrialSpec` in, JSON of its `Outcome` out.

    Releases the GIL while it runs.

    Raises
    ------
    SpecError : the trial is impossible (unknown name, buffer below one segment, ...).
    """
