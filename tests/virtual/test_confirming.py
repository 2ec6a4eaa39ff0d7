"""An answer of the simulator, confirmed in guests."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.guest import kernels
from tests.plugins import two_paths
from tests.plugins.two_paths import Uplink

pytestmark = pytest.mark.needs("current-guest")

SMALL = (
    "--cc",
    "cubic",
    "--buffers",
    "0.1,0.2,0.4,0.8",
    "--strategy",
    "grid",
    # Buffers that grow do so in another way on each release, which trials of 2 s show.
    "--buffer-mode",
    "fixed",
    "--runs",
    "2",
    "--confirm-runs",
)


@pytest.fixture
def optimise(tmp_path):
    file = tmp_path / "two.toml"
    uplinks = Uplink("Wide", "20 Mbit/s", "20 ms", "120 kB"), Uplink("Narrow", "10 Mbit/s", "40 ms")
    file.write_text(two_paths.text(*uplinks))

    def run(*arguments):
        line = ["optimise", file, *SMALL, "3", "--duration", "2s", "--impact-runs", "2", *arguments]
        return CliRunner().invoke(app, [*map(str, line), "--force", "--out", str(tmp_path / "run")])

    return run


def answer(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_kernel_that_is_built_confirms_an_answer_of_the_simulator(optimise):
    confirmed, named, plain = (
        answer(optimise(*more, "--json", "--quiet"))
        for more in ((), ("--confirm-on", "virtual"), ("--confirm-on", "none"))
    )
    assert confirmed == named, "the same twice"
    found = confirmed.pop("confirmed_on_kernel")
    assert found["kernel"] == f"Linux {kernels.find().release}" and found["confirmed"]["runs"] == 3
    # Two paths without losses: the simulator is right.
    assert found["confirmed"]["mean"] == pytest.approx(plain["confirmed"]["mean"], rel=0.05)
    added = [sentence for sentence in confirmed["answer"] if sentence not in plain["answer"]]
    assert len(added) == 1 and added[0].startswith(f"On {found['kernel']} (guest, 3 runs): ")
    confirmed["answer"].remove(added[0])
    assert confirmed == plain


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--confirm-on", "virtual", "--stack", "v0.9x"), "--stack: expected linux"),
        (
            ("--confirm-on", "virtual", "--testbed", "virtual"),
            "--confirm-on: expected only with the simulator",
        ),
        (("--confirm-on", "virtual:99.9"), "mptune kernel build 99.9 adds it"),
    ],
)
def test_what_cannot_confirm_is_refused_before_anything_is_measured(optimise, arguments, named, tmp_path):
    result = optimise(*arguments)
    assert result.exit_code == 2 and named in result.stderr and not (tmp_path / "run").exists()
