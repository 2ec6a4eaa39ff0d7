"""The small fidelity set of the kernel matrix: low rates and long RTTs, for emulated processors.

Not a benchmark. The guest and whoever booted it make the same trials from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mptune.decision.comparison import CompareOptions, trial
from mptune.linux.quiet import Noise, Quiet
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.topology import load
from mptune.trial import Observation, Trial

NETWORKS = Path(__file__).parent / "networks"
#: Runs on the kernel, and in the simulator.
RUNS, SIMULATED_RUNS = 1, 20
_SECONDS = 8
#: Buffers as multiples of the sum of the rates times the largest RTT, their mode, and congestion controls.
_CASES = ((2.0, "fixed", "cubic"), (2.0, "fixed", "reno"), (2.0, "auto", "cubic"))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with its runs, of which the kernel does the first `RUNS`."""

    network: str
    cc: str
    buffer_bytes: int
    buffer_mode: str
    trials: tuple[Trial, ...]


def cases() -> list[Case]:
    """All of them, in an order that does not change."""
    planned = []
    for path in sorted(NETWORKS.glob("*.toml")):
        topology = load(path)
        rate_bps = sum(path.rate_bps for path in topology.paths)
        product = rate_bps * max(path.base_rtt_ns for path in topology.paths) / 8e9
        for multiple, mode, cc in _CASES:
            size = round(multiple * product / 1024) * 1024
            options = CompareOptions(
                pms=("fullmesh",),
                ccs=(cc,),
                buffers=(size,),
                buffer_mode=mode,
                duration_ns=_SECONDS * 10**9,
            )
            runs = [trial(topology, options, "fullmesh", cc, size, run) for run in range(SIMULATED_RUNS)]
            planned.append(
                Case(network=topology.name, cc=cc, buffer_bytes=size, buffer_mode=mode, trials=tuple(runs))
            )
    return planned


def on_this_kernel() -> Iterator[tuple[int, Observation]]:
    """Number of a case and an observation, one after the other; a run has its case's number.

    Raises
    ------
    MptuneError : this kernel cannot run them.
    """
    # Emulated processors wake up late however quiet the machine is: each trial records if it was overloaded.
    bed = NamespacesTestbed(Quiet(probe=lambda: Noise(0.0, 0.0)))
    with bed.session():
        for run in range(RUNS):
            for number, case in enumerate(cases()):
                seen = bed.run(case.trials[run])
                subflows = [msgspec.structs.replace(subflow, bins=[]) for subflow in seen.subflows]
                yield number, msgspec.structs.replace(seen, bins=[], subflows=subflows)
