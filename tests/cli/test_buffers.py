"""`mptune buffers`: the papers' example, topologies, runs, and how the sizes depend on the paths."""

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mptune import theory
from mptune.cli import app
from mptune.topology import load
from tests.plugins.answers import ANSWER

runner = CliRunner()

FIBRE_AND_ADSL = ["--path", "100Mbit/s,10ms", "--path", "1Mbit/s,200ms"]
RESULT = {**ANSWER, "topology": "UNIS-HiN"}


def document_of(*arguments: str) -> dict:
    """Give what `--json` prints."""
    result = runner.invoke(app, ["buffers", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    document: dict = json.loads(result.stdout)
    return document


@pytest.mark.parametrize(
    ("name", "rtt", "rto", "mib"), [("SRL-HU", "loaded", "2s", 329), ("UiT-HAW", "loaded", "2s", 1.22)]
)
def test_mpcoas_sizes_are_those_of_its_table_5(name: str, rtt: str, rto: str, mib: float) -> None:
    """The scenarios' queues are chosen for the RTTmax of 1.8 s there; RTOmax is 2 s."""
    document = document_of(name, "--rtt", rtt, "--rto", rto)
    sizes = document["mpcoa"]["bytes"]
    assert sizes["table5"] / 2**20 == pytest.approx(mib, rel=0.005)
    assert sizes["half"] == -(-sizes["table5"] // 2)
    assert sizes["eq1"] == document["mptcp"]["bytes"]["timer"]
    assert document["mpcoa"]["rate_bps"] >= document["mptcp"]["rate_bps"]
    assert "Take Eq. 2" in document["advice"]


def test_a_path_given_by_its_rate_has_mpcoas_sizes_too() -> None:
    """3 (200 ms + 1 s) * 101 Mbit/s."""
    sizes = document_of(*FIBRE_AND_ADSL)["mpcoa"]["bytes"]
    assert sizes["table5"] == 3 * 1_200 * 101_000 // 8
    text = runner.invoke(app, ["buffers", *FIBRE_AND_ADSL]).stdout
    assert "MPCOA Table 5" in text and "half of that" in text and "Take Eq. 2" in text


def run_directory(folder: Path, **changes: object) -> str:
    (folder / "result.json").write_text(json.dumps({**RESULT, **changes}), encoding="utf-8")
    return str(folder)


def test_the_first_example_of_the_help_is_the_papers() -> None:
    """Buffer-size study, section III: 2466, 4932 and 19727 KiB."""
    lines = runner.invoke(app, ["buffers", "--help"]).stdout.splitlines()
    example = next(line for line in lines if "fibre and ADSL" in line)
    result = runner.invoke(app, shlex.split(example, comments=True)[1:])
    assert result.exit_code == 0
    sizes = [line.split() for line in result.stdout.splitlines() if "(Eq. " in line]
    assert [row[-3] for row in sizes] == ["2466", "4932", "19727"]
    assert [row[-1] for row in sizes] == ["2525000", "5050000", "20200000"]


@pytest.mark.parametrize("name", ["UNIS-HiN", "SRL-HU", "UiT-HAW"])
def test_a_topology_gives_the_sizes_that_optimise_compares_with(name: str) -> None:
    topology = load(name)
    traditional = theory.traditional(topology)
    document = document_of(name)
    assert document["mptcp"]["bytes"] == {
        "first": traditional["eq1"],
        "fast": traditional["eq2"],
        "timer": traditional["eq3"],
    }
    assert [path["path"] for path in document["paths"]] == [path.label for path in topology.paths]
    assert [path["bytes"]["first"] for path in document["paths"]] == [p.bdp_bytes for p in topology.paths]


def test_loaded_rtts_add_the_time_a_full_queue_takes() -> None:
    topology = load("UNIS-HiN")
    document = document_of("UNIS-HiN", "--rtt", "loaded")
    for sized, path in zip(document["paths"], topology.paths, strict=True):
        waiting_ms = 8000 * path.queue_bytes / path.rate_bps
        assert sized["rtt_ms"] == pytest.approx(path.base_rtt_ns / 1e6 + waiting_ms, abs=1e-6)
    assert "full" in document["rtt"]
    assert "empty" in document_of("UNIS-HiN")["rtt"]


def test_the_rto_of_a_path_goes_before_the_option() -> None:
    document = document_of("--path", "8Mbit/s,100ms,3s", "--path", "8Mbit/s,100ms", "--rto", "2s")
    assert [path["rto_ms"] for path in document["paths"]] == [3000, 2000]
    # (3 * 0.1 s + RTO) * 1 MB/s, and for both with the larger RTO.
    assert [path["bytes"]["timer"] for path in document["paths"]] == [3_300_000, 2_300_000]
    assert document["mptcp"]["bytes"]["timer"] == 6_600_000


def test_memory_for_many_connections() -> None:
    document = document_of(*FIBRE_AND_ADSL, "--connections", "1000")
    assert document["memory_bytes"]["timer"] == 20_200_000_000
    assert document["memory_linux_bytes"]["timer"] == 40_400_000_000
    text = runner.invoke(app, ["buffers", *FIBRE_AND_ADSL, "--connections", "1000"]).stdout
    assert "1000 connections" in text
    assert "18.81 GiB" in text
    assert "37.63 GiB" in text
    assert "1 connections" not in runner.invoke(app, ["buffers", *FIBRE_AND_ADSL]).stdout


def test_a_recommendation_stands_beside_the_formulas(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    document = document_of("UNIS-HiN", "--run", directory, "--connections", "10")
    recommendation, sizes = document["recommendation"], document["mptcp"]["bytes"]
    assert (recommendation["opm"], recommendation["occ"]) == ("pcdc", "cubic")
    assert recommendation["memory_bytes"] == 10 * 4_194_304
    assert recommendation["share_of"]["timer"] == pytest.approx(4_194_304 / sizes["timer"])
    assert document["warnings"] == []
    text = runner.invoke(app, ["buffers", "UNIS-HiN", "--run", directory]).stdout
    row = next(line for line in text.splitlines() if line.startswith("recommended "))
    assert row.split()[1:] == ["4096", "4.00", "4194304", "100", "%"]
    assert "The run (UNIS-HiN) recommends pcdc with cubic, and predicts 266.6 Mbit/s." in text.splitlines()


def test_a_run_of_other_sites_and_an_impossible_rto_are_warned_of(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    assert document_of("UiT-HAW", "--run", directory)["warnings"] == ["The run used UNIS-HiN, not UiT-HAW."]
    assert document_of("UNIS-HiN", "--run", run_directory(tmp_path, topology=None))["warnings"] == []
    (warning,) = document_of("--path", "1Mbit/s,500ms,400ms")["warnings"]
    assert "400 ms" in warning
    assert "RFC 6298" in warning


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "TOPOLOGY, --path: expected one of them, found neither"),
        (["UNIS-HiN", "--path", "1Mbit/s,3ms"], "TOPOLOGY, --path: expected one of them, found both"),
        (["--path", "1Mbit/s"], "--path: 1Mbit/s: expected RATE,RTT or RATE,RTT,RTO such as"),
        (["--path", "1Mbit/s,1ms,1s,1s"], "--path: 1Mbit/s,1ms,1s,1s: expected RATE,RTT or"),
        (["--path", "1Mbit/s,soon"], "--path: 1Mbit/s,soon: expected a time such as"),
        (["--path", "1,3ms"], "--path: 1,3ms: expected a rate such as"),
        (["--path", "0Mbit/s,3ms"], "--path: 0Mbit/s,3ms: expected more than 0, found 0"),
        (["--path", "1Mbit/s,0ms"], "--path: 1Mbit/s,0ms: expected more than 0, found 0"),
        (["--path", "1Mbit/s,3ms", "--rtt", "base"], "--rtt: expected only with a TOPOLOGY"),
        (["UNIS-HiN", "--rtt", "worst"], "--rtt: expected one of base, loaded, found 'worst'"),
        (["UNIS-HiN", "--rto", "0s"], "--rto: expected more than 0, found 0"),
        (["UNIS-HiN", "--rto", "1"], "--rto: expected a time such as"),
        (["UNIS-HiN", "--connections", "0"], "--connections: expected 1 or more, found 0"),
        (["no-such-site"], "no-such-site: expected a topology file or a shipped scenario"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    result = runner.invoke(app, ["buffers", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"mptune: error: {line}")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "expected a run with an answer, found no result.json in it"),
        (b"{", "expected a readable JSON file"),
        (b'{"sizes": []}', "expected one answer, found one for each size of transfer"),
        (b"[1]", "Expected `object`"),
        (b'{"opm": "pcdc"}', "missing required field `occ`"),
        (json.dumps({**RESULT, "obs_bytes": -1}).encode(), "Expected `int` >= 1"),
        (b'{"opm": "\xff"}', "invalid"),
    ],
)
def test_a_run_directory_without_a_result(tmp_path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_bytes(content)
    result = runner.invoke(app, ["buffers", "UNIS-HiN", "--run", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"mptune: error: --run {tmp_path}: {'result.json: ' if content else ''}expected "
    )
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


Given = tuple[int, int, int]
paths = st.lists(
    st.tuples(st.integers(1, 10**10), st.integers(1, 10**10), st.integers(1, 10**10)), min_size=1, max_size=5
)


def sizes(given_paths: list[Given]) -> dict[str, int]:
    """Bytes of each formula for MPTCP over paths of (bit/s, RTT in ns, RTO in ns)."""
    arguments = [part for bps, rtt, rto in given_paths for part in ("--path", f"{bps}bit/s,{rtt}ns,{rto}ns")]
    needed: dict[str, int] = document_of(*arguments)["mptcp"]["bytes"]
    return needed


@settings(max_examples=25)
@given(paths, st.tuples(st.integers(1, 10**10), st.integers(1, 10**10), st.integers(1, 10**10)))
def test_another_path_never_makes_a_buffer_smaller(some: list[Given], another: Given) -> None:
    before, after = sizes(some), sizes([*some, another])
    assert all(after[key] >= before[key] for key in before)


@settings(max_examples=25)
@given(paths, st.integers(0, 4), st.integers(0, 2), st.integers(1, 10**10))
def test_more_of_anything_never_makes_a_buffer_smaller(
    some: list[Given], index: int, part: int, more: int
) -> None:
    at = index % len(some)
    grown = [value + more * (i == part) for i, value in enumerate(some[at])]
    before, after = sizes(some), sizes([*some[:at], (grown[0], grown[1], grown[2]), *some[at + 1 :]])
    assert all(after[key] >= before[key] for key in before)


@settings(max_examples=25)
@given(paths, st.integers(2, 1000))
def test_sizes_scale_with_the_rates(some: list[Given], factor: int) -> None:
    """Exactly, but for rounding up to whole bytes once and not a number of times."""
    before, after = sizes(some), sizes([(bps * factor, rtt, rto) for bps, rtt, rto in some])
    assert all(factor * (before[key] - 1) < after[key] <= factor * before[key] for key in before)


@settings(max_examples=25)
@given(paths)
def test_mptcp_needs_at_least_what_its_paths_need_together(some: list[Given]) -> None:
    """Its buffer is sized by the worst RTT and RTO for all of them, up to a byte of rounding each."""
    alone = [sizes([path]) for path in some]
    together = sizes(some)
    assert all(together[key] > sum(size[key] - 1 for size in alone) for key in together)
    assert together["fast"] in (2 * together["first"], 2 * together["first"] - 1)
