"""Measures the same configurations in the simulator and on the kernel.

What the numbers say is `mptune.comparison`'s, how they are shown `mptune.cli.compare`'s.
"""

import itertools

import msgspec

from mptune import testbeds
from mptune.campaign.progress import Reporter
from mptune.campaign.running import run_trials
from mptune.campaign.seeds import seed_for
from mptune.comparison import Comparison, Row, compare, summarise_runs
from mptune.errors import InputError
from mptune.testbeds import MSS, Trial
from mptune.testbeds.namespaces import stall_ns
from mptune.topology import Topology


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every path manager with every congestion control and every buffer.

    Attributes
    ----------
    buffers : bytes.
    runs : of each configuration, with a seed of its own each.
    duration_ns, transfer_bytes : as in `Trial`, one of them.
    seed : base of all seeds.
    """

    pms: tuple[str, ...]
    ccs: tuple[str, ...]
    buffers: tuple[int, ...]
    runs: int = 1
    duration_ns: int | None = None
    transfer_bytes: int | None = None
    seed: int = 1


def check_options(options: CompareOptions) -> None:
    """Refuse what cannot be, before anything is measured.

    Raises
    ------
    InputError : naming the option.
    """
    for option, found, known in (
        ("--cc", options.ccs, testbeds.names("congestion_controls")),
        ("--pm", options.pms, testbeds.names("path_managers")),
    ):
        for name in found:
            if name not in known:
                raise InputError(option, "", f"expected one of {', '.join(known)}, found {name!r}")
    for size in options.buffers:
        if size < MSS:
            raise InputError("--buffers", "", f"expected at least one segment ({MSS} B), found {size} B")
    for option, number in (
        ("--runs", options.runs),
        ("--duration", options.duration_ns),
        ("--transfer", options.transfer_bytes),
    ):
        if number is not None and number < 1:
            raise InputError(option, "", f"expected more than 0, found {number}")


def measure(
    topology: Topology,
    options: CompareOptions,
    *,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Comparison:
    """Run every trial on both testbeds, the same one on either.

    Raises
    ------
    InputError : an option that cannot be, or that the kernel cannot do.
    MptuneError : there is no kernel testbed on this machine.
    """
    check_options(options)
    reporter = reporter or Reporter(quiet=True)
    configurations = list(itertools.product(options.pms, options.ccs, options.buffers))
    trials = [
        trial(topology, options, pm, cc, size, run)
        for pm, cc, size in configurations
        for run in range(options.runs)
    ]
    kernel = testbeds.create("namespaces")
    with reporter.phase("simulated") as progress:
        simulated = run_trials(testbeds.create("simulated"), trials, workers=workers, progress=progress)
    with reporter.phase("kernel") as progress:
        measured = run_trials(kernel, trials, workers=workers, progress=progress)
    rows = []
    for number, (pm, cc, size) in enumerate(configurations):
        here = slice(number * options.runs, (number + 1) * options.runs)
        quiet = stall_ns(trials[here][0])
        rows.append(
            Row(
                pm=pm,
                cc=cc,
                buffer_bytes=size,
                simulated=summarise_runs(simulated[here], quiet),
                kernel=summarise_runs(measured[here], quiet),
            )
        )
    return compare(rows)


def trial(topology: Topology, options: CompareOptions, pm: str, cc: str, size: int, run: int) -> Trial:
    """One trial, with the scheduler that the kernel has."""
    return Trial(
        topology=topology,
        pm=pm,
        cc=cc,
        scheduler="kernel",
        buffer_bytes=size,
        duration_ns=options.duration_ns,
        transfer_bytes=options.transfer_bytes,
        seed=seed_for(options.seed, "sweep", run),
    )
