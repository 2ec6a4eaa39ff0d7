"""The simulator's error beside an answer: the formula, kinds that were not compared, and bad files."""

import json
import math

import msgspec
import pytest

from mptune.decision import kinds, model_error
from mptune.decision.model_error import OnKernel, gain
from mptune.errors import InputError
from mptune.topology import TcpBackground, load
from mptune.trial import Bulk, ScriptedAction, Transfer, Trial
from mptune.trial.stacks import STACKS

TOPOLOGY = """\
name = "two"
description = "two paths"
source = "a test"
sender = "S"
receiver = "R"
initial_path = "A-T"
lsrr = "ignored"
[sites.S]
name = "s"
location = "here"
[[sites.S.interfaces]]
isp = "one"
abbr = "A"
up = "20 Mbit/s"
down = "20 Mbit/s"
delay = "5 ms"
loss = "0 %"
[[sites.S.interfaces]]
isp = "two"
abbr = "B"
up = "10 Mbit/s"
down = "10 Mbit/s"
delay = "5 ms"
loss = "0 %"
[sites.R]
name = "r"
location = "there"
[[sites.R.interfaces]]
isp = "three"
abbr = "T"
up = "50 Mbit/s"
down = "50 Mbit/s"
delay = "5 ms"
loss = "0 %"
[[core.segments]]
path = "A-T"
rtt = "20 ms"
jitter = "0 ms"
loss = "0 %"
[[core.segments]]
path = "B-T"
rtt = "20 ms"
jitter = "0 ms"
loss = "{loss}"
"""
#: 30 Mbit/s and 20 ms.
PRODUCT = 75_000
KIND = {"subflows": "2", "loss": "none"}


@pytest.fixture
def topology(tmp_path):
    def made(loss="0 %", text=TOPOLOGY):
        file = tmp_path / "two.toml"
        file.write_text(text.replace("{loss}", loss), encoding="utf-8")
        return load(file)

    return made


@pytest.fixture
def trial(topology):
    return Trial(
        topology=topology(),
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=PRODUCT,
        seed=1,
        workload=Bulk(duration_ns=10 * 10**9),
    )


@pytest.fixture
def learnt(made_up_error):
    """Everything of the test's network was compared."""
    return made_up_error


class TestTheInterval:
    def test_it_is_the_spread_times_the_ends_where_nothing_scatters(self, learnt):
        low, high = learnt.scale.interval(50.0, KIND, 0.0)
        assert (low, high) == pytest.approx((50 * math.exp(-0.2), 50 * math.exp(0.2)))

    def test_factors_multiply_the_spread(self, learnt):
        assert learnt.scale.of({"subflows": "1", "loss": "heavy"}) == pytest.approx(0.3 / math.e)

    def test_a_regime_that_was_not_named_has_no_effect(self, learnt):
        assert learnt.scale.of({"subflows": "5 to 8", "other": "x"}) == pytest.approx(0.1)

    def test_scatter_adds_as_a_variance(self, learnt):
        low, high = learnt.scale.interval(1.0, KIND, 0.03)
        assert math.log(high / low) == pytest.approx(2 * 2.0 * math.sqrt(0.01 + 0.03))

    def test_a_centre_moves_both_ends(self, learnt):
        moved = msgspec.structs.replace(learnt.scale, centre=-1.0)
        low, high = moved.interval(50.0, KIND, 0.0)
        assert (low, high) == pytest.approx((50 * math.exp(-0.3), 50 * math.exp(0.1)))

    def test_runs_that_scatter_more_leave_more_open(self, learnt, trial):
        alike, apart = ([20 - spread, 20.0, 20 + spread] for spread in (0.0, 4.0))
        widths = [
            expected.high_mbps - expected.low_mbps
            for expected in (learnt.expected(trial, alike), learnt.expected(trial, apart))
        ]
        assert widths[1] > 1.2 * widths[0]


