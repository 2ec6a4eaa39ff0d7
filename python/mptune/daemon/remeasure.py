"""Measuring again what no longer holds: one night's work, begun by a timer or by `mptune daemon`.

The daemon reports outdated answers. The run that an answer came from is beside it, in `run`: its
campaign is run once more, by the adaptive strategy, within the budget and the data that the policy file
allows, while the daemon leaves new connections of that policy alone. The new answer replaces the old one only
when everything is there, and goes back if the daemon refuses it. Whatever fails leaves all as it was, and the
daemon's journal has the reason.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mptune import files, path_managers
from mptune.apply import plan
from mptune.apply.policy import curve_of, expected_of, options_of
from mptune.campaign import execution
from mptune.campaign.definition import Definition, from_settings
from mptune.daemon.client import Client
from mptune.daemon.policies import Policies, Remeasure
from mptune.errors import InputError, MptuneError
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.progress import Reporter
from mptune.store import open_store
from mptune.store.directory import STORE, written_into
from mptune.topology import Interface, Topology
from mptune.trial import PLAIN_TCP

#: The run in the directory of an answer, and the answer.
RUN, ANSWER = "run", "policy.json"
#: The answer once more, in a run that the daemon's own measuring made: by it `mptune rollback` knows that
#: nobody else has changed the answer (crates/mptune-agent/src/settings/file.rs).
RENEWED = "renewed.json"

#: Shorter than this nothing is begun.
_LEAST = timedelta(minutes=2)
#: Of the time that is left, at most this share is for trials: the rest is for everything else.
_SHARE = 0.8
#: Options of the papers' sweep, which the adaptive strategy does not take.
_OF_GRID = ("model", "selection", "on_grid")

#: Measuring function of a definition, its new directory, and a display of progress.
Measure = Callable[[Definition, Path, Reporter], object]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome for one policy.

    Attributes
    ----------
    measured : the new answer is in force.
    why : the old and the new answer in a sentence, or why there is no new one.
    """

    policy: str
    measured: bool
    why: str


def remeasure(
    policies: Policies,
    reporter: Reporter,
    *,
    now: datetime | None = None,
    measure: Measure | None = None,
) -> list[Done]:
    """Measure again what the daemon finds outdated; what became of it, by policy.

    Raises
    ------
    InputError : the policy file allows it at no time, or not now.
    MptuneError : there is no daemon.
    """
    allowed = policies.remeasure
    if allowed is None:
        raise InputError(str(policies.file), "remeasure", "expected hours, found no such table")
    moment = now or datetime.now().astimezone()
    if not (left := allowed.left(moment)):
        hours = f"{allowed.begin:%H:%M}-{allowed.end:%H:%M}"
        raise InputError(
            str(policies.file), "remeasure.hours", f"expected a time in {hours}, found {moment:%H:%M}"
        )
    with Client(policies.socket) as client:
        rows = client.ask("status")["policies"]
    stale = [row["name"] for row in rows if row["outdated"] and row["name"] in policies.runs]
    ends = moment + left
    done: list[Done] = []
    for number, name in enumerate(stale):
        still = ends - (now or datetime.now().astimezone())
        share = _share(allowed, still, len(stale) - number, len(stale))
        done.append(_one(policies, name, share, reporter, measure or _measure))
    return done


