"""`mptune buffers`: the traditional buffer sizes per path and for MPTCP, beside a recommendation.

This file turns options into paths, a run directory into a recommendation, and a measurement into practical
sizes; `_buffer_tables` and `_practical_tables` show them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune import units
from mptune.cli._buffer_tables import Case, document, show
from mptune.cli._common import (
    JsonOption,
    QuietOption,
    add,
    complete_scenarios,
    console,
    emit_json,
    load_topology,
)
from mptune.cli._practical_tables import practical_document, show_practical
from mptune.errors import InputError
from mptune.optimisation.practical import PracticalOptions
from mptune.options import Given, Option, Options, choice, count, time
from mptune.options.trials import MeasuringOptions, check_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.optimisation.practical import Measured
    from mptune.result.answer import Answer
    from mptune.topology import Path as NetworkPath

#: RTT statistics of a topology: key -> description.
_RTTS = {
    "base": "RTTs with empty queues",
    "loaded": "RTTs with the queue of the slowest link full",
}

_UNKNOWN = "no buffer sizes by formula, as not every rate and RTT is known (`mptune probe` measures them)"

_PATH_SYNTAX = 'expected RATE,RTT or RATE,RTT,RTO such as "100Mbit/s,10ms,1s"'


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        buffers,
        "mptune buffers --path 100Mbit/s,10ms --path 1Mbit/s,200ms    # fibre and ADSL of the paper",
        "mptune buffers UNIS-HiN",
        "mptune buffers UNIS-HiN --rtt loaded --rto 2s --connections 1000",
        "mptune buffers SRL-HU --rtt loaded --rto 2s                  # nearly MPCOA's Table 5",
        "mptune buffers UNIS-HiN --run runs/demo --json               # beside a measured recommendation",
        "mptune buffers UDE-HU.buffersizes --measure                  # what is enough, by initial path",
        "mptune buffers KU-HiG.buffersizes --measure --initial-path K-P --runs 20 --duration 60s",
    )


def buffers(
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPOLOGY",
            help="A topology file or a shipped scenario.",
            autocompletion=complete_scenarios,
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE,RTT[,RTO]", help="A path instead of a topology; repeat for more."),
    ] = None,
    rtt: Annotated[
        str | None,
        Option(
            choice(lambda: _RTTS, listed=False),
            "RTTs of a topology. base: with empty queues; loaded: with a full queue.",
            flag="--rtt",
            unset="base",
        ),
    ] = None,
    rto: Annotated[
        int,
        Option(
            time(positive=True),
            "Retransmission timeout; RFC 6298 requires at least 1s, Linux allows 200ms.",
            flag="--rto",
        ),
    ] = 1_000_000_000,
    run: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also show the recommendation of this run directory.")
    ] = None,
    connections: Annotated[
        int, Option(count(1), "Also show the memory for this many connections.", flag="--connections")
    ] = 1,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure the sufficient buffer by initial path, and the paths."),
    ] = False,
    *,
    options: Given[PracticalOptions],
    measuring: Given[MeasuringOptions],
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the buffers of each path and of MPTCP over all.

    A buffer must hold data until they are acknowledged: for one RTT without loss, two RTTs with a fast
    retransmission, three RTTs and an RTO with a timer retransmission. All subflows share MPTCP's buffer, so
    the sum of the rates and the largest RTT and RTO count. As in the papers, a link that several paths share
    is counted once for each. Sizes are for one direction: the sender's send buffer, the receiver's receive
    buffer. MPCOA's sizes are beside them: its Eq. 1, which is Eq. 3; that of its Table 5, 3 (RTT + RTO) with
    the rates of the access links; and half of that, its rule of thumb.

    With --measure, fullmesh with cubic is measured from every initial path over --buffers: shown is the
    smallest sufficient buffer, which reaches 95 % of the largest throughput, as does every larger one; and
    the first one with 95 % where that differs. Plain TCP is measured on every path, and the formulas are
    applied to its throughput and to the median of pings, as in the buffer-size study. Between hosts whose
    rates or RTTs are unknown, nothing else is shown.
    """
    if not measure and (flags := [*options.beyond(Options), *measuring.beyond(Options)]):
        raise InputError(flags[0], "", "expected only with --measure")
    if measure and topology is None:
        raise InputError("--measure", "", "expected only with a TOPOLOGY")
    where = measuring.build()
    bare = measure and run is None and connections == 1
    case = _case(topology, path or [], rtt, rto, reverse=where.reverse, may_lack=bare)
    recommendation = None if run is None else _recommendation(run)
    measured = None if topology is None or not measure else _measured(topology, options.build(), where, quiet)
    if as_json:
        practical = {} if measured is None else practical_document(measured, rto)
        emit_json({**document(case, connections, recommendation), **practical})
        return
    if case.subflows:
        show(console(), case, connections, recommendation)
    else:
        console().print(f"{case.name}: {_UNKNOWN}", style="bold", markup=False)
    if measured is not None:
        show_practical(console(), measured, list(case.subflows.values()), rto)


