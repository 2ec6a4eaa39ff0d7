"""Definition of a campaign: from a campaign file, from the flags of `mptune optimise`, or from a store.

It checks and converts; it runs nothing (see `mptune.campaign.execution`). A campaign is one of two things:
the main job (`OptimiseOptions`) or a plain factorial sweep (`SweepOptions`), possibly repeated over days.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import replace

from mptune import testbeds
from mptune._text import quoted
from mptune.campaign.following import RoutesOptions
from mptune.errors import InputError
from mptune.impact import ImpactOptions, SubflowSets
from mptune.optimisation.budget import Budget
from mptune.optimisation.job import configuration
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.optimisation.options import NOWHERE, OptimiseOptions
from mptune.optimisation.papers import BUFFERS, CCS, PMS
from mptune.options import TEXT, Option, Options, Place, Tables, by_flag, choice, error_about, in_file
from mptune.options.path_managers import PathManagerOptions
from mptune.options.repetition import Every, Lasting, rounds_of, wrong_repetition
from mptune.options.scripts import Script, wrong_times
from mptune.options.stacks import StackOptions
from mptune.options.trials import (
    EVERY_PATH,
    USUAL_PMS,
    BufferMode,
    BufferModes,
    Buffers,
    Ccs,
    Duration,
    Family,
    InitialPaths,
    Pms,
    Reverse,
    Runs,
    Schedulers,
    Seed,
    SizeKnown,
    StackNames,
    TcpPaths,
    Testbed,
    Transfers,
    check_labels,
)
from mptune.options.workloads import (
    Connections,
    WorkloadOption,
    impossible,
    on_connections,
    wrong_connections,
)
from mptune.runner.executors import ExecutorOptions
from mptune.tables import read_toml
from mptune.topology import Topology, check_name, from_document, load
from mptune.trial import DEFAULT_FAMILY, FIXED, PLAIN_TCP, Configuration, Workload, workloads_of
from mptune.trial.stacks import DEFAULT_STACK, VERSION_0_1, Stack
from mptune.units import format_time


class SweepOptions(Options, frozen=True, kw_only=True):
    """A factorial campaign: every combination of the factors, in every run.

    Attributes
    ----------
    buffers : bytes, ascending.
    buffer_modes : empty leaves them at `buffer_mode`.
    family : as in `Trial`.
    initial_paths : empty leaves it at the topology's path.
    stacks, schedulers : empty leaves them at `stack`.
    script : what is done to paths in every trial.
    transfers : bytes; empty is a saturated sender for `duration_ns`.
    workload : what the program sends for `duration_ns` instead; None without one.
    size_known : as in `Trial`.
    tcp_paths : labels of paths with plain TCP beside MPTCP; `EVERY_PATH` is every one (`expanded`).
    pm_options : of the path managers, whatever the congestion control; PCDC's sets may be among them.
    impact : how PCDC's sets are measured; None where they are given, or where PCDC is not swept.
    every_ns, for_ns : repeat the whole sweep at this interval for this long; both None runs it once.
    """

    pms: Pms = PMS
    ccs: Ccs = CCS
    buffers: Buffers = BUFFERS
    buffer_mode: BufferMode = FIXED
    buffer_modes: BufferModes = ()
    family: Family = DEFAULT_FAMILY
    runs: Runs = 9
    duration_ns: Duration = 30_000_000_000
    seed: Seed = 1
    initial_paths: InitialPaths = ()
    stack: StackOptions = StackOptions()
    stacks: StackNames = ()
    schedulers: Schedulers = ()
    transfers: Transfers = ()
    workload: WorkloadOption = None
    connections: Connections = 1
    size_known: SizeKnown = True
    tcp_paths: TcpPaths = ()
    script: Script = ()
    pm_options: PathManagerOptions = PathManagerOptions()
    impact: ImpactOptions | None = None
    every_ns: Every = None
    for_ns: Lasting = None

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Options are of path managers that are swept, PCDC has its sets; a repetition ends, and begins."""
        for name, pm in self.pm_options.unused(self.pms):
            yield f"pm_options.{name}", f"expected only with the path manager {pm}"
        for expected in wrong_times(self.script, None if self.transfers else self.duration_ns):
            yield "script", expected
        if not self.size_known and not self.transfers:
            yield "size_known", "expected only with sizes of transfers"
        for expected in wrong_connections(self.workload, self.connections, self.transfers):
            yield "connections", expected
        if self.workload is not None and self.transfers:
            yield "workload", "expected either a workload or sizes of transfers, found both"
        for expected in impossible(self.workload, self.duration_ns):
            yield "workload", expected
        if self.tcp_paths:
            for action in self.script:
                if action.action not in ("down", "up"):
                    yield "script", f"expected only down and up beside plain TCP, found {action.action}"
        yield from self._conflicts_of_sets()
        yield from self._conflicts_of_stacks()
        yield from wrong_repetition(self.every_ns, self.for_ns)

    def _conflicts_of_stacks(self) -> Iterator[tuple[str, str]]:
        """A stack, a scheduler or a mode is one for all, or a factor."""
        if self.buffer_modes and self.buffer_mode != FIXED:
            yield "buffer_modes", "expected either one mode or several as a factor, found both"
        if self.impact is not None and len(self.modes) > 1:
            yield (
                "buffer_modes",
                "expected one where the sets of pcdc are measured: give the sets ([pcdc]), or run one "
                "campaign each",
            )
        if self.stacks and self.stack.stack != DEFAULT_STACK:
            yield "stacks", "expected either one stack or several as a factor, found both"
        if self.schedulers and "scheduler" in self.stack.given:
            yield "schedulers", "expected either one scheduler or several as a factor, found both"
        if self.impact is not None and len(self.transports) > 1:
            yield (
                "stacks" if self.stacks else "schedulers",
                "expected one where the sets of pcdc are measured: give the sets ([pcdc]), or run one "
                "campaign each",
            )

    @property
    def mode_of_trials(self) -> str:
        """The buffers' mode of trials, where it is no factor."""
        return self.buffer_mode

    @property
    def modes(self) -> tuple[str, ...]:
        """Every mode of the buffers."""
        return self.buffer_modes or (self.buffer_mode,)

    @property
    def transports(self) -> list[Stack]:
        """Every stack with every scheduler."""
        stacks = [self.stack.chosen(name) for name in self.stacks or (None,)]
        return [
            stack if scheduler is None else replace(stack, scheduler=scheduler)
            for stack in stacks
            for scheduler in self.schedulers or (None,)
        ]

    def _conflicts_of_sets(self) -> Iterator[tuple[str, str]]:
        """PCDC has its sets from one place, and they do not overlap."""
        pcdc, measured = "pcdc" in self.pms, self.impact is not None
        if self._active and measured:
            yield (
                "pm_options.pcdc.active",
                "expected either the sets of pcdc or how to measure them (impact), found both",
            )
        if measured and not pcdc:
            yield "pms", f"expected pcdc where impact factors are measured, found {', '.join(self.pms)}"
        if pcdc and not (measured or self._active):
            yield "pms", "expected the sets of pcdc or how to measure them (impact), found neither"
        given = self.pm_options.of("pcdc")
        for name in ("standby_order", "rtt_ns"):
            if given.get(name) and not self._active:
                yield f"pm_options.pcdc.{name}", "expected only with active subflows"
        if both := [label for label in given.get("standby_order", ()) if label in self._active]:
            yield (
                "pm_options.pcdc.standby_order",
                f"expected no subflow that is active, found {quoted(both[0])}",
            )

    @property
    def _active(self) -> tuple[str, ...]:
        """PCDC's optional set, if it was given."""
        active: tuple[str, ...] = self.pm_options.of("pcdc").get("active", ())
        return active

    def completed(self) -> Self:
        """PCDC's sets are measured unless they are given; many connections are a workload."""
        if self.connections > 1 and not self.transfers:
            workload = on_connections(self.workload, self.connections)
            if workload is not self.workload:
                return replace(self, workload=workload, connections=1).completed()
        impact = self.impact
        if impact is None and "pcdc" in self.pms and not self._active:
            impact = ImpactOptions()
        if impact is not None:
            impact = impact.beside(self.buffers, self.modes[0], self.family, self.seed)
        return replace(self, impact=impact)

    @property
    def rounds(self) -> int:
        """Number of times the sweep is run."""
        return rounds_of(self.every_ns, self.for_ns)

    @property
    def swept_trials(self) -> int:
        """Trials of a round, without those of impact factors."""
        return self.runs * len(self.configurations({}))

    def in_words(self) -> str:
        """The trials of a round, as a sentence."""
        numbers = {
            "path managers": len(self.pms),
            "congestion controls": len(self.ccs),
            "buffers": len(self.buffers),
            "modes of buffers": len(self.buffer_modes),
            "initial paths": len(self.initial_paths),
            "stacks": len(self.stacks),
            "schedulers": len(self.schedulers),
            "sizes": len(self.transfers),
            "paths with plain TCP": len(self.tcp_paths),
            "runs": self.runs,
        }
        varied = ", ".join(f"{number} {name}" for name, number in numbers.items() if number > 1)
        return f"{self.swept_trials:,} trials{f': {varied}' if varied else ''}."

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Workloads of the sweep: a transfer of each size, the one asked for, or a saturated sender."""
        if self.workload is not None:
            return (self.workload.lasting(self.duration_ns),)
        return workloads_of(self.transfers, self.duration_ns)

    def configurations(self, sets: Mapping[str, SubflowSets]) -> list[Configuration]:
        """Every combination, the last factor fastest; then those of plain TCP.

        Parameters
        ----------
        sets : PCDC's as measured, by congestion control; where there are none, not even among its options,
            all subflows are active, as in sweeps of 0.1.
        """
        return [*self._of_mptcp(sets), *self._of_tcp()]

    def _of_mptcp(self, sets: Mapping[str, SubflowSets]) -> list[Configuration]:
        return [
            configuration(
                pm,
                cc,
                buffer_bytes,
                sets,
                pm_options=self.pm_options.of(pm),
                initial_path=path,
                stack=stack,
                buffer_mode=mode,
                family=self.family,
                workload=workload,
                script=self.script,
                size_known=self.size_known,
            )
            for pm, cc, path, stack, mode, workload, buffer_bytes in itertools.product(
                self.pms,
                self.ccs,
                self.initial_paths or (None,),
                self.transports,
                self.modes,
                self.workloads,
                self.buffers,
            )
        ]

    def _of_tcp(self) -> list[Configuration]:
        """Plain TCP on its paths, which knows no path manager, no initial path and no scheduler."""
        stacks = [self.stack.chosen(name, protocol=PLAIN_TCP) for name in self.stacks or (None,)]
        return [
            Configuration(
                pm=USUAL_PMS[PLAIN_TCP],
                protocol="tcp",
                cc=cc,
                buffer_bytes=buffer_bytes,
                initial_path=path,
                stack=stack,
                buffer_mode=mode,
                family=self.family,
                workload=workload,
                script=self.script,
            )
            for path, cc, stack, mode, workload, buffer_bytes in itertools.product(
                self.tcp_paths, self.ccs, stacks, self.modes, self.workloads, self.buffers
            )
        ]


#: Kinds of campaigns, by the word in their files.
KINDS: dict[str, type[OptimiseOptions | SweepOptions]] = {
    "optimise": OptimiseOptions,
    "mpcoa": MpcoaOptions,
    "sweep": SweepOptions,
}


def kind_of(options: Options) -> str:
    """The word for what a campaign with these options is."""
    return next(name for name, kind in KINDS.items() if type(options) is kind)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign as it was asked for."""

    name: str
    topology: Topology
    testbed: str
    options: OptimiseOptions | SweepOptions
    routes: RoutesOptions = RoutesOptions()
    #: Executor of its file; no part of its settings, as it changes no result.
    executor: ExecutorOptions = ExecutorOptions()

    def settings(self) -> dict[str, Any]:
        """JSON types that `from_settings` reads again, and a person can read too."""
        built: dict[str, Any] = {
            "name": self.name,
            "testbed": self.testbed,
            "kind": kind_of(self.options),
            "options": msgspec.to_builtins(self.options),
            "topology": msgspec.to_builtins(self.topology),
        }
        if self.routes.every_ns is not None:
            built["routes"] = {"every_ns": self.routes.every_ns}
        return built


