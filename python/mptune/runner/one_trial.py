"""One trial on its own: its options, how it is measured, and its JSON document.

Nothing is kept of it; trials of a campaign are planned in `mptune.runner.planning`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from mptune import testbeds, units
from mptune._text import digits
from mptune.errors import InputError
from mptune.options import Option, Options, count
from mptune.options.path_managers import PathManagerOptions
from mptune.options.paths import PathOptions
from mptune.options.scripts import Script, wrong_times
from mptune.options.stacks import StackOptions
from mptune.options.trials import (
    USUAL_PMS,
    Buffer,
    BufferMode,
    Cc,
    Family,
    InitialPath,
    Pm,
    Protocol,
    ReceiveBuffer,
    SizeKnown,
    TransferSize,
    check_labels,
    sending_time,
)
from mptune.options.workloads import (
    AskedWorkload,
    Connections,
    WorkloadOption,
    impossible,
    on_connections,
    wrong_connections,
)
from mptune.runner.progress import Reporter
from mptune.statistics import quantile
from mptune.topology import Topology
from mptune.trial import (
    BIN_NS,
    DEFAULT_FAMILY,
    FIXED,
    Bulk,
    Mix,
    Observation,
    Part,
    PartObservation,
    PlannedTrial,
    Record,
    Timed,
    Trial,
    connections_of,
    judged,
    time_or_size,
)
from mptune.trial.kept import of_part
from mptune.trial.metrics import ROUND_TRIPS, Metric
from mptune.trial.objectives import metrics_of
from mptune.trial.records import LEAST_WINDOWS, in_ms, record
from mptune.trial.stacks import describe

_MINUTE_NS = 60 * 10**9

#: A connection's reaction to a script, by its name in the metadata of every testbed.
AFTER_A_SCRIPT = ("takeover_ms", "reinjected_bytes")


#: A trial without a time or a size sends for this long, nanoseconds.
_USUAL_NS = 30_000_000_000


class RunOptions(Options, frozen=True, kw_only=True):
    """Options of one trial; the fields but `stack` and `paths` are those of `mptune.trial.Trial`."""

    protocol: Protocol = "mptcp"
    pm: Pm = None
    cc: Cc = "cubic"
    buffer_bytes: Buffer = 16 * units.MIB
    receive_buffer_bytes: ReceiveBuffer = None
    buffer_mode: BufferMode = FIXED
    family: Family = DEFAULT_FAMILY
    duration_ns: Annotated[int | None, sending_time("30s")] = None
    transfer_bytes: TransferSize = None
    workload: WorkloadOption = None
    connections: Connections = 1
    size_known: SizeKnown = True
    seed: Annotated[int, Option(count(), "Seed of all random numbers.", flag="--seed")] = 1
    initial_path: InitialPath = None
    script: Script = ()
    stack: StackOptions = StackOptions()
    pm_options: PathManagerOptions = PathManagerOptions()
    paths: PathOptions = PathOptions()

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A time or a size, not both; options only of the path manager that is used."""
        if self.duration_ns is not None and self.transfer_bytes is not None:
            yield "transfer_bytes", "expected either --duration or --transfer, found both"
        if self.workload is not None and self.transfer_bytes is not None:
            yield "workload", "expected either --workload or --transfer, found both"
        for expected in impossible(self.asked, self.duration_ns):
            yield "workload", expected
        for expected in wrong_connections(self.workload, self.connections):
            yield "connections", expected
        if not self.size_known and self.transfer_bytes is None and self.workload is None:
            yield "size_known", "expected only with --transfer: without one there is no size to know"
        for expected in wrong_times(self.script, self.duration_ns):
            yield "script", expected
        if self.protocol == "tcp":
            yield from self._conflicts_of_tcp()
        for name, pm in self.pm_options.unused((self.manager,)):
            yield f"pm_options.{name}", f"expected only with --pm {pm}, found with {self.manager}"
        for name, expected in self.paths.misfits((self.cc,), self.protocol):
            yield f"paths.{name}", expected

    def _conflicts_of_tcp(self) -> Iterator[tuple[str, str]]:
        """Plain TCP has one path: nothing to manage, and nothing to schedule."""
        if self.manager != USUAL_PMS["tcp"]:
            yield "pm", f"expected {USUAL_PMS['tcp']} with --protocol tcp, found {self.pm}"
        for action in self.script:
            if action.action not in ("down", "up"):
                yield "script", f"expected only down and up with --protocol tcp, found {action.action}"
        for name in ("scheduler", "opportunistic"):
            if name in self.stack.given:
                yield f"stack.{name}", "expected only with --protocol mptcp, found with tcp"

    @property
    def manager(self) -> str:
        """The path manager: the given one, or the protocol's usual one."""
        return self.pm or USUAL_PMS[self.protocol]

    def completed(self) -> Self:
        """Without a time or a size, send for 30 s."""
        if self.duration_ns is None and self.transfer_bytes is None:
            return msgspec.structs.replace(self, duration_ns=_USUAL_NS)
        return self

    @property
    def asked(self) -> AskedWorkload | None:
        """The workload on all its connections; None of a single one with a time or a size."""
        return on_connections(self.workload, self.connections, self.transfer_bytes)


