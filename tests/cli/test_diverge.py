"""`mptune diverge` with recordings, and with a made-up kernel: paragraph, JSON, figure, refusals."""

import json

import pytest
from typer.testing import CliRunner

from mptune.capture import write
from mptune.cli import app
from mptune.testbeds import TESTBEDS
from mptune.testbeds.simulated import SimulatedTestbed
from tests.plugins.recordings import course, recording


@pytest.fixture
def traces(tmp_path):
    """Two recordings that part after 0.3 s."""
    for name, later in (("kernel", 100), ("patched", 30)):
        windows = [lambda now_s, later=later: 100 if now_s < 0.3 else later] * 2
        runs = [course(window, seed=seed, jitter_s=0.002) for seed, window in enumerate(windows)]
        write(recording(*runs, testbed="namespaces"), tmp_path / f"{name}.trace")
    return [str(tmp_path / f"{name}.trace") for name in ("kernel", "patched")]


def diverge(*arguments):
    return CliRunner().invoke(app, ["diverge", "--quiet", *arguments])


def test_two_recordings_are_compared(traces):
    result = diverge("--traces", *traces)
    assert result.exit_code == 0, result.output
    assert "patched (linux) against 2 runs of kernel (linux) on made-up" in result.output
    assert "first divergence at 0.3" in result.output and "in flight" in result.output


def test_json_has_both_sides_and_the_departures(traces):
    document = json.loads(diverge("--traces", *traces, "--json").output)
    assert document["diverged"] and document["first"]["subflow"] == "A-X"
    assert [side["name"] for side in document["sides"]] == ["kernel", "patched"]
    assert document["departures"][0] == document["first"]
    assert {"at_s", "side", "inflight_kib", "rtt_ms"} <= set(document["around"][0])


@pytest.mark.parametrize(
    ("suffix", "begins"), [("svg", b"<svg"), ("html", b"<!DOCTYPE"), ("png", b"\x89PNG")]
)
def test_the_figure_has_the_format_of_its_name(traces, tmp_path, suffix, begins):
    path = tmp_path / f"figure.{suffix}"
    result = diverge("--traces", *traces, "--out", str(path))
    assert result.exit_code == 0, result.output
    assert path.read_bytes().lstrip()[:20].lower().startswith(begins.lower())


def test_what_does_not_diverge_has_a_figure_too(traces, tmp_path):
    path = tmp_path / "figure.svg"
    result = diverge("--traces", traces[0], traces[0], "--out", str(path))
    assert result.exit_code == 0, result.output
    assert "no divergence" in result.output and path.read_text().count("<path") > 10


class ModelAsKernel(SimulatedTestbed):
    """Plays the kernel with the simulator."""

    name = "namespaces"
    only_stack = "linux"


def test_a_trial_is_recorded_on_both_sides_and_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(TESTBEDS, "namespaces", ModelAsKernel)
    kept = tmp_path / "kept"
    result = diverge("UiT-HAW", "--duration", "1s", "--runs", "2", "--cc", "reno", "--record", str(kept))
    assert result.exit_code == 0, result.output
    assert "no divergence in 1 s" in result.output
    assert sorted(path.name for path in kept.iterdir()) == ["kernel.trace", "simulated.trace"]
    again = diverge("--traces", *(str(path) for path in sorted(kept.iterdir())))
    assert "no divergence in 1 s" in again.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "expected either a topology or --traces"),
        (["UiT-HAW", "--traces", "a", "b"], "expected either a topology or --traces"),
        (["UiT-HAW", "--out", "figure.bmp"], "--out: expected a file that ends in .svg"),
        (["UiT-HAW", "--duration", "10min"], "--duration: expected at most"),
        (["UiT-HAW", "--stack", "v0.9x"], "--stack: expected linux"),
        (["UiT-HAW", "--initial-path", "nowhere"], "expected a path of"),
        (["--traces", "none.trace", "none.trace"], "none.trace: expected a readable file"),
    ],
)
def test_bad_input_is_one_line(arguments, error):
    result = diverge(*arguments)
    assert result.exit_code == 2
    assert error in result.stderr and result.stderr.count("\n") == 1