def from_settings(settings: dict[str, Any], where: str = "the campaign's settings") -> Definition:
    """The definition that `Definition.settings` was made from, in this version or an earlier one.

    Raises
    ------
    InputError : they are none; `where` is their name in the message.
    """
    try:
        return _from_settings(settings)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(where, "settings", f"expected those of a campaign: {reason}") from None


def _from_settings(settings: dict[str, Any]) -> Definition:
    options = dict(settings["options"])
    if "stack" not in options and testbeds.only_stack(settings["testbed"]) is None:
        options["stack"] = msgspec.structs.asdict(VERSION_0_1)
    if settings["kind"] == "optimise":
        # Version 0.1 had none of these; a resumed campaign does not change half way.
        options = {
            "sets": "signs",
            "off_by": 0.0,
            "tcp": False,
            "extend": False,
            "strategy": "grid",
            **options,
        }
    return Definition(
        name=settings["name"],
        topology=from_document(settings["topology"], "campaign store", "topology"),
        testbed=settings["testbed"],
        options=msgspec.convert(options, KINDS[settings["kind"]]),
        routes=msgspec.convert(settings.get("routes", {}), RoutesOptions),
    )


def expanded(definition: Definition) -> Definition:
    """The campaign with the paths of its family, and with labels in place of the word for every path."""
    options = definition.options
    definition = replace(definition, topology=definition.topology.over(options.family))
    if not isinstance(options, SweepOptions) or EVERY_PATH not in options.tcp_paths:
        return definition
    labels = tuple(path.label for path in definition.topology.paths)
    return replace(definition, options=replace(options, tcp_paths=labels))


