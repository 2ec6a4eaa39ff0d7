"""The rule by which settings may stay, and refusals before anything is measured.

Measuring is in tests/hosts.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.apply import plan, verify
from mptune.apply._transfers import Got
from mptune.apply.records import Applied, Waiting
from mptune.cli import app
from mptune.statistics import summarise
from mptune.trial.objectives import metric_called
from tests.apply.worlds import DUAL, NETWORK

#: Both machines are reached by ssh.
REACHED = NETWORK.replace('name = "home"\n[[', 'name = "home"\nssh = "alice"\n[[').replace(
    'name = "server"\n', 'name = "server"\nssh = "bob"\n'
)


def side(*mbps: float) -> verify.Side:
    got = Got(mbps=mbps[-1], bytes=1, seconds=1.0, mptcp=True, cc="cubic", subflows=("a to b",))
    return verify.Side(mbps=mbps, summary=summarise(mbps), last=got)


@pytest.mark.parametrize(
    ("before", "after", "promised", "kept"),
    [
        ((10, 10.1, 9.9), (20, 20.1, 19.9), 20, True),  # all of it
        ((10, 10.1, 9.9), (15.6, 15.7, 15.5), 20, True),  # somewhat more than half
        ((10, 10.1, 9.9), (14.6, 14.7, 14.5), 20, False),  # somewhat less
        ((10, 14, 6), (18, 22, 14), 20, False),  # perhaps, but not shown
        ((10, 10.1, 9.9), (10, 10.1, 9.9), 10, False),  # nothing was promised, and nothing came
        ((10, 10.1, 9.9), (11, 11.1, 10.9), 9, True),  # nothing was promised, and something came
        ((10, 10, 10), (9, 9, 9), 8, False),
        ((10, 10, 10), (20, 20, 20), 20, True),  # no noise at all
    ],
)
def test_half_of_what_was_promised_has_to_be_shown(before, after, promised, kept):
    verdict = verify.judged(side(*before), side(*after), promised)
    assert verdict.kept is kept
    assert verdict.gain.low <= verdict.gain.least <= verdict.gain.mean <= verdict.gain.high
    assert f"{verdict.gain.mean:+.2f}"[:4] in verdict.text


@pytest.mark.parametrize(
    ("after", "kept"), [((60, 61, 59), True), ((76, 77, 75), False), ((120, 121, 119), False)]
)
def test_of_a_delay_less_is_the_gain(after: tuple[float, ...], kept: bool) -> None:
    """100 ms before, and 50 are promised."""
    before, later = (
        msgspec.structs.replace(side(1, 1, 1), values=values, summary=summarise(values))
        for values in ((100, 101, 99), after)
    )
    metric = metric_called("delay p99")
    assert metric is not None
    verdict = verify.judged(before, later, 50, metric)
    assert (verdict.kept, verdict.objective, verdict.unit) == (kept, "delay p99", "ms")
    assert (verdict.gain.mean, verdict.promised, verdict.needed) == (100 - after[0], 50, 25)
    assert verdict.text.startswith(f"The gain in delay p99 is {100 - after[0]:+.1f} ms")
    assert verdict.text.endswith("promises 50.00 ms, +50.0; more than +25.0, half of that, is needed.")


def run_of(run: Callable[..., Path], network: str = REACHED, **answer: Any) -> Path:
    chosen = {"protocol": "mptcp", "opm": "fullmesh", "subflows": ["F-T", "F-V", "M-T", "M-V"], "standby": []}
    return run(network=network, **(chosen | answer))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--verify", "--host", "H"), "--verify: expected both machines of the run, found --host"),
        (("--verify", "--confirm-within", "30s"), "--confirm-within: expected at least 95 s"),
        (("--runs", "3"), "--runs: expected with --verify only"),
        (("--max-data", "1MB"), "--max-data: expected with --verify only"),
        (("--verify", "--confirm"), "--confirm: expected nothing to apply with it, found --verify"),
        (("--verify", "--runs", "1"), "--runs: expected 2 to 100, found 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(run, words, complaint):
    result = CliRunner().invoke(app, ["apply", str(run_of(run)), *words])
    assert result.exit_code == 2 and complaint in result.stderr


def test_without_machines_to_measure_between_it_is_refused(run):
    result = CliRunner().invoke(app, ["apply", str(run_of(run, NETWORK)), "--verify"])
    assert result.exit_code == 2
    assert "home.toml: sites.H.ssh: expected" in result.stderr and "the simulated testbed" in result.stderr


def test_settings_of_ones_own_promise_nothing(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps([{"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "1 2 3"}]))
    result = CliRunner().invoke(app, ["apply", "--settings", str(file), "--verify"])
    assert result.exit_code == 2 and "expected RUN, whose promise is verified" in result.stderr


def test_limits_of_interfaces_and_of_the_user_hold_for_all_transfers_together(run):
    network = REACHED.replace("metered = true", 'metered = true\nmax_data = "10 MB"')
    how = verify.How(runs=4, max_data_bytes=None)
    outline = plan.outline(run_of(run, network))
    most = verify._most_bytes(outline, how)
    wire = 8 * 1.1 * 1500 / 1408
    assert most is not None and most * wire <= 10_000_000 < (most + 2) * wire
    less = verify.How(runs=4, max_data_bytes=80_000)
    assert verify._most_bytes(outline, less) == 10_000
    assert "0.08 MB of payload in all at most" in verify.notice(outline, less)
    assert verify._most_bytes(plan.outline(run_of(run, REACHED, name="free")), how) is None


@pytest.mark.parametrize("within", [None, "10min"])
def test_settings_that_wait_to_be_confirmed_are_not_reported_as_permanent(run, within, monkeypatch):
    """The last line is what becomes of them."""
    verdict = verify.judged(side(10, 10.1, 9.9), side(20, 20.1, 19.9), 20)
    waits = None if within is None else Waiting(left_s=540.2, within_s=600, by="process")
    applied = {"home": Applied(run="a run", settings=[], dropped=[], confirm=waits)}
    monkeypatch.setattr(verify, "apply", lambda *_, **__: verify.Verified(applied=applied, verdict=verdict))
    place = run_of(run)
    words = () if within is None else ("--confirm-within", within)
    result = CliRunner().invoke(app, ["apply", str(place), "--verify", *words])
    assert result.exit_code == 0, result.stderr
    printed = " ".join(result.stdout.split())
    if within is None:
        assert "The gain is confirmed: the settings stay." in printed
        assert printed.endswith(f"mptune rollback {place} puts everything back.")
    else:
        assert "the settings stay" not in printed and "The gain is confirmed." in printed
        back = "Everything is put back in 540 s unless you confirm:"
        assert printed.endswith(f"{back} mptune apply {place} --confirm")


@pytest.mark.parametrize(("initial", "address"), [("F-T", "::ffff:203.0.113.7"), ("F-T/6", "2001:db8:7::7")])
def test_over_both_families_a_program_reaches_the_address_in_a_socket_of_ipv6(
    run: Callable[..., Path], initial: str, address: str
):
    answer = {"protocol": "mptcp", "opm": "fullmesh", "subflows": ["F-T", "F-T/6"], "standby": []}
    made = plan.outline(run(network=DUAL, family="both", initial_path=initial, **answer))
    machines: Any = (None, None)
    course = verify._course(made, machines)
    assert (course.address, course.version) == (address, 6)