def _share(allowed: Remeasure, left: timedelta, to_come: int, count: int) -> Remeasure:
    """Share of one of several policies in the data, and in the time that is left."""
    least_ns = round(_LEAST / timedelta(microseconds=1)) * 1000
    time_ns = round(left / timedelta(microseconds=1) * 1000 * _SHARE / to_come)
    data = allowed.max_data_bytes
    budget = min(allowed.budget_ns, time_ns) if time_ns >= least_ns else 0
    return replace(allowed, budget_ns=budget, max_data_bytes=None if data is None else data // count)


def _one(policies: Policies, name: str, allowed: Remeasure, reporter: Reporter, measure: Measure) -> Done:
    """Measure one policy again, and log the outcome in the daemon's journal."""
    try:
        done = Done(policy=name, measured=True, why=_renew(policies, name, allowed, reporter, measure))
    except (MptuneError, OSError) as error:
        done = Done(policy=name, measured=False, why=" ".join(str(error).split()))
    except KeyboardInterrupt:
        _log(policies, Done(policy=name, measured=False, why="interrupted"))
        raise
    _log(policies, done)
    return done


def _log(policies: Policies, done: Done) -> None:
    what = "measured again" if done.measured else "not measured again"
    why = done.why if done.measured else f"{done.why}; the answer is as before"
    with suppress(MptuneError), Client(policies.socket) as client:
        client.ask("say", policy=done.policy, what=what, why=why)


def _renew(policies: Policies, name: str, allowed: Remeasure, reporter: Reporter, measure: Measure) -> str:
    place = policies.runs[name]
    if not allowed.budget_ns:
        raise MptuneError("too little of the hours is left")
    old = _document(place / ANSWER)
    definition = limited(definition_of(place / RUN), allowed)
    work = Path(tempfile.mkdtemp(dir=place, prefix=".remeasure-"))
    try:
        # The daemon would steer the connections of the trials too.
        with Client(policies.socket) as client:
            client.ask("suspend", policy=name)
            measure(definition, work / RUN, reporter)
        new = renewed(old, work / RUN)
        _write(work / ANSWER, new)
        _write(work / RUN / RENEWED, new)
        _exchange(policies, place, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return f"{_words(old)} before, {_words(new)} now"


def _measure(definition: Definition, directory: Path, reporter: Reporter) -> object:
    return execution.start(definition, directory, reporter=reporter)


def definition_of(run: Path) -> Definition:
    """Definition of a run.

    Raises
    ------
    InputError : there is no run that could be repeated.
    """
    if not (run / STORE).is_file():
        expected = f"expected the run of the answer, to run it again: cp -r runs/{run.parent.name} {run}"
        raise InputError(str(run), "", expected)
    with open_store(run / STORE, write=False) as store:
        definition = from_settings(store.campaign().settings, str(store.path))
    if not isinstance(definition.options, OptimiseOptions) or definition.options.transfers:
        raise InputError(str(run), "", "expected a run with one answer (mptune optimise)")
    if definition.options.workload is not None:
        raise InputError(str(run), "", "expected an answer for throughput, which the daemon can judge")
    return definition


def limited(definition: Definition, allowed: Remeasure) -> Definition:
    """The same by the adaptive strategy within a budget, and on real networks within the allowed data."""
    options = definition.options
    assert isinstance(options, OptimiseOptions)
    usual = OptimiseOptions()
    duration_ns = options.shortened_from_ns or options.duration_ns
    options = replace(
        options,
        # The usual trials may be shortened for this budget too (`Budget.fitted`).
        duration_ns=usual.duration_ns if duration_ns == usual.duration_ns else duration_ns,
        shortened_from_ns=None,
        strategy="adaptive",
        budget_ns=allowed.budget_ns,
        every_ns=None,
        for_ns=None,
        **{name: getattr(usual, name) for name in _OF_GRID},
    )
    topology = definition.topology
    if allowed.max_data_bytes is not None and definition.testbed == "hosts":
        topology = rationed(topology, allowed.max_data_bytes)
    return replace(definition, options=options, topology=topology)


def rationed(topology: Topology, size: int) -> Topology:
    """The same with limits on what the sender's interfaces move, which add up to `size`, by their rates."""
    interfaces = topology.sender.interfaces
    whole = sum(interface.up_bps for interface in interfaces)

    def ration(interface: Interface) -> Interface:
        part = size * interface.up_bps // whole if whole else size // len(interfaces)
        limit = part if interface.max_data_bytes is None else min(part, interface.max_data_bytes)
        return replace(interface, max_data_bytes=limit)

    sender = replace(topology.sender, interfaces=tuple(ration(interface) for interface in interfaces))
    return replace(topology, sender=sender)


def renewed(old: dict[str, Any], run: Path) -> dict[str, Any]:
    """An answer for the daemon with what a new run has found, between the same addresses.

    Raises
    ------
    InputError : the run has no answer that a daemon can have.
    """
    answered = plan.outline(run).answered
    answer = answered.answer
    if answer.protocol == PLAIN_TCP:
        raise InputError(str(run), "", "expected an answer with MPTCP, found plain TCP")
    labels = [path["label"] for path in old["paths"]]
    options, (expected, low, high) = options_of(answered), expected_of(answered)
    return {
        **old,
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "testbed": answered.testbed or None,
        "pm": answer.opm,
        "pm_options": path_managers.numbered(answer.opm, options, lambda label, _key: labels.index(label)),
        "congestion": answer.occ,
        "buffer_bytes": answer.obs_bytes,
        "curve": curve_of(answered),
        "expected_mbit_s": expected,
        "expected_low_mbit_s": low,
        "expected_high_mbit_s": high,
    }


def _document(file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = files.read_json(file)
    except (OSError, ValueError) as error:
        raise InputError(str(file), "", f"expected the answer of a run: {files.reason(error)}") from None
    return document


def _write(file: Path, document: dict[str, Any]) -> None:
    """On the disk before anybody relies on it."""
    files.write(file, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _exchange(policies: Policies, place: Path, work: Path) -> None:
    """The new run and answer take the place of the old, unless the daemon refuses them.

    Raises
    ------
    MptuneError : it does; everything is as before.
    """
    with written_into(place / RUN):
        _exchanged(policies, place, work)


def _exchanged(policies: Policies, place: Path, work: Path) -> None:
    backup = work / "kept"
    backup.mkdir()
    shutil.copy2(place / ANSWER, backup / ANSWER)
    (place / RUN).rename(backup / RUN)
    try:
        (work / RUN).rename(place / RUN)
        (work / ANSWER).replace(place / ANSWER)
        with Client(policies.socket) as client:
            client.ask("reload")
    except BaseException:
        if (place / RUN).exists():
            (place / RUN).rename(work / "refused")
        (backup / RUN).rename(place / RUN)
        (backup / ANSWER).replace(place / ANSWER)
        with suppress(MptuneError), Client(policies.socket) as client:
            client.ask("reload")
        raise


def _words(document: dict[str, Any]) -> str:
    rate = document.get("expected_mbit_s")
    return f"{document['pm']} with {document.get('congestion')}" + (
        "" if rate is None else f" for {rate:.3g} Mbit/s"
    )
