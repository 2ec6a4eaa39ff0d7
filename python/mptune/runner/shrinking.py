"""A failing trial reduced to a small one that fails alike: fewer paths and effects, round numbers.

It is greedy: every step that keeps the failure is kept, and rounds follow each other until none does. This
takes a testbed on which the same trial gives the same observation: elsewhere a step that heals cannot be told
from luck.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from mptune import testbeds
from mptune.errors import InputError, one_of
from mptune.options import SWITCH, TOGGLE, Option, build, by_flag, count, declared, value_of
from mptune.options import time as duration
from mptune.runner.one_trial import RunOptions, trial_of
from mptune.runner.progress import Reporter
from mptune.tables import read_toml
from mptune.testbeds import Testbed
from mptune.topology import Topology, from_tables, simpler, written
from mptune.trial import MSS, Observation, ScriptedAction

__all__ = ["JOIN", "ShrinkOptions", "Shrunk", "command", "fault", "given", "shrink"]

#: Values of options that were given, by their fields in `RunOptions`.
Values = Mapping[tuple[str, ...], Any]

#: Beside the kinds of failures: the path manager had trouble, such as a subflow that was refused.
JOIN = "join"

_SEED, _DURATION, _TRANSFER = ("seed",), ("duration_ns",), ("transfer_bytes",)
_BUFFER, _SCRIPT, _FAMILY = ("buffer_bytes",), ("script",), ("family",)
#: Essentials of a trial: without them it would be another one, not a simpler one.
_STAYS = (_SEED, _DURATION, _TRANSFER)
#: Shortest trial, ns, and smallest transfer, bytes.
_SHORTEST_NS, _SMALLEST = 1_000_000_000, 10 * MSS


class ShrinkOptions(RunOptions, frozen=True, kw_only=True):
    """Options of the trial, how hard to try, and how long to go on."""

    seeds: Annotated[
        int,
        Option(
            count(1, 1000),
            "Try each step with so many seeds, from the trial's on: many failures are a matter of chance.",
            flag="--seeds",
        ),
    ] = 5

    budget_ns: Annotated[
        int | None,
        Option(
            duration(positive=True), "Go on for at most this long.", flag="--budget", unset="until it is done"
        ),
    ] = None


class _State(NamedTuple):
    """A trial: the tables of its topology file, and its options."""

    raw: simpler.Raw
    values: dict[tuple[str, ...], Any]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest failing trial that was found.

    Attributes
    ----------
    kind : of the failure: one of `mptune.errors.FailureKind`, or `JOIN`.
    reason : of this trial's failure.
    topology, paths_before : the network, and the number of paths at first.
    text : the topology file, for the folder that was named.
    options : of the trial.
    trials : number of trials that were run.
    complete : no step is left that keeps the failure; False if time was up, or it was interrupted.
    interrupted : by Ctrl-C.
    """

    kind: str
    reason: str
    topology: Topology
    paths_before: int
    text: str
    options: RunOptions
    trials: int
    complete: bool
    interrupted: bool


def fault(observation: Observation) -> str | None:
    """Kind of what went wrong in a trial; None if nothing did."""
    if observation.failed is not None:
        return observation.failed.kind
    return JOIN if observation.metadata.get("path_manager_problems") else None


def _reason(observation: Observation) -> str:
    if observation.failed is not None:
        return observation.failed.reason
    return str(observation.metadata.get("path_manager_problems", ""))


def given(options: RunOptions) -> dict[tuple[str, ...], Any]:
    """Values of options that are not at their defaults."""
    values = {
        option.fields: (value_of(options, option.fields), option.default) for option in declared(RunOptions)
    }
    return {fields: value for fields, (value, default) in values.items() if value != default}


def command(name: str, file: str, options: RunOptions, *, testbed: str, reverse: bool = False) -> str:
    """Command line of mptune for a trial.

    Parameters
    ----------
    name : of the command, such as `run`.
    file : the topology file.
    """
    words = ["mptune", name, file, "--testbed", testbed, *(["--reverse"] if reverse else [])]
    values = given(options)
    for option in declared(RunOptions):
        if option.fields not in values:
            continue
        value = values[option.fields]
        if option.option.kind in (SWITCH, TOGGLE):
            words.append(option.flag if value else f"--no-{option.flag.removeprefix('--')}")
        else:
            words += [option.flag, option.option.kind.show(value)]
    return shlex.join(words)


