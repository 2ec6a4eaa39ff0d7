"""Trials on every release that is built here, and what the agent makes of kernels before Linux 6.5.

Those have no call for all statistics of a connection. Newer ones have the older calls too, so that both ways
are compared on any of them.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.guest import kernels, machine
from mptune.linux import agent
from mptune.testbeds.virtual import VirtualTestbed
from mptune.trial import ScriptedAction
from tests.plugins import trials
from tests.plugins.needs import releases
from tests.virtual import apart, exec_alone

pytestmark = pytest.mark.needs("guest")

MS = 1_000_000
#: The first release that counts what is sent again on other subflows.
COUNTED = (6, 5)
RELEASES = releases()
OUTAGE = (
    ScriptedAction(at_ns=500 * MS, path="W-X", action="down"),
    ScriptedAction(at_ns=1500 * MS, path="W-X", action="up"),
)
#: Kinds of trials, each with what is particular to kernels: sockets, joins, standby, lost and restored ones.
KINDS: dict[str, dict[str, Any]] = {
    "default": {"pm": "default"},
    "fullmesh": {"pm": "fullmesh"},
    "pcdc": {"pm": "pcdc"},
    "tcp": {"pm": "default", "protocol": "tcp"},
    "both families": {"family": "both"},
    "outage": {"script": OUTAGE, "duration_ns": 4 * trials.SECOND},
}
#: Congestion controls that every kernel for guests has.
WINDOWS = ("reno", "cubic", "bbr")


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    return VirtualTestbed(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_every_release_runs_trials(release, trial, kind):
    observation = release.run(trial(**KINDS[kind]))
    assert observation.failed is None and observation.in_order_bytes > 1_000_000
    counts = kernels.numbers(release.kernel.version) >= COUNTED or kind == "tcp"
    assert ("reinjected_bytes" in observation.metadata) is counts
    several = kind not in ("default", "tcp")
    assert (len({subflow.path for subflow in observation.subflows if subflow.bytes}) > 1) is several


@pytest.mark.parametrize("cc", WINDOWS)
def test_every_release_has_the_common_congestion_controls(release, trial, cc):
    observation = release.run(trial(cc=cc))
    assert observation.failed is None and observation.metadata["cc_effective"] == cc


def test_a_program_under_exec_has_its_subflows_counted(release):
    root = Path(__file__).parents[2]
    answer = machine.run(release.kernel.program, exec_alone.__name__, {}, seed=1, limit_s=60, beside=[root])
    said = msgspec.json.decode(answer)
    (connection,) = said["statistics"]["connections"]
    (subflow,) = connection["subflows"]
    assert said["received"] == exec_alone.SIZE and connection["kind"] == "mptcp"
    assert connection["sent_bytes"] == connection["acked_bytes"] == subflow["sent_bytes"] == exec_alone.SIZE
    counts = kernels.numbers(release.kernel.version) >= COUNTED
    assert (connection["reinjected_bytes"] is not None) is (subflow["id"] is not None) is counts


@pytest.mark.parametrize("changes", [{}, KINDS["outage"], {"family": "both"}], ids=["", "outage", "both"])
def test_several_calls_give_what_one_gives(testbed, trial, begun_by, changes):
    """To the byte: the same trial, read the other way."""
    asked = trial(**changes)
    whole = testbed.run(asked)
    begun_by(apart)
    parts = testbed.run(asked)
    assert whole.failed is parts.failed is None
    assert msgspec.json.encode(parts) == msgspec.json.encode(whole)
    # Otherwise it was the same way twice.
    assert apart.VARIABLE.encode() in agent.program().read_bytes()


def test_samples_number_the_subflows_in_the_order_of_their_appearance(testbed, trial, begun_by):
    asked = trial(transfer_bytes=1_000_000)
    _, whole = testbed.record(asked)
    begun_by(apart)
    _, parts = testbed.record(asked)
    assert set(parts.samples["subflow"]) == {1, 2}
    assert parts.samples.tobytes() == whole.samples.tobytes()