def check(definition: Definition, place: Place = by_flag) -> None:
    """Refuse what cannot be, without asking a machine; `fitted` is for what it comes to on a testbed.

    Raises
    ------
    InputError : naming the option where it was written.
    """
    definition.options.check(place)
    definition.options.stack.check_on(definition.testbed, place)
    testbed = testbeds.create(definition.testbed)
    testbed.check_network(definition.topology)
    check_labels(definition.options, definition.topology, place)
    options = definition.options
    varied = isinstance(options, OptimiseOptions) and options.sensitivity
    if varied and testbeds.only_stack(definition.testbed) is not None:
        expected = "expected only with the simulator: no other network can be varied"
        raise error_about(type(options), ("sensitivity",), expected, place)
    if isinstance(options, OptimiseOptions) and options.confirm_on not in (None, NOWHERE):
        _check_confirming(definition, options, place)


def _check_confirming(definition: Definition, options: OptimiseOptions, place: Place) -> None:
    """Refuse a kernel for an answer that is a kernel's own, or of a stack that it does not have."""
    if testbeds.only_stack(definition.testbed) is not None:
        expected = f"expected only with the simulator: the answer of {definition.testbed} is a kernel's own"
        raise error_about(type(options), ("confirm_on",), expected, place)
    assert options.confirm_on is not None
    options.stack.check_on(testbeds.create(options.confirm_on).name, place)