def trial_of(topology: Topology, options: RunOptions, testbed: str) -> Trial:
    """The trial that options mean on a network.

    Raises
    ------
    InputError : an option that cannot be on this topology or testbed.
    """
    check_labels(options, topology)
    options.stack.check_on(testbed)
    asked = msgspec.structs.asdict(options)
    duration_ns, transfer_bytes = asked.pop("duration_ns"), asked.pop("transfer_bytes")
    # A size needs no time, but a mix has one.
    sent = None if options.asked is None else options.asked.lasting(duration_ns or _USUAL_NS)
    asked.pop("connections")
    asked |= {
        "workload": sent or time_or_size(duration_ns, transfer_bytes),
        "pm": options.manager,
        "pm_options": options.pm_options.of(options.manager),
        "path_parameters": asked.pop("paths").chosen,
    }
    stack = asked.pop("stack").chosen(protocol=options.protocol)
    return Trial(topology=topology, **asked, **msgspec.structs.asdict(stack))


def measure_one(
    topology: Topology,
    options: RunOptions,
    *,
    testbed: str = "simulated",
    reporter: Reporter | None = None,
    capture: Path | None = None,
) -> tuple[Trial, Observation]:
    """Run one trial.

    Parameters
    ----------
    reporter : prints notices to the user before it begins.
    capture : file for its packets; None keeps none.

    Returns
    -------
    The trial, and its observation, which may have failed.

    Raises
    ------
    InputError : an option that cannot be on this topology or testbed.
    """
    trial, bed = trial_of(topology, options, testbed), testbeds.create(testbed)
    if capture is not None and not bed.records:
        expected = f"expected a testbed that keeps packets, found --testbed {bed.name}"
        raise InputError("--capture", "", expected)
    notice = testbeds.notice(
        testbed,
        topology,
        buffer_modes=(options.buffer_mode,),
        sending=trial.workload,
    )
    shown = reporter or Reporter(quiet=True)
    for sentence in (*(topology.ruled_out if options.protocol == "mptcp" else ()), notice):
        shown.notice(sentence)
    return trial, bed.run(trial) if capture is None else _captured(bed, trial, capture, shown)


def _captured(bed: testbeds.Testbed, trial: Trial, file: Path, reporter: Reporter) -> Observation:
    """Run one trial and write its packets to a file."""
    from mptune.capture import export

    observation, run = bed.record(trial)
    if run.unrecorded:
        reporter.notice(f"{file}: {run.unrecorded} packets at the end are missing, there were too many")
    standby = frozenset(subflow.path for subflow in observation.subflows if not subflow.active)
    export.write(trial, run, file, standby)
    return observation


class Uncounted(NamedTuple):
    """Bytes that arrived on subflows and are not in the total.

    Attributes
    ----------
    repeated : a second time, after they were sent again on another subflow.
    waiting : for others that were not there at the end.
    either : on kernels that do not count what they send again (before Linux 6.5).
    """

    repeated: int
    waiting: int
    either: int = 0


