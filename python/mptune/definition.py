"""What a campaign is asked to do: from a campaign file, from the flags of `mptune optimise`, or from a store.

It checks and converts; it runs nothing (see `mptune.execution`). A campaign is one of two things: the main
job (`OptimiseOptions`) or a plain factorial sweep (`SweepOptions`), possibly repeated over days.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mptune import testbeds, units
from mptune.campaign.grid import parse_buffers
from mptune.campaign.planning import Configuration
from mptune.errors import InputError
from mptune.impact import ImpactOptions, check_impact
from mptune.optimise import OptimiseOptions, check_options
from mptune.papers import CCS, PMS
from mptune.topology import Topology, load
from mptune.topology._schema import convert

T = TypeVar("T")

#: Rounds of a repeated campaign beyond this are a slip of the pen.
_MAX_ROUNDS = 100_000


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A factorial campaign: every combination of the factors, in every run.

    Attributes
    ----------
    buffers : bytes, ascending.
    initial_paths, schedulers : empty leaves it at the topology's path and at minrtt.
    transfers : bytes; empty is a saturated sender for `duration_ns`.
    every_ns, for_ns : repeat the whole sweep so often for so long; both None runs it once.
    """

    pms: tuple[str, ...]
    ccs: tuple[str, ...]
    buffers: tuple[int, ...]
    runs: int
    duration_ns: int
    seed: int
    initial_paths: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    transfers: tuple[int, ...] = ()
    every_ns: int | None = None
    for_ns: int | None = None

    @property
    def rounds(self) -> int:
        """How many times the sweep is run."""
        if self.every_ns is None or self.for_ns is None:
            return 1
        return -(-self.for_ns // self.every_ns)

    def configurations(self) -> list[Configuration]:
        """Every combination, the last factor fastest."""
        return [
            Configuration(
                pm=pm,
                cc=cc,
                buffer_bytes=size,
                initial_path=path,
                scheduler=scheduler,
                transfer_bytes=transfer,
            )
            for pm, cc, path, scheduler, transfer, size in itertools.product(
                self.pms,
                self.ccs,
                self.initial_paths or (None,),
                self.schedulers or ("minrtt",),
                self.transfers or (None,),
                self.buffers,
            )
        ]


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign as it was asked for."""

    name: str
    topology: Topology
    testbed: str
    options: OptimiseOptions | SweepOptions

    def settings(self) -> dict[str, Any]:
        """JSON types that `from_settings` reads again, and a person can read too."""
        built: dict[str, Any] = {
            "name": self.name,
            "testbed": self.testbed,
            "kind": "optimise" if isinstance(self.options, OptimiseOptions) else "sweep",
            "options": msgspec.to_builtins(self.options),
            "topology": msgspec.to_builtins(self.topology),
        }
        return built


def from_settings(settings: dict[str, Any]) -> Definition:
    """The definition that `Definition.settings` was made from."""
    kind: type[OptimiseOptions | SweepOptions] = (
        OptimiseOptions if settings["kind"] == "optimise" else SweepOptions
    )
    return Definition(
        name=settings["name"],
        topology=msgspec.convert(settings["topology"], Topology),
        testbed=settings["testbed"],
        options=msgspec.convert(settings["options"], kind),
    )


def check(definition: Definition) -> None:
    """Refuse what cannot be, before anything is measured.

    Raises
    ------
    InputError : naming the option.
    """
    testbeds.create(definition.testbed)
    if isinstance(definition.options, OptimiseOptions):
        check_options(definition.options)
        check_impact(definition.options.impact)


class _File(msgspec.Struct, kw_only=True):
    topology: str
    name: str | None = None
    kind: str = "optimise"
    testbed: str = "simulated"
    seed: int = 1
    factors: dict[str, Any] = {}
    trials: dict[str, Any] = {}
    impact: dict[str, Any] = {}
    decision: dict[str, Any] = {}
    repeat: dict[str, Any] | None = None


class _Factors(msgspec.Struct, kw_only=True):
    pm: tuple[str, ...] = PMS
    cc: tuple[str, ...] = CCS
    buffers: str = "0.5:30:0.5"
    initial_path: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    transfer: tuple[str, ...] = ()


class _Trials(msgspec.Struct, kw_only=True):
    runs: int = 9
    duration: str = "30s"


class _Impact(msgspec.Struct, kw_only=True):
    runs: int = 10
    duration: str = "30s"
    settle: str = "0s"
    zero: str = "standby"


class _Decision(msgspec.Struct, kw_only=True):
    sacrifice: str = "7%"
    selection: str = "global"
    model: str = "auto"
    on_grid: bool = False
    resamples: int = 200
    confirm_runs: int = 9


class _Repeat(msgspec.Struct, kw_only=True):
    every: str
    for_: str = msgspec.field(name="for")


def read_definition(path: str | Path) -> Definition:
    """Read a campaign file.

    Raises
    ------
    InputError : no such file, not TOML, or anything in it that is not as expected.
    """
    where, file = str(path), Path(path)
    try:
        raw = msgspec.toml.decode(file.read_bytes())
    except OSError as error:
        raise InputError(where, "", f"expected a readable file: {error.strerror}") from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise InputError(where, "", f"expected TOML: {error}") from None
    return _Reader(where, convert(raw, _File, where, "")).definition(file.parent)


#: Options of the command line and the keys that say the same.
_KEYS = {
    "--buffers": "factors.buffers",
    "--sacrifice": "decision.sacrifice",
    "--selection": "decision.selection",
    "--model": "decision.model",
    "--resamples": "decision.resamples",
    "--confirm-runs": "decision.confirm_runs",
    "--impact-runs": "impact.runs",
    "--duration": "trials.duration",
    "--runs": "trials.runs",
    "impact window T": "impact.duration",
}


class _Reader:
    """The tables of one file, with errors that name it."""

    def __init__(self, where: str, file: _File) -> None:
        self._where, self._file = where, file
        self._factors = convert(file.factors, _Factors, where, "factors")
        self._trials = convert(file.trials, _Trials, where, "trials")

    def definition(self, folder: Path) -> Definition:
        """Everything together; a relative topology is beside the file, or a shipped scenario."""
        file = self._file
        beside = folder / file.topology
        topology = load(beside if beside.is_file() else file.topology)
        self._choice("kind", file.kind, ("optimise", "sweep"))
        self._choice("testbed", file.testbed, tuple(testbeds.TESTBEDS))
        options = self._optimise() if file.kind == "optimise" else self._sweep(topology)
        return Definition(
            name=file.name or topology.name, topology=topology, testbed=file.testbed, options=options
        )

    def _common(self) -> dict[str, Any]:
        factors, trials = self._factors, self._trials
        for key, names, kind in (
            ("factors.pm", factors.pm, "path_managers"),
            ("factors.cc", factors.cc, "congestion_controls"),
        ):
            self._names(key, names, testbeds.names(kind))  # type: ignore[arg-type]  # one of its literals
        if trials.runs < 1:
            raise InputError(self._where, "trials.runs", f"expected 1 or more, found {trials.runs}")
        return {
            "pms": factors.pm,
            "ccs": factors.cc,
            "buffers": parse_buffers(factors.buffers, f"{self._where}: factors.buffers"),
            "runs": trials.runs,
            "duration_ns": self._time("trials.duration", trials.duration),
            "seed": self._file.seed,
        }

    def _optimise(self) -> OptimiseOptions:
        where, file = self._where, self._file
        if file.repeat is not None:
            raise InputError(where, "repeat", 'expected only with kind = "sweep"')
        for key in ("initial_path", "scheduler", "transfer"):
            if getattr(self._factors, key):
                raise InputError(where, f"factors.{key}", 'expected only with kind = "sweep"')
        impact = convert(file.impact, _Impact, where, "impact")
        decision = convert(file.decision, _Decision, where, "decision")
        common = self._common()
        options = OptimiseOptions(
            **common,
            impact=ImpactOptions(
                runs=impact.runs,
                window_ns=self._time("impact.duration", impact.duration),
                buffer_bytes=common["buffers"][-1],
                settle_ns=self._time("impact.settle", impact.settle),
                zero=impact.zero,
                seed=file.seed,
            ),
            sacrifice=self._parsed("decision.sacrifice", decision.sacrifice, units.parse_fraction)
            / units.FRACTIONS[""],
            selection=decision.selection,
            model=decision.model,
            on_grid=decision.on_grid,
            resamples=decision.resamples,
            confirm_runs=decision.confirm_runs,
        )
        try:
            check_options(options)
            check_impact(options.impact)
        except InputError as error:
            key = _KEYS.get(error.where, error.where)
            raise InputError(where, key, error.expected) from None
        return options

    def _sweep(self, topology: Topology) -> SweepOptions:
        file, factors = self._file, self._factors
        for key in ("impact", "decision"):
            if getattr(file, key):
                raise InputError(self._where, key, 'expected only with kind = "optimise"')
        self._names(
            "factors.initial_path", factors.initial_path, [p.label for p in topology.paths], empty=True
        )
        self._names("factors.scheduler", factors.scheduler, testbeds.names("schedulers"), empty=True)
        transfers = [self._parsed("factors.transfer", one, units.parse_size) for one in factors.transfer]
        every, lasting = self._repeat()
        return SweepOptions(
            **self._common(),
            initial_paths=factors.initial_path,
            schedulers=factors.scheduler,
            transfers=tuple(transfers),
            every_ns=every,
            for_ns=lasting,
        )

    def _repeat(self) -> tuple[int | None, int | None]:
        if self._file.repeat is None:
            return None, None
        repeat = convert(self._file.repeat, _Repeat, self._where, "repeat")
        every, lasting = self._time("repeat.every", repeat.every), self._time("repeat.for", repeat.for_)
        check_repeat(every, lasting, f"{self._where}: repeat.every")
        return every, lasting

    def _time(self, key: str, text: str) -> int:
        time = self._parsed(key, text, units.parse_time)
        if time == 0 and key != "impact.settle":
            raise InputError(self._where, key, f"expected more than 0, found {text!r}")
        return time

    def _parsed(self, key: str, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise InputError(self._where, key, str(error)) from None

    def _choice(self, key: str, found: str, known: tuple[str, ...]) -> None:
        if found not in known:
            raise InputError(self._where, key, f"expected one of {', '.join(known)}, found {found!r}")

    def _names(self, key: str, found: Sequence[str], known: Sequence[str], *, empty: bool = False) -> None:
        if not found and not empty:
            raise InputError(self._where, key, "expected at least one name, found none")
        for name in found:
            self._choice(key, name, tuple(known))


def check_repeat(every_ns: int, for_ns: int, where: str) -> None:
    """Refuse a repetition that never ends or never begins.

    Raises
    ------
    InputError : the interval is 0, or fits into the whole more often than anyone wants.
    """
    if every_ns <= 0 or for_ns < every_ns or for_ns // every_ns > _MAX_ROUNDS:
        raise InputError(
            where, "", f"expected an interval above 0 that fits 1 to {_MAX_ROUNDS} times into the whole"
        )
