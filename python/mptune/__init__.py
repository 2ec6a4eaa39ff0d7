"""mptune: the best Multipath TCP configuration for a multi-homed host.

The public API of the package: only the names in `__all__` are stable, every module below is internal.
They are loaded from `mptune.api` at their first use, so that `import mptune` stays cheap.
"""

from mptune._core import version

#: Type checkers know this name and take it for true; `typing`, which has it too, takes most of the time of
#: the whole import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from mptune.api import (
        Agreement,
        Calibrated,
        Fit,
        ImpactFactors,
        OneTrial,
        Run,
        StatedFit,
        calibrate,
        compare,
        fit,
        impact_factors,
        open_run,
        optimise,
        run,
        sweep,
    )
    from mptune.errors import InputError, MptuneError
    from mptune.topology import Topology, load

__all__ = [
    "Agreement",
    "Calibrated",
    "Fit",
    "ImpactFactors",
    "InputError",
    "MptuneError",
    "OneTrial",
    "Run",
    "StatedFit",
    "Topology",
    "__version__",
    "calibrate",
    "compare",
    "fit",
    "impact_factors",
    "load",
    "open_run",
    "optimise",
    "run",
    "sweep",
    "version",
]

#: Version of the package; the Python files and the compiled core always carry the same one.
__version__ = version()

#: Modules of names that are not in `api`.
_ELSEWHERE = {"InputError": "errors", "MptuneError": "errors", "Topology": "topology", "load": "topology"}


if not TYPE_CHECKING:  # they have the imports above, and know of no other name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'mptune' has no attribute {name!r}")
        from importlib import import_module

        member = getattr(import_module(f"mptune.{_ELSEWHERE.get(name, 'api')}"), name)
        globals()[name] = member
        return member


def __dir__() -> list[str]:
    return sorted(__all__)
