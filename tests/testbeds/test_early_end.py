"""Trials that end as soon as their throughput is known well enough, in the simulator."""

from itertools import product
from statistics import median
from typing import Any

import msgspec
import pytest

from mptune.errors import InputError
from mptune.testbeds import create
from mptune.testbeds.early_end import replayed
from mptune.topology import Topology, load
from mptune.trial import BIN_NS, Bulk, Observation, PlannedTrial, ScriptedAction, Trial
from mptune.trial.records import record, settings_of
from tests.plugins.trials import with_workload

SECOND = 1_000_000_000
DURATION_NS = 20 * SECOND

#: Its rate falls to a tenth at 3 s.
FAILING = """
name = "failing"
description = "a path that fails"
source = "test"
sender = "S"
receiver = "R"

[sites.S]
name = "sender"
location = "here"

[[sites.S.interfaces]]
isp = "Wired"
abbr = "W"
up = "20 Mbit/s"
down = "20 Mbit/s"
delay = "5 ms"
schedule = [{ at = "3 s", up = "2 Mbit/s" }]

[sites.R]
name = "receiver"
location = "there"

[[sites.R.interfaces]]
isp = "Exchange"
abbr = "X"
up = "100 Mbit/s"
down = "100 Mbit/s"
delay = "1 ms"

[core]
delay = "4 ms"
"""


def run(topology: Topology, **changes: Any) -> Observation:
    settings: dict[str, Any] = {
        "topology": topology,
        "pm": "fullmesh",
        "cc": "cubic",
        "buffer_bytes": 4 << 20,
        "seed": 1,
        "duration_ns": DURATION_NS,
        "ends_early": True,
    }
    return create("simulated").run(Trial(**with_workload(settings | changes)))


@pytest.fixture
def early(network: Topology) -> Observation:
    return run(network)


def test_it_is_shorter_and_gives_the_throughput_of_the_whole_trial(network):
    shares, errors = [], []
    for cc, mebibytes in product(("reno", "cubic", "olia"), (1, 2, 4)):
        settings = {"cc": cc, "buffer_bytes": mebibytes << 20}
        early, whole = run(network, **settings), run(network, ends_early=False, **settings)
        shares.append(early.duration_ns / whole.duration_ns)
        assert early.failed is None and whole.expected_bps is None
        errors.append(abs(early.throughput_bps / whole.throughput_bps - 1))
    # One trial may end in a lucky second.
    assert median(shares) < 0.7 and max(shares) < 1
    assert median(errors) < 0.03 and max(errors) < 0.1


def test_what_it_measured_is_the_beginning_of_the_whole_trial(early, network):
    whole = run(network, ends_early=False)
    assert early.bins == whole.bins[: early.duration_ns // BIN_NS]
    assert early.in_order_bytes == sum(early.bins)


def test_it_ends_where_the_rule_ends_the_series_of_the_whole_trial(early, network):
    ended = replayed(run(network, ends_early=False).bins, DURATION_NS)
    assert ended == (early.duration_ns, early.expected_bps)


def test_the_same_trial_ends_the_same_way(early, network):
    assert run(network) == early


def test_a_network_that_failed_is_watched_until_its_throughput_is_known(tmp_path):
    file = tmp_path / "failing.toml"
    file.write_text(FAILING, encoding="utf-8")
    failing = load(file)
    early, whole = (run(failing, ends_early=early_end) for early_end in (True, False))
    file.write_text(FAILING.replace("schedule", "# schedule"), encoding="utf-8")
    assert early.duration_ns > run(load(file)).duration_ns
    assert early.throughput_bps == pytest.approx(whole.throughput_bps, rel=0.05)


def test_a_short_trial_lasts_as_long_as_it_was_asked_to(network):
    short = run(network, duration_ns=2 * SECOND)
    assert short == run(network, duration_ns=2 * SECOND, ends_early=False)


def test_only_what_goes_on_as_it_is_can_end_early(network):
    script = (ScriptedAction(at_ns=SECOND, path="A-X", action="down"),)
    with pytest.raises(InputError, match="ends_early: expected a saturated sender without a script"):
        run(network, script=script)


def test_a_record_has_the_time_it_took_and_the_throughput_of_the_whole(early, network):
    trial = Trial(
        topology=network,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=4 << 20,
        seed=1,
        workload=Bulk(duration_ns=DURATION_NS, ends_early=True),
    )
    kept = record(PlannedTrial(purpose="sweep", run=0, trial=trial), early)
    assert kept.duration_s == early.duration_ns / 1e9 < DURATION_NS / 1e9
    assert kept.throughput_mbps == early.throughput_bps / 1e6
    assert settings_of(trial, ())["ends_early"] is True
    assert "ends_early" not in settings_of(
        msgspec.structs.replace(trial, workload=Bulk(duration_ns=DURATION_NS)), ()
    )