def shrink(
    file: Path,
    options: RunOptions,
    *,
    testbed: str,
    reverse: bool = False,
    folder: Path = Path(),
    name: str = "",
    seeds: int = 1,
    budget_ns: int | None = None,
    reporter: Reporter | None = None,
) -> Shrunk:
    """Reduce a failing trial; Ctrl-C ends it with the smallest one so far.

    Parameters
    ----------
    file : the topology file.
    options : of the trial.
    folder : where the new topology file is going to be.
    name : of the new topology; empty takes the file's.
    seeds : with so many each step is tried, the trial's first.
    budget_ns : after this time no step is tried any more.

    Raises
    ------
    InputError : the trial does not fail, or is impossible, or the testbed is not one whose trials repeat.
    """
    # Before it is made: this machine may lack what it takes.
    if not testbeds.repeats(testbed):
        known = [name for name in testbeds.TESTBEDS if testbeds.repeats(name)]
        raise InputError("--testbed", "", f"{one_of(known, testbed)}: elsewhere no trial repeats exactly")
    return _Shrinking(testbeds.create(testbed), file, testbed, reverse, seeds).run(
        options, folder, name, budget_ns, reporter or Reporter(quiet=True)
    )


class _Shrinking:
    def __init__(self, bed: Testbed, file: Path, testbed: str, reverse: bool, seeds: int) -> None:
        self._bed, self._file, self._testbed, self._reverse = bed, file, testbed, reverse
        self._seeds = seeds
        self._trials = 0
        self._asked: set[bytes] = set()
        self._kind = ""

    def run(
        self, options: RunOptions, folder: Path, name: str, budget_ns: int | None, reporter: Reporter
    ) -> Shrunk:
        end = None if budget_ns is None else time.monotonic() + budget_ns / 1e9
        best = _State(read_toml(self._file, str(self._file)), given(options))
        paths = len(self._network(best).paths)
        interrupted = complete = False
        with self._bed.session(), reporter.phase("shrinking") as advance:
            observation = self._observe(best)
            kind = fault(observation)
            if kind is None:
                mbps = f"{observation.throughput_bps / 1e6:.2f} Mbit/s"
                raise InputError(str(self._file), "", f"expected a trial that fails, this one gives {mbps}")
            self._kind = kind
            try:
                while not complete:
                    before = best
                    for stage in _STAGES:
                        steps = list(stage(best))
                        for number, step in enumerate(steps):
                            if end is not None and time.monotonic() > end:
                                return self._result(best, observation, paths, folder, name, complete=False)
                            found = self._tried(best, step)
                            if found is not None:
                                best, observation = found
                            if advance is not None:
                                left = len(steps) - number
                                advance(self._trials, self._trials + left, self._note(best))
                    complete = best == before
                if advance is not None:
                    advance(self._trials, self._trials, self._note(best))
            except KeyboardInterrupt:
                interrupted = True
        return self._result(
            best, observation, paths, folder, name, complete=complete, interrupted=interrupted
        )

    def _tried(self, best: _State, step: _Step) -> tuple[_State, Observation] | None:
        """The state after a step and its observation, if it fails in the same way."""
        simpler_one = step(best)
        if simpler_one is None:
            return None
        try:
            fitted = self._fitted(simpler_one)
            for state in _with_seeds(fitted, self._seeds):
                key = msgspec.json.encode([state.raw, self._command(state, "")])
                if key not in self._asked and fitted != best:
                    self._asked.add(key)
                    observation = self._observe(state)
                    if fault(observation) == self._kind:
                        return state, observation
        except InputError:
            pass
        return None

    def _observe(self, state: _State) -> Observation:
        trial = trial_of(self._network(state), _built(state), self._testbed)
        self._bed.check(trial)
        self._trials += 1
        return self._bed.run(trial)

    def _network(self, state: _State) -> Topology:
        file = self._file
        topology = from_tables(state.raw, str(file), file.name, file.parent)
        topology = topology.over(state.values.get(_FAMILY, ""))
        return topology.reversed() if self._reverse else topology

    def _fitted(self, state: _State) -> _State:
        """Without options about paths that are not there any more."""
        labels = {path.label for path in self._network(state).paths}
        values = dict(state.values)
        for option in declared(RunOptions):
            if option.option.kind.labels and option.fields in values:
                left = _left(values.pop(option.fields), labels)
                if left:
                    values[option.fields] = left
        return _State(state.raw, values)

    def _note(self, state: _State) -> str:
        paths = len(self._network(state).paths)
        return f"{self._kind} with {paths} path{'s' * (paths != 1)}"

    def _command(self, state: _State, file: str) -> str:
        return command("run", file, _built(state), testbed=self._testbed, reverse=self._reverse)

    def _result(
        self,
        state: _State,
        observation: Observation,
        paths: int,
        folder: Path,
        name: str,
        *,
        complete: bool,
        interrupted: bool = False,
    ) -> Shrunk:
        raw = {**state.raw, **({"name": name} if name else {})}
        shown = self._command(state, f"{raw['name']}.toml")
        comments = (f"{self._kind}: {_reason(observation)}", shown)
        return Shrunk(
            kind=self._kind,
            reason=_reason(observation),
            topology=self._network(state),
            paths_before=paths,
            text=written(raw, comments, self._file.parent, folder),
            options=_built(state),
            trials=self._trials,
            complete=complete,
            interrupted=interrupted,
        )