def uncounted(trial: Trial, observation: Observation) -> Uncounted:
    """Why the subflows together carried more than the total; zeros where they did not.

    The simulator counts what a subflow is first to deliver. A kernel counts everything that arrives, and how
    much its sender sent again, of which not all need have arrived twice: `repeated` is at most that.
    """
    excess = max(0, sum(subflow.bytes for subflow in observation.subflows) - observation.in_order_bytes)
    if judged(trial.workload).completes and observation.completion_ns is not None:
        return Uncounted(excess, 0)
    if testbeds.only_stack(observation.testbed) is None:
        return Uncounted(0, excess)
    reinjected = observation.metadata.get("reinjected_bytes")
    if reinjected is None:
        return Uncounted(0, 0, excess)
    repeated = min(excess, int(reinjected))
    return Uncounted(repeated, excess - repeated)


def trial_document(trial: Trial, observation: Observation) -> dict[str, Any]:
    """The document of `mptune run --json`: throughputs in Mbit/s of payload, times in s and ms."""
    seconds = observation.duration_ns / 1e9
    result: dict[str, Any] = {
        "throughput_mbps": observation.throughput_bps / 1e6,
        "duration_s": seconds,
        "buffer_bytes": trial.buffer_bytes,
        "receive_buffer_bytes": trial.receive_buffer_bytes,
        "buffer_mode": trial.buffer_mode,
        "protocol": trial.protocol,
        "family": trial.family,
        "pm": trial.pm,
        "cc": trial.cc,
        "stack": describe(trial.members),
        "scheduler": trial.scheduler,
        "seed": trial.seed,
        "testbed": observation.testbed,
        "subflows": [
            {
                "path": subflow.path,
                "active": subflow.active,
                "throughput_mbps": subflow.bytes * 8 / 1e6 / seconds,
                "rtt_ms": subflow.srtt_ns / 1e6,
                "min_rtt_ms": subflow.min_rtt_ns / 1e6,
                "retransmitted": subflow.retransmitted,
                "timeouts": subflow.timeouts,
                "counters": subflow.counters,
                "series_mbps": mbps_of_bins(subflow.bins, observation.duration_ns),
            }
            for subflow in observation.subflows
        ],
        "background": [
            {
                "path": flow.path,
                "throughput_mbps": flow.bytes * 8e3 / max(flow.duration_ns, 1),
                "retransmitted": flow.retransmitted,
            }
            for flow in observation.background
        ],
        "series": {
            "t_s": [number * BIN_NS / 1e9 for number in range(len(observation.bins))],
            "throughput_mbps": mbps_of_bins(observation.bins, observation.duration_ns),
        },
        "metadata": observation.metadata,
    }
    repeated, waiting, either = uncounted(trial, observation)
    known = not either
    result |= {
        "repeated_bytes": repeated if known else None,
        "waiting_bytes": waiting if known else None,
    }
    for name in AFTER_A_SCRIPT:
        if name in observation.metadata:
            result[name] = observation.metadata[name]
    if observation.completion_ns is not None:
        result["completion_s"] = observation.completion_ns / 1e9
    sent = judged(trial.workload)
    if isinstance(sent, Timed):
        result[sent.kind] = _times_document(sent, trial, observation)
    if isinstance(trial.workload, Mix):
        result["parts"] = [
            _part_document(*both) for both in zip(trial.workload.parts, observation.parts, strict=True)
        ]
        result |= {"fairness": kept_of(trial, observation).parts[0].fairness}
    if (found := minutes(trial, observation)) is not None:
        result["minutes"] = found._asdict()
    if (trips := _round_trips(trial, observation)) is not None:
        result["round_trips_per_min"] = trips
    if observation.failed is not None:
        result["failed"] = observation.failed.reason
        result["failed_kind"] = observation.failed.kind
    return result


def figures(trial: Trial, observation: Observation) -> Iterator[tuple[Metric, float | None]]:
    """Metrics of the messages or requests; None where too few arrived."""
    kept = kept_of(trial, observation)
    return ((metric, metric.read(kept)) for metric in metrics_of(judged(trial.workload)))


def kept_of(trial: Trial, observation: Observation) -> Record:
    """The record of a trial outside any campaign."""
    return record(PlannedTrial(purpose="run", run=0, trial=trial), observation)