def fitted(
    definition: Definition, testbed: testbeds.Testbed, place: Place = by_flag, *, at_once: int = 1
) -> Definition:
    """The campaign with trials that fit its budget.

    Parameters
    ----------
    at_once : trials that the testbed runs at once where they do not disturb each other.

    Refuses a budget or an interval that is too short for what is to be measured.

    Raises
    ------
    InputError : naming the option where it was written.
    """
    options = definition.options
    if isinstance(options, OptimiseOptions) and options.budget_ns is not None:
        budget = Budget.on(testbed, definition.topology, options, at_once).fitted(place)
        definition = replace(definition, options=budget.options)
    _check_interval(definition, testbed, place)
    return definition


def _check_interval(definition: Definition, testbed: testbeds.Testbed, place: Place) -> None:
    """Refuse rounds that are shorter than their trials.

    The simulator and guests need no time, but one trial of a round must end before the network of the next
    begins. On a kernel the trials of the sweep take turns; impact factors and confirmation come on top.
    """
    options = definition.options
    if options.every_ns is None or options.transfers:
        return
    least = options.duration_ns
    if testbeds.only_stack(definition.testbed) is not None and testbed.pace is None:
        least = options.swept_trials * least // (testbed.parallel or 1)
        if isinstance(options, OptimiseOptions) and options.budget_ns is not None:
            least = options.budget_ns
    if options.every_ns < least:
        needed, interval = format_time(least), format_time(options.every_ns)
        expected = f"expected at least {needed}, which the trials of a round take, found {interval}"
        raise error_about(type(options), ("every_ns",), expected, place)