class TestKinds:
    def test_subflows_are_those_that_the_path_manager_sends_on(self, trial):
        given = {
            "fullmesh": ({}, "2"),
            "default": ({}, "1"),
            "ndiffports": ({"ndiffports": 3}, "3 or 4"),
            "pcdc": ({"active": ["B-T"]}, "1"),
        }
        for pm, (options, expected) in given.items():
            changed = msgspec.structs.replace(trial, pm=pm, pm_options=options)
            assert kinds.factors(changed)["subflows"] == expected, pm

    @pytest.mark.parametrize(("loss", "expected"), [("0 %", "none"), ("0.1 %", "light"), ("0.11 %", "heavy")])
    def test_losses_count_by_the_path_that_loses_most(self, topology, loss, expected):
        assert kinds.loss_regime(topology(loss)) == expected

    def test_the_buffer_counts_in_products(self, trial):
        assert kinds.product_bytes(trial.topology) == PRODUCT
        assert kinds.factors(trial)["buffer"] == "0.9 to 2.7"

    def test_what_was_compared_is_not_outside(self, learnt, trial):
        assert learnt.unknown(trial) == ""

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"protocol": "tcp", "pm": "default"}, "plain TCP"),
            (msgspec.structs.asdict(STACKS["v0.9x"]), "v0.9x"),
            ({"family": "ipv6"}, "ipv6"),
            ({"script": (ScriptedAction(at_ns=1, path="A-T", action="down"),)}, "script"),
            ({"cc": "dctcp"}, "dctcp"),
            ({"pm": "guard"}, "guard"),
            ({"buffer_mode": "auto"}, "auto"),
            ({"buffer_mode": "auto", "receive_buffer_bytes": 2 * PRODUCT}, "buffer mode sender"),
            ({"receive_buffer_bytes": 2 * PRODUCT}, "a receive buffer of its own size"),
            ({"buffer_bytes": 9 * PRODUCT}, "products"),
            ({"buffer_bytes": PRODUCT // 20}, "products"),
            ({"workload": Bulk(duration_ns=10**9)}, "trials of"),
            ({"workload": Transfer(bytes=2**30)}, "transfers of"),
        ],
    )
    def test_what_was_not_compared_has_no_estimate_but_a_reason(self, learnt, trial, changes, word):
        changed = msgspec.structs.replace(trial, **changes)
        expected = learnt.expected(changed, [20.0, 21.0])
        assert word in expected.unknown
        assert expected.low_mbps is None and expected.high_mbps is None
        assert expected.unknown in expected.sentence and "No kernel error estimate" in expected.sentence

    @pytest.mark.parametrize(
        ("before", "after", "word"),
        [
            ('up = "20 Mbit/s"', 'up = "40 Gbit/s"', "networks of 1 to 35 Mbit/s in all; this network has"),
            ('rtt = "20 ms"', 'rtt = "900 ms"', "RTTs of"),
            ('loss = "{loss}"', 'loss = "5 %"', "losses of"),
        ],
    )
    def test_networks_beyond_the_drawn_ones_have_a_reason(self, learnt, trial, topology, before, after, word):
        network = topology(text=TOPOLOGY.replace(before, after))
        compared = msgspec.structs.replace(learnt.compared, total_bps=(1e6, 35e6), products=(0, 1e9))
        reason = kinds.outside(msgspec.structs.replace(trial, topology=network), compared)
        assert word in reason and reason.startswith("validated only for ")

    def test_connections_of_others_have_a_reason(self, learnt, trial):
        busy = msgspec.structs.replace(trial.topology, background=(TcpBackground(path="A-T", cc="cubic"),))
        assert "competing" in learnt.unknown(msgspec.structs.replace(trial, topology=busy))

    def test_an_error_of_another_simulator_is_not_borrowed(self, learnt, trial):
        older = msgspec.structs.replace(learnt, release="5.0")
        assert "another version" in older.expected(trial, [20.0, 21.0]).unknown

    def test_one_run_shows_no_scatter(self, learnt, trial):
        assert "single" in learnt.expected(trial, [20.0]).unknown

    def test_nothing_simulated_gives_nothing(self, learnt, trial):
        assert learnt.expected(trial, []).unknown
        assert learnt.expected(trial, [0.0, 0.0]).unknown


class TestWhatIsSaid:
    def test_the_sentence_has_the_ends_and_what_they_are_from(self, learnt, trial):
        sentence = learnt.expected(trial, [20.0, 20.0]).sentence
        for part in (
            "16.37 to 24.43 Mbit/s",
            "5 runs",
            "200 configurations",
            "30 drawn networks",
            "Linux 9.9",
        ):
            assert part in sentence

    def test_a_gain_is_as_unsure_as_both_together(self):
        """Widths of 3 and 4 make one of 5."""
        gained = gain(OnKernel(30.0, 27.0, 33.0), OnKernel(20.0, 16.0, 24.0))
        assert (gained.low_mbps, gained.high_mbps) == (5.0, 15.0)

    def test_the_near_ends_count_on_each_side(self):
        gained = gain(OnKernel(30.0, 27.0, 30.0), OnKernel(20.0, 20.0, 24.0))
        assert (gained.low_mbps, gained.high_mbps) == (5.0, 10.0)

    def test_a_gain_that_may_be_a_loss_has_no_known_sign(self):
        sentence = gain(OnKernel(30.0, 20.0, 40.0), OnKernel(25.0, 20.0, 30.0)).sentence
        assert "cannot tell" in sentence

    def test_a_gain_over_something_unknown_is_unknown(self):
        gained = gain(OnKernel(30.0, 27.0, 33.0), OnKernel(20.0, unknown="guard is not validated"))
        assert gained.low_mbps is None and "guard" in gained.sentence


class TestTheFile:
    def test_what_is_shipped_is_read_and_is_of_this_simulator(self, trial):
        error = model_error.shipped()
        assert "another version" not in error.unknown(trial)
        assert error.scale.half < error.scale.nine_tenths <= error.scale.ends
        assert 0.85 <= error.validated.coverage <= 1.0

    def test_what_is_written_is_read(self, learnt, tmp_path):
        file = tmp_path / "error.json"
        file.write_bytes(msgspec.json.encode(learnt))
        assert model_error.read(file) == learnt

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"schema": 2}, "schema"),
            ({"runs": 0}, "runs"),
            ({"scale": {}}, "scale"),
            ({"more": 1}, "more"),
            ({"validated": {"coverage": 1.5, "width": 1.0}}, "coverage"),
        ],
    )
    def test_a_bad_file_is_one_line(self, learnt, tmp_path, change, named):
        file = tmp_path / "error.json"
        file.write_text(json.dumps(msgspec.to_builtins(learnt) | change), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            model_error.read(file)
        assert str(file) in str(caught.value) and named in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"schema": 1'])
    def test_what_is_no_such_file_is_one_line(self, tmp_path, content):
        file = tmp_path / "error.json"
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"error\.json"):
            model_error.read(file)
        with pytest.raises(InputError):
            model_error.read(tmp_path / "none.json")
