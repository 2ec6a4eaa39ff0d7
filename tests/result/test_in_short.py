"""A run in a row: from its documents alone, for every kind of answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import InputError
from mptune.result.in_short import InShort, read_in_short
from mptune.store.directory import CONFIG, RESULT
from tests.plugins.answers import ANSWER

OURS = {"mean": 12.0, "low": 11.0, "high": 13.0, "runs": 5}
DEFAULT = {"mean": 10.0, "low": 9.0, "high": 11.0, "runs": 5}
GAIN = {"mean": 2.0, "low": 1.0, "high": 3.0, "runs": 5}
NOW = {
    "mean": 8.0, "low": 7.0, "high": 9.0, "runs": 5, "pm": "default", "cc": "cubic", "buffer_mib": 4.0,
    "subflows": ["U-U"], "gain": {"mean": 4.0, "low": 3.0, "high": 5.0, "runs": 5}, "queueing": {},
}  # fmt: skip
CONFIRMED = {
    **ANSWER,
    "confirmed": OURS,
    "default": {**DEFAULT, "pm": "fullmesh", "cc": "cubic", "buffer_mib": 30.0},
}
SETTING = {"pm": "pcdc", "cc": "reno", "buffer_bytes": 65536, "subflows": ["U-U", "T-U"]}
FIGURE = {"name": "delay p99", "unit": "ms", "recommended": OURS, "default": DEFAULT, "gain": GAIN}
OBJECTIVE = {
    "workload": {}, "objective": "delay:p99", "unit": "ms", "recommended": SETTING, "default": SETTING,
    "figures": [FIGURE], "throughput": FIGURE, "compared": 3, "alike": 1, "answer": [], "warnings": [],
}  # fmt: skip
TIMES = {"mean_s": 1.0, "low_s": 0.9, "high_s": 1.1, "percentile_95_s": 1.2}
SIZE = {
    "transfer_bytes": 65536, "pm": "fullmesh", "cc": "cubic", "initial_path": None, "buffer_bytes": 65536,
    "subflows": [], "confirmed": TIMES,
    "default": {**TIMES, "pm": "fullmesh", "cc": "cubic", "buffer_bytes": 1},
    "gain": {"mean_s": 0.5, "low_s": 0.4, "high_s": 0.6, "share": 0.5}, "compared": 2, "alike": 1,
    "baselines": {"now": NOW},
}  # fmt: skip
SIZES = {"sizes": [SIZE, SIZE], "answer": [], "warnings": []}


def written(place: Path, result: Any, **options: Any) -> Path:
    config = {
        "kind": "mptune run", "time": "2026-01-02T03:04:05+00:00", "versions": {}, "platform": "",
        "options": options, "topology": {} if options else {"name": "toy"},
    }  # fmt: skip
    (place / CONFIG).write_text(json.dumps(config))
    if result is not None:
        (place / RESULT).write_text(json.dumps(result))
    return place


def row(place: Path, result: Any, **options: Any) -> InShort:
    return read_in_short(written(place, result, **options))


def test_an_answer_stands_beside_what_hosts_do_now(tmp_path: Path) -> None:
    short = row(tmp_path, {**CONFIRMED, "gain": {**GAIN, "share": 0.2}, "baselines": {"now": NOW}})
    assert (short.network, short.answer, short.buffers) == ("toy", "pcdc on U-U, cubic", "4 MiB")
    assert (short.beside, short.before.mean, short.recommended.mean) == ("now", 8.0, 12.0)
    assert (short.gain.mean, short.gain.share) == (4.0, 0.5)


def test_without_that_beside_the_default(tmp_path: Path) -> None:
    short = row(tmp_path, {**CONFIRMED, "gain": {**GAIN, "share": 0.2}})
    assert (short.beside, short.before.mean, short.gain.share) == ("papers' default", 10.0, 0.2)


def test_what_was_not_measured_again_is_expected(tmp_path: Path) -> None:
    short = row(tmp_path, ANSWER, **{"from": "some/where/data.csv"})
    assert (short.network, short.beside, short.before.mean) == ("data", "", None)
    assert short.recommended.mean == 266.6 and "expected" in short.remark


def test_an_objective_has_its_own_unit(tmp_path: Path) -> None:
    short = row(tmp_path, OBJECTIVE)
    assert (short.answer, short.buffers) == ("pcdc on U-U and T-U, reno", "64 KiB")
    assert (short.metric, short.unit, short.recommended.mean) == ("delay p99", "ms", 12.0)
    assert (short.beside, short.gain.share) == ("papers' default", 0.2)


def test_sizes_of_transfers_and_sweeps_are_told_in_words(tmp_path: Path) -> None:
    short = row(tmp_path, SIZES)
    assert short.answer == "one for each of 2 sizes" and short.remark == "Time saved against today: +50 %."
    (tmp_path / RESULT).unlink()
    assert row(tmp_path, None).remark == "a sweep makes no recommendation"


def test_no_change_has_no_minus(tmp_path: Path) -> None:
    """A loss of 0.3 % is rounded to zero, whose sign is that of a gain."""
    gain = {**OURS, "mean": -0.024}
    size = {**SIZE, "baselines": {"now": {**NOW, "gain": gain}}}
    assert row(tmp_path, {**SIZES, "sizes": [size]}).remark == "Time saved against today: +0 %."


@pytest.mark.parametrize("result", [[], {"sizes": 3}, {"objective": 3}, {}, {**ANSWER, "obs_bytes": "many"}])
def test_damage_is_a_line_with_its_place(result: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path}: {RESULT}: expected"):
        row(tmp_path, result)
    (tmp_path / CONFIG).unlink()
    with pytest.raises(InputError, match=f"found no {CONFIG} in it"):
        read_in_short(tmp_path)
