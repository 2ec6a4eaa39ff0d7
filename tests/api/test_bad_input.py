"""Bad values of the notebook's functions: the error of the command, with its keyword."""

from pathlib import Path
from typing import Any

import pytest

import mptune
from mptune.errors import InputError
from tests.plugins.bad_input import LONGEST, NO_FILES

LONG = "x" * 100_000
RUN = {"topology": "UiT-HAW", "duration": "100ms"}
SWEEP = {
    "topology": "UiT-HAW",
    "pm": ["default"],
    "cc": ["reno"],
    "buffers": "0.1",
    "runs": 1,
    "duration": "100ms",
}
OPTIMISE = {"topology": "UiT-HAW", "pm": ["default"], "cc": ["reno"]}
FUNCTIONS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "run": (
        RUN,
        {
            "duration": ["soon", "-1s", 5, "", float("nan"), [], LONG, "\x1b[31m"],
            "buffer": ["0", "-1", "much", float("nan"), float("inf"), {}, LONG],
            "seed": [-1, 1.5, "x", 10**30, float("nan")],
            "cc": ["nonsense", "", 3, LONG, "reno,reno"],
            "pm": ["nonsense", 3],
            "testbed": ["moon"],
            "initial_path": ["nowhere", 3],
            "nonsense": [1],
            "transfer": ["1MiB", "-1 B"],
            "workload": ["x", 3, "messages:0B/1s", "messages:200B/1ns", LONG],
        },
    ),
    "sweep": (
        SWEEP,
        {
            "cc": [["reno", "reno"], [], "reno,reno", ["x"], 3, [3], [LONG]],
            "pm": [["default", "default"], ["x"]],
            "buffers": ["1,1,1", [1, 1], [0], [-1], [float("nan")], [], "x", [2**80]],
            "runs": [0, -1, 1.5, "x", 10**30],
            "duration": ["0s", "x"],
            "nonsense": [1],
            "every": ["1h"],
        },
    ),
    "optimise": (
        OPTIMISE,
        {
            "sacrifice": [2, -1, "x", float("nan"), "200%"],
            "certainty": [0, 1, 2, "x", float("nan")],
            "budget": ["x", "0s", "1ns"],
            "transfer": ["64KiB,64KiB", ["64KiB", "64KiB"], "x"],
            "model": ["nonsense"],
            "workload": ["x", 3, "messages:200B/0s"],
            "objective": ["gap", "x", 3],
            "at_most_gap": ["1s", "x", 3],
            "jobs": [0, -1, 1.5],
            "nonsense": [1],
        },
    ),
    "impact_factors": ({**RUN, "runs": 1}, {"cc": ["x"], "settle": ["x"], "runs": [0]}),
}  # fmt: skip


def clean(error: InputError, name: str) -> None:
    text = str(error)
    assert name in text
    assert len(text) <= LONGEST and text.isprintable()


@pytest.mark.parametrize(
    ("function", "keyword", "value"),
    [
        pytest.param(
            function,
            keyword,
            value,
            id=ascii(f"{function}-{keyword}-{value!r}")[1:60],
        )
        for function, (_, keywords) in FUNCTIONS.items()
        for keyword, values in keywords.items()
        for value in values
    ],
)
def test_a_bad_keyword_is_named(
    function: str, keyword: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        getattr(mptune, function)(**{**FUNCTIONS[function][0], keyword: value})
    clean(error.value, keyword)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("maker", NO_FILES)
@pytest.mark.parametrize("function", ["load", "run", "fit", "open_run", "sweep"])
def test_what_is_no_file(function: str, maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    maker(tmp_path / "it")
    with pytest.raises(InputError) as error:
        getattr(mptune, function)("it")
    clean(error.value, "it")


@pytest.mark.parametrize("name", ["", "a\0b", "a\ud800b", LONG, "a\nb", "\x1b[2J"])
@pytest.mark.parametrize("function", ["load", "run", "fit", "open_run", "sweep"])
def test_names_of_no_file(function: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        getattr(mptune, function)(name)
    clean(error.value, "expected")