def part_lines(trial: Trial, observation: Observation) -> Iterator[str]:
    """A line for each part of a mix: "20 connections with saturated senders: throughput 18.9 Mbit/s"."""
    if not isinstance(trial.workload, Mix):
        return
    kept = kept_of(trial, observation)
    for number, (part, done) in enumerate(zip(trial.workload.parts, kept.parts, strict=True)):
        as_one = of_part(kept, number)
        found = [(metric, metric.read(as_one)) for metric in metrics_of(part.workload)]
        known = [(metric, value) for metric, value in found if value is not None]
        texts = [f"{metric.name} {digits(value)} {metric.unit}" for metric, value in known]
        if done.fairness is not None:
            texts.append(f"fairness {digits(done.fairness)} % (Jain's index)")
        yield f"{part.phrase}: {', '.join(texts) or 'nothing arrived'}"


class Minutes(NamedTuple):
    """Throughput in the whole minutes of a trial, Mbit/s: their number, what 95 % and half of them have."""

    whole: int
    at_least_95_mbps: float
    median_mbps: float


def minutes(trial: Trial, observation: Observation) -> Minutes | None:
    """Throughput of a saturated sender in each minute of a network that varies; None for fewer than 20.

    A mean hides the minutes in which a call would have failed. One minute in twenty may have less.
    """
    if observation.failed or not (isinstance(trial.workload, Bulk) and trial.topology.varies):
        return None
    rates = sorted(observation.rates_mbps(_MINUTE_NS))
    if len(rates) < LEAST_WINDOWS:
        return None
    return Minutes(len(rates), quantile(rates, 0.05), quantile(rates, 0.5))


def minutes_line(found: Minutes) -> str:
    """The minutes for people."""
    least, half = digits(found.at_least_95_mbps), digits(found.median_mbps)
    return f"at least {least} Mbit/s in 95 % of the {found.whole} minutes, {half} in half of them"


def _round_trips(trial: Trial, observation: Observation) -> float | None:
    """Round trips per minute behind a saturated sender's queues; None if it was none, or failed."""
    is_bulk = isinstance(trial.workload, Bulk)
    return ROUND_TRIPS.of(kept_of(trial, observation)) if is_bulk else None


def responsiveness_line(trial: Trial, observation: Observation) -> str | None:
    """What its queues leave to others, for people: "412 round trips a minute under load"."""
    trips = _round_trips(trial, observation)
    return None if trips is None else f"{digits(trips, 3)} round trips a minute under load"


def _part_document(part: Part, observed: PartObservation) -> dict[str, Any]:
    """A part of a mix, with each of its connections."""
    return {
        "kind": part.workload.kind,
        "connections": [
            {
                "throughput_mbps": connection.throughput_bps / 1e6,
                "duration_s": connection.duration_ns / 1e9,
                "retransmitted": connection.retransmitted,
                **(
                    {}
                    if connection.completion_ns is None
                    else {"completion_s": connection.completion_ns / 1e9}
                ),
                **({"times_ms": in_ms(connection.delays_ns)} if connection.delays_ns else {}),
            }
            for connection in observed.connections
        ],
    }


def times_line(trial: Trial, observation: Observation) -> str:
    """Times of messages, responses or pages: "300 messages of 200 B: delay p99 40.1 ms"."""
    assert isinstance(trial.workload, Timed | Mix)
    what = trial.workload.arrived(len(observation.delays_ns))
    found = [
        f"{metric.name} {digits(value)} {metric.unit}"
        for metric, value in figures(trial, observation)
        if value is not None
    ]
    return f"{what}: {', '.join(found) or 'no delay known'}"


def _times_document(sent: Timed, trial: Trial, observation: Observation) -> dict[str, Any]:
    """Workload, pieces that arrived, and the time of each, ms."""
    asked = {name: getattr(sent, name) for name in sent.__struct_fields__ if name != "patience_ns"}
    return {
        **{
            name.replace("_ns", "_ms"): value / 1e6 if name.endswith("_ns") else value
            for name, value in asked.items()
        },
        **sent.due(connections_of(trial.workload)),
        "arrived": len(observation.delays_ns),
        **{metric.column: value for metric, value in figures(trial, observation)},
        sent.judged_by.listed: in_ms(observation.delays_ns),
        **sent.details(observation.pieces),
    }


def mbps_of_bins(bins: list[int], duration_ns: int) -> list[float]:
    """Mbit/s of each bin; the last one may be shorter than the others."""
    widths = [min(BIN_NS, duration_ns - number * BIN_NS) for number in range(len(bins))]
    return [8e3 * size / width for size, width in zip(bins, widths, strict=True)]