def _measured(topology: str, options: PracticalOptions, where: MeasuringOptions, quiet: bool) -> Measured:
    """Measurements of a topology."""
    from mptune import testbeds
    from mptune.optimisation.practical import measure_practical
    from mptune.runner.progress import Reporter
    from mptune.runner.runner import TrialRunner

    loaded = load_topology(topology, reverse=where.reverse, family=options.family)
    check_labels(options, loaded)
    options.stack.check_on(where.testbed)
    runner = TrialRunner(testbeds.create(where.testbed), where.jobs)
    reporter = Reporter(quiet=quiet)
    reporter.notice(testbeds.notice(where.testbed, loaded))
    return measure_practical(loaded, runner, options, reporter=reporter)


def _case(
    topology: str | None,
    paths: Sequence[str],
    rtt: str | None,
    rto_ns: int,
    *,
    reverse: bool = False,
    may_lack: bool = False,
) -> Case:
    """Paths of a topology or of the command line.

    Parameters
    ----------
    may_lack : a topology whose rates and RTTs are not all known has no paths; otherwise it is refused.

    Raises
    ------
    InputError : both or neither are given, or an option does not apply to them.
    """
    if (topology is None) == (not paths):
        given = "neither" if topology is None else "both"
        raise InputError("TOPOLOGY, --path", "", f"expected one of them, found {given}")
    if topology is None:
        if rtt is not None:
            raise InputError("--rtt", "", "expected only with a TOPOLOGY: each --path has its own RTT")
        return _given(paths, rto_ns)
    from mptune.theory import Subflow
    from mptune.theory import access as access_of

    statistic = rtt or "base"
    loaded = load_topology(topology, reverse=reverse)
    if loaded.missing and may_lack:
        return Case(loaded.name, _RTTS[statistic], {})
    loaded.check_known("the formulas")
    subflows = {
        path.label: Subflow(rate_bps=path.rate_bps, rtt_ns=_rtt_ns(path, statistic), rto_ns=rto_ns)
        for path in loaded.paths
    }
    access = {path.label: access_of(path, _rtt_ns(path, statistic), rto_ns) for path in loaded.paths}
    return Case(loaded.name, _RTTS[statistic], subflows, access)


def _rtt_ns(path: NetworkPath, statistic: str) -> int:
    """RTT of a path; if loaded, plus the time to drain a full queue of the slowest link, rounded up."""
    if statistic == "base":
        return path.base_rtt_ns
    return path.base_rtt_ns - (-path.queue_bytes * 8 * 10**9 // path.rate_bps)


def _given(texts: Sequence[str], rto_ns: int) -> Case:
    """Paths of the command line, numbered."""
    from mptune.theory import Subflow

    subflows = {}
    for index, text in enumerate(texts, start=1):
        parts = text.split(",")
        if len(parts) not in (2, 3):
            raise InputError("--path", text, f"{_PATH_SYNTAX}, found {len(parts)} value(s)")
        values = []
        for part, parse in zip(parts, (units.parse_rate, units.parse_time, units.parse_time), strict=False):
            try:
                values.append(_positive(f"--path: {text}", parse(part)))
            except ValueError as error:
                raise InputError("--path", text, str(error)) from None
        rate_bps, rtt_ns, *own = values
        subflows[f"path {index}"] = Subflow(
            rate_bps=rate_bps, rtt_ns=rtt_ns, rto_ns=own[0] if own else rto_ns
        )
    return Case("paths as given", "RTTs as given", subflows)


def _positive(where: str, value: int) -> int:
    """Refuse a rate or time of 0.

    Raises
    ------
    InputError : it is 0.
    """
    if value <= 0:
        raise InputError(where, "", "expected more than 0, found 0")
    return value


def _recommendation(run: str) -> Answer:
    """Recommendation in a run directory.

    Raises
    ------
    InputError : there is none, or not a single one.
    """
    from mptune.result.documents import read_answer

    return read_answer(Path(run), f"--run {run}")
