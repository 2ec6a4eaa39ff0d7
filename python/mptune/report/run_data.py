"""A finished run directory as data for a report: the documents beside the store, and the trials in it.

It reads; what is drawn of it stands in `mptune.report.sections`. A run decided from measurements made
elsewhere has no trials, and one without an answer (a sweep) has no result.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mptune.campaign.directory import CONFIG, STORE, is_unfinished
from mptune.campaign.grid import MIB
from mptune.campaign.store import Store, open_store
from mptune.errors import InputError
from mptune.testbeds import Observation
from mptune.topology import Topology

_TRIALS = """
SELECT id, key, testbed, purpose, round, run, pm, cc, buffer_bytes, withdrawn, settings, failed, started,
    completion_ns, throughput_mbps, omega FROM trial WHERE status <> 'running' ORDER BY id
"""


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a campaign, without its series; units in the names."""

    key: bytes
    purpose: str
    round: int
    run: int
    pm: str
    cc: str
    buffer_mib: float
    started: float
    initial_path: str | None = None
    transfer_bytes: int | None = None
    withdrawn: str | None = None
    failed: str | None = None
    throughput_mbps: float | None = None
    completion_s: float | None = None
    omega: float | None = None


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted curve at one buffer; the interval is None where the model has none."""

    pm: str
    cc: str
    buffer_mib: float
    predicted_mbps: float
    low_mbps: float | None
    high_mbps: float | None


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows of one run.

    Attributes
    ----------
    label : its name among others.
    config : `config.json`; `result` : `result.json`, None of a sweep; `impact` : per congestion control.
    series : observations of the trials that are shown over time, by their key.
    """

    label: str
    directory: Path
    config: dict[str, Any]
    result: dict[str, Any] | None
    impact: list[dict[str, Any]]
    topology: Topology | None
    trials: tuple[TrialRow, ...]
    curves: tuple[CurvePoint, ...]
    series: dict[bytes, Observation]

    def of(self, purpose: str) -> list[TrialRow]:
        """Trials of a purpose that gave a number."""
        return [one for one in self.trials if one.purpose == purpose and one.failed is None]

    @property
    def failures(self) -> int:
        """Trials that gave no number."""
        return sum(one.failed is not None for one in self.trials)


def read_run(directory: Path, label: str | None = None) -> RunData:
    """Read a run directory.

    Raises
    ------
    InputError : it is none, or its campaign is not complete.
    """
    where = str(directory)
    if is_unfinished(directory):
        raise InputError(where, "", "expected a complete run, found one to resume (mptune campaign resume)")
    config = _json(directory / CONFIG, where)
    if config is None:
        raise InputError(where, "", f"expected a run directory, found no {CONFIG} in it")
    raw_topology = config.get("topology") or None
    impact = _json(directory / "impact.json", where) or {"impact": []}
    with _store(directory) as store:
        trials = () if store is None else tuple(_trial(row) for row in store.rows(_TRIALS))
        shown = _shown(trials)
        series = {} if store is None else {one.key: store.observation(one.key) for one in shown}
    return RunData(
        label=label or directory.name,
        directory=directory,
        config=config,
        result=_json(directory / "result.json", where),
        impact=impact["impact"],
        topology=None if raw_topology is None else msgspec.convert(raw_topology, Topology),
        trials=trials,
        curves=tuple(_curves(directory / "curves.csv")),
        series=series,
    )


@contextmanager
def _store(directory: Path) -> Iterator[Store | None]:
    if not (directory / STORE).is_file():
        yield None
        return
    with open_store(directory / STORE, write=False) as store:
        yield store


def _json(path: Path, where: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(where, path.name, f"expected a readable JSON file: {error}") from None
    return found


def _trial(row: dict[str, Any]) -> TrialRow:
    settings = json.loads(row["settings"])
    completion = row["completion_ns"]
    return TrialRow(
        key=row["key"],
        purpose=row["purpose"],
        round=row["round"],
        run=row["run"],
        pm=row["pm"],
        cc=row["cc"],
        buffer_mib=row["buffer_bytes"] / MIB,
        started=row["started"],
        initial_path=settings.get("initial_path"),
        transfer_bytes=settings.get("transfer_bytes"),
        withdrawn=row["withdrawn"],
        failed=row["failed"],
        throughput_mbps=row["throughput_mbps"],
        completion_s=None if completion is None else completion / 1e9,
        omega=row["omega"],
    )


def _shown(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """Trials whose series are drawn: those that confirm, or the first run of a sweep's best one."""
    confirming = [one for one in trials if one.purpose == "confirm" and one.failed is None]
    if confirming:
        return confirming
    saturated = [one for one in trials if one.throughput_mbps is not None and one.transfer_bytes is None]
    return sorted(saturated, key=lambda one: -(one.throughput_mbps or 0.0))[:1]


def _curves(path: Path) -> Iterator[CurvePoint]:
    if not path.is_file():
        return
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield CurvePoint(
                pm=row["pm"],
                cc=row["cc"],
                buffer_mib=float(row["buffer_mib"]),
                predicted_mbps=float(row["predicted_mbps"]),
                low_mbps=float(row["low_mbps"]) if row["low_mbps"] else None,
                high_mbps=float(row["high_mbps"]) if row["high_mbps"] else None,
            )
