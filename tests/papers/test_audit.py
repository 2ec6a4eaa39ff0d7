"""The table of what the papers describe: every row has a verdict, and every place that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_, _, AUDIT = (
    (ROOT / "docs/reference/reproduce.md")
    .read_text(encoding="utf-8")
    .partition("\n## What the five papers describe")
)
#: Section, what, verdict, where, command.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in AUDIT.splitlines()
    if line.startswith("| ") and not line.startswith("| section ")
]
ELSEWHERE = ("crates/", "bpf/", "scenarios/", "docs/")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1][:30]}")
def test_a_row_has_a_verdict_and_places_that_exist(row: list[str]) -> None:
    _, what, verdict, where, command = row
    word = re.split(r"[:;, ]", verdict)[0]
    assert what and word in ("whole", "partly", "missing")
    if word != "missing":
        assert where and command.startswith("`mptune ")
    if word != "whole":
        assert len(verdict) > len(word), "what is left, or why"
    for place in re.findall(r"`([^`]+)`", where):
        base = ROOT if place.startswith(ELSEWHERE) else ROOT / "python/mptune"
        assert (base / place).exists(), place


def test_every_paper_has_its_table() -> None:
    titles = re.findall(r"^### (.*)$", AUDIT, re.MULTILINE)
    assert [title.partition(" (")[0] for title in titles] == [
        "Common to all",
        "MPCOA",
        "Buffer sizes",
        "PCDC",
        "Path management",
        "Buffer formulas by GLM",
    ]
    assert len(ROWS) > 50