class _Head(Options, frozen=True, kw_only=True):
    """Keys of every campaign file."""

    topology: Annotated[str, Option(TEXT, "A topology file, or a shipped scenario.", key="topology")]
    name: Annotated[str | None, Option(TEXT, "What lists and reports call the campaign.", key="name")] = None
    kind: Annotated[str, Option(choice(lambda: KINDS), "What the campaign is.", key="kind")] = "optimise"
    testbed: Testbed = "simulated"
    reverse: Reverse = False
    where: ExecutorOptions = ExecutorOptions()
    routes: RoutesOptions = RoutesOptions()


def _topology(name: str, folder: Path, where: str) -> Topology:
    """The topology that a campaign file names: beside it, or a shipped scenario.

    Raises
    ------
    InputError : naming the key, if there is none; the topology file and its key, if something in it is wrong.
    """
    beside = folder / name
    try:
        return load(beside if name and beside.exists() and not beside.is_dir() else name)
    except InputError as error:
        if error.key:
            raise
        raise InputError(where, "topology", f"{quoted(name)}: {error.expected}") from None
    except OSError as error:
        raise InputError(where, "topology", f"{quoted(name)}: {error.strerror}") from None


def read_definition(path: str | Path) -> Definition:
    """Read a campaign file; a relative topology is beside it, or a shipped scenario.

    Raises
    ------
    InputError : no such file, not TOML, or anything in it that is not as expected.
    """
    where, file = str(path), Path(path)
    tables = Tables(read_toml(file, where), where, _Head, KINDS, "kind")
    head = tables.head()
    if head.name is not None:
        check_name(head.name, where, "name")
    topology = _topology(head.topology, file.parent, where)
    if head.reverse:
        topology = topology.reversed()
    definition = Definition(
        name=topology.name if head.name is None else head.name,
        topology=topology,
        testbed=head.testbed,
        options=tables.options(head.kind),
        executor=head.where,
        routes=head.routes,
    )
    if head.routes.networks is not None:
        beside = str(file.parent / head.routes.networks)
        definition = replace(definition, routes=replace(head.routes, networks=beside))
    definition = expanded(definition)
    check(definition, in_file(where))
    definition.routes.check_on(definition.testbed, where)
    return definition
