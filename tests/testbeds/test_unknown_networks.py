"""Networks between hosts of which not everything is known: no testbed makes up what it does not know."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.errors import InputError
from mptune.linux import doctor
from mptune.linux.sandbox import leftovers
from mptune.runner.running import run_trials
from mptune.testbeds import create
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import Topology, load
from mptune.trial import Bulk, Trial
from tests.plugins import two_hosts


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return load(two_hosts.write(tmp_path))


@pytest.fixture(
    params=[
        pytest.param(("simulated", "the simulator"), id="simulated"),
        pytest.param(("namespaces", "the emulator"), id="namespaces", marks=pytest.mark.needs("linux")),
    ]
)
def testbed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """A testbed with a network of its own, on a machine that has everything, and who needs the numbers."""
    monkeypatch.setattr(leftovers, "end_strays", lambda: None)
    monkeypatch.setattr(doctor, "obstacle", lambda: None)
    name, user = request.param
    return create(name), user


def trial(topology: Topology) -> Trial:
    return Trial(
        topology=topology,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=2**20,
        seed=1,
        workload=Bulk(duration_ns=10**9),
    )


def test_the_trial_is_refused_with_file_and_key(testbed: tuple[Any, str], topology: Topology) -> None:
    made, user = testbed
    for ask in (made.run, lambda trial: run_trials(made, [trial])):
        with pytest.raises(InputError) as error:
            ask(trial(topology))
        assert str(error.value) == (
            f"hosts.toml: {two_hosts.MISSING[0]}: expected a rate, needed by {user}; "
            "`mptune probe` measures it"
        )


def test_one_missing_rtt_is_enough(testbed: tuple[Any, str], topology: Topology) -> None:
    made, _ = testbed
    partial = msgspec.structs.replace(topology, missing=two_hosts.MISSING[-1:])
    with pytest.raises(InputError, match=r"hosts\.toml: core\.segments\.C-X\.rtt: expected an RTT"):
        made.run(trial(partial))


def test_hosts_of_which_everything_is_known_can_be_simulated(tmp_path: Path) -> None:
    file = two_hosts.write(tmp_path)
    text = file.read_text().replace("[[core.segments]]", '[core]\nrtt = "10 ms"\n[[core.segments]]')
    for abbr in "BC":
        text = text.replace(f'abbr = "{abbr}"', f'abbr = "{abbr}"\nup = "9 Mbit/s"\ndown = "9 Mbit/s"')
    text = text.replace('abbr = "A"', 'abbr = "A"\ndown = "9 Mbit/s"')
    file.write_text(text.replace('abbr = "X"', 'abbr = "X"\nup = "1 Gbit/s"'))
    known = load(file)
    assert known.missing == ()
    observed = SimulatedTestbed().run(trial(known))
    assert observed.failed is None and observed.throughput_bps > 9e6
