"""A changed rule beside the old one: the comparison of `benchmarks.decision._before`."""

import json

import pytest

from benchmarks.decision import _before


@pytest.fixture(autouse=True)
def _in_a_place_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(_before, "RESULTS", tmp_path)


def test_a_gain_everywhere_is_better_and_a_mixture_is_not():
    before = {f"case {number}": 10.0 for number in range(9)}
    better = {case: mbps * (1.05 + 0.01 * number) for number, (case, mbps) in enumerate(before.items())}
    mixed = {case: mbps * (1.3 if number % 2 else 0.8) for number, (case, mbps) in enumerate(before.items())}
    mean, single = _before.verdict("cubic+hold", before, better)
    assert mean.startswith("cubic+hold is better in the mean: 1.090 times") and "in 9, slower in 0" in single
    mean, single = _before.verdict("cubic+hold", before, mixed)
    assert "neither better nor worse" in mean and "in 4, slower in 5" in single
    assert [row[0] for row in _before.table(before, mixed)[1:]][:2] == ["case 0", "case 2"]


def test_a_change_that_was_not_compiled_is_asked_for():
    before = {"one": 1.0, "two": 2.0}
    assert "is the change compiled?" in _before.verdict("hold", before, before)[0]


def test_what_was_measured_with_other_options_is_refused(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="--before, before the change"):
        _before.kept("policies", {"runs": 3})
    monkeypatch.setattr(_before, "write", lambda name, result: _write(tmp_path, name, result))
    _before.keep("policies", {"runs": 3}, {"one": 1.5})
    assert _before.kept("policies", {"runs": 3}) == {"one": 1.5}
    with pytest.raises(SystemExit, match="expected --runs 1, found 3"):
        _before.kept("policies", {"runs": 1})


def _write(folder, name, result):
    (folder / f"{name}.json").write_text(json.dumps({"result": result}))