def _built(state: _State) -> RunOptions:
    return build(RunOptions, state.values, by_flag)


def _with_seeds(state: _State, number: int) -> Iterator[_State]:
    """A trial with its own seed, and with those after it."""
    own = state.values.get(_SEED, RunOptions().seed)
    for seed in range(own, own + number):
        yield _State(state.raw, {**state.values, _SEED: seed})


def _left(value: Any, labels: set[str]) -> Any:
    """Of a value of labels those that are there."""
    if isinstance(value, str):
        return value if value in labels else None
    if isinstance(value, dict):
        return {label: one for label, one in value.items() if label in labels}
    return tuple(one for one in value if (one.path if isinstance(one, ScriptedAction) else one) in labels)


#: From a trial to a simpler one; None where there is nothing to do.
_Step = Callable[[_State], _State | None]


def _of_network(
    steps: Callable[[simpler.Raw], Iterator[simpler.Step]],
) -> Callable[[_State], Iterator[_Step]]:
    """Steps on the topology file as steps on a trial."""

    def made(step: simpler.Step) -> _Step:
        def taken(state: _State) -> _State | None:
            raw = step(state.raw)
            return None if raw is None else _State(raw, state.values)

        return taken

    return lambda state: map(made, steps(state.raw))


def _with(fields: tuple[str, ...], value: Any) -> _Step:
    """Give an option another value; None leaves it at its default."""

    def taken(state: _State) -> _State | None:
        if fields not in state.values:
            return None
        values = {**state.values, fields: value}
        if not value:
            del values[fields]
        return _State(state.raw, values)

    return taken


def _without_action(action: ScriptedAction) -> _Step:
    def taken(state: _State) -> _State | None:
        script = state.values.get(_SCRIPT, ())
        left = tuple(event for event in script if event is not action)
        return _with(_SCRIPT, left)(state) if len(left) < len(script) else None

    return taken


def _options(state: _State) -> Iterator[_Step]:
    """Each option at its default, and each action of the script left out."""
    for fields in state.values:
        if fields not in _STAYS:
            yield _with(fields, None)
    yield from map(_without_action, reversed(state.values.get(_SCRIPT, ())))


def _shorter(state: _State) -> Iterator[_Step]:
    """Less to send, each time by half."""
    for fields, least in ((_DURATION, _SHORTEST_NS), (_TRANSFER, _SMALLEST)):
        value = state.values.get(fields, 0)
        while value >= 2 * least:
            value //= 2
            yield _with(fields, value)


def _round(state: _State) -> Iterator[_Step]:
    """Whole seconds, and powers of two."""
    if (length := state.values.get(_DURATION)) is not None:
        yield _with(_DURATION, -(-length // 1_000_000_000) * 1_000_000_000)
    for fields in (_BUFFER, _TRANSFER):
        size = state.values.get(fields, 0)
        if size & (size - 1):
            yield _with(fields, 1 << (size.bit_length() - 1))
            yield _with(fields, 1 << size.bit_length())
            yield _with(fields, -(-size // 1024) * 1024)


#: In this order: what makes trials cheaper comes first.
_STAGES: tuple[Callable[[_State], Iterator[_Step]], ...] = (
    _of_network(simpler.interfaces),
    _of_network(simpler.rows),
    _shorter,
    _options,
    _of_network(simpler.extras),
    _of_network(simpler.numbers),
    _round,
)
