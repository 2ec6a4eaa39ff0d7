"""The simulated testbed: what of a trial reaches the core, and what comes back."""

from statistics import median
from types import SimpleNamespace

import msgspec
import pytest

from mptune import _core
from mptune.errors import Failure, InputError
from mptune.testbeds import TESTBEDS, create, names
from mptune.topology import TcpBackground, Topology, load
from mptune.trial import FAMILIES, Messages, Requests, ScriptedAction, Trial
from mptune.trial.congestion import PAIRS
from tests.plugins import two_paths, unlike_paths
from tests.plugins.trials import with_workload
from tests.plugins.two_paths import Uplink

SECOND = 1_000_000_000


def trial(topology: Topology, **changes) -> Trial:
    settings = {
        "topology": topology,
        "pm": "fullmesh",
        "cc": "reno",
        "buffer_bytes": 4 << 20,
        "seed": 1,
        "duration_ns": 10 * SECOND,
    }
    return Trial(**with_workload({**settings, **changes}))


@pytest.fixture
def testbed():
    return create("simulated")


@pytest.mark.parametrize("pm", names("path_managers"))
@pytest.mark.parametrize("cc", names("congestion_controls"))
def test_every_combination_delivers_and_its_subflows_add_up(testbed, network, cc, pm):
    observation = testbed.run(trial(network, cc=cc, pm=pm))
    assert observation.failed is None
    assert len(observation.bins) == 100
    assert sum(observation.bins) == observation.in_order_bytes > 0
    # What is still held out of order has been delivered by a subflow, but not in order.
    assert sum(subflow.bytes for subflow in observation.subflows) >= observation.in_order_bytes


@pytest.mark.parametrize("cc", PAIRS)
def test_every_pair_delivers_and_hold_and_quick_hold_a_slow_path(testbed, tmp_path, cc):
    """2 Mbit/s with an RTT of 200 ms would hold up 20 with one of 20 ms; other policies are told nothing."""
    file = tmp_path / "unlike.toml"
    paths = Uplink("Quick", "20 Mbit/s", "20 ms"), Uplink("Slow", "2 Mbit/s", "200 ms")
    file.write_text(two_paths.text(*paths))
    unlike, window = load(file), cc.partition("+")[0]
    alone, held = (
        testbed.run(trial(unlike, cc=name, buffer_bytes=100_000)).in_order_bytes for name in (window, cc)
    )
    # Without weights the shares are equal: the slow path decides.
    fits = {
        "hold": held > 1.5 * alone,
        "quick": held > 1.5 * alone,
        "prefer": held == alone,
        "cap": held == alone,
    }
    assert fits.get(cc.partition("+")[2], held > 0)


def test_quick_gives_messages_the_quick_path_though_the_slow_one_was_first(testbed, tmp_path):
    """Each message is acknowledged before the next, so that the first subflow is as idle as the other."""
    unlike = unlike_paths.network(tmp_path, (20, 80), (20, 20))
    workload = Messages(bytes=200, interval_ns=100_000_000, duration_ns=20_000_000_000)
    delays, rates = {}, {}
    for cc in ("cubic", "cubic+hold", "cubic+quick"):
        common = unlike_paths.trial(unlike, cc, 4_000_000)
        delays[cc] = median(testbed.run(msgspec.structs.replace(common, workload=workload)).delays_ns) / 1e6
        rates[cc] = unlike_paths.mbps(testbed.run(common))
    assert delays["cubic+hold"] == pytest.approx(40, rel=0.02) == delays["cubic"]
    assert delays["cubic+quick"] == pytest.approx(10, rel=0.1)
    assert rates["cubic+quick"] == rates["cubic+hold"]


def test_a_request_acknowledges_the_response_before_it(testbed):
    """So the scheduler finds the quick path idle, and all stays there: 28.6 ms on Linux 7.3."""
    asked = Requests(request_bytes=400, response_bytes=2**16, duration_ns=3 * 10**9)
    network = load("UNIS-HiN")
    observation = testbed.run(
        Trial(topology=network, pm="fullmesh", cc="cubic", buffer_bytes=2**22, seed=1, workload=asked)
    )
    mean_ns = sum(observation.delays_ns) / len(observation.delays_ns)
    assert mean_ns == pytest.approx(28.6e6, rel=0.05)


def test_a_path_policy_is_refused_with_a_scheduler_that_knows_no_rates(testbed, network):
    with pytest.raises(InputError) as refusal:
        testbed.run(trial(network, cc="cubic+hold", scheduler="minrtt"))
    expected = "expected one without a path policy, which only scheduler kernel obeys"
    assert str(refusal.value) == f"--cc: {expected}, found cubic+hold with minrtt"


def test_the_same_trial_gives_the_same_observation(testbed, network):
    assert testbed.run(trial(network)) == testbed.run(trial(network))


@pytest.mark.parametrize("family", FAMILIES)
def test_full_packets_are_as_long_over_either_family(testbed, network, family):
    """Of 1500 bytes 24 are the DSS option's, 32 TCP's with timestamps, 20 or 40 IP's (RFC 791, RFC 8200)."""
    observation = testbed.run(trial(network, pm="default", cc="cubic", family=family))
    full = median(observation.bins[20:]) * 8 / 0.1 / 100e6  # all the time but around a reduction
    header = {"ipv4": 20, "ipv6": 40}[family]
    assert full == pytest.approx((1500 - header - 32 - 24) / 1500, rel=0.002)


def test_binder_has_source_routes_over_ipv4_only(testbed, network):
    """Where routers honour them; the header that IPv6 had for it is deprecated (RFC 5095)."""
    honoured = msgspec.structs.replace(network, lsrr_honoured=True)
    paths = {
        family: {
            subflow.path for subflow in testbed.run(trial(honoured, pm="binder", family=family)).subflows
        }
        for family in FAMILIES
    }
    assert paths == {"ipv4": {"A-X", "B-X", "C-X"}, "ipv6": {"A-X"}}


def test_a_connection_over_both_families_has_subflows_of_both(testbed, network):
    """Each path manager opens what it would over one family, on the paths that have its addresses."""
    paths = {
        (pm, initial): [
            subflow.path
            for subflow in testbed.run(
                trial(network, pm=pm, family="both", initial_path=initial, duration_ns=SECOND)
            ).subflows
        ]
        for pm in ("default", "fullmesh", "ndiffports", "binder", "pcdc")
        for initial in ("A-X", "A-X/6")
    }
    every = ["A-X", "B-X", "C-X", "A-X/6", "B-X/6", "C-X/6"]
    for initial in ("A-X", "A-X/6"):
        assert paths["default", initial] == [initial]
        assert paths["ndiffports", initial] == [initial] * 2
        # Routers ignore source routes.
        assert paths["binder", initial] == [initial] * 3
        for pm in ("fullmesh", "pcdc"):
            assert paths[pm, initial][0] == initial
            assert sorted(paths[pm, initial]) == sorted(every)


def test_two_families_do_not_make_a_link_faster(testbed, network):
    """Both paths of a pair cross its access links, which 1428 of 1480 or of 1500 bytes fill."""
    single = msgspec.structs.replace(network, paths=network.paths[:1])
    observation = testbed.run(trial(single, cc="cubic", family="both", buffer_bytes=8 << 20))
    rate_bps = network.paths[0].rate_bps
    assert {subflow.path for subflow in observation.subflows} == {"A-X", "A-X/6"}
    assert all(subflow.bytes > 0 for subflow in observation.subflows)
    arrived = sum(sum(subflow.bins[20:]) for subflow in observation.subflows) * 8 / 8
    assert 0.9 * rate_bps < arrived < rate_bps * 1404 / 1480 + 1e4


def test_a_given_segment_size_is_that_of_ipv4(testbed, network):
    """So that one stack is one size of packets; the smallest still has room for the DSS option."""
    single = {"pm": "default", "transfer_bytes": 10_000}
    sizes = {"accounting": "payload", "scheduler": "minrtt", "mss": 120}

    def segments(family):
        (subflow,) = testbed.run(trial(network, family=family, **single, **sizes)).subflows
        return subflow.counters["sent"]

    assert segments("ipv4") == -(-10_000 // 120) and segments("ipv6") == -(-10_000 // 100)
    tiny = testbed.run(trial(network, family="ipv6", mss=64, **single))
    assert tiny.failed is None and tiny.in_order_bytes == 10_000


def test_subflows_are_named_by_the_paths_of_the_topology(testbed, network):
    observation = testbed.run(trial(network, initial_path="B-X"))
    assert [subflow.path for subflow in observation.subflows] == ["B-X", "A-X", "C-X"]


def test_only_the_active_subflows_carry_data(testbed, network):
    options = {"active": ("A-X", "C-X"), "standby_order": ("B-X",)}
    carrying = {
        s.path for s in testbed.run(trial(network, pm="pcdc", pm_options=options)).subflows if s.bytes
    }
    assert carrying == {"A-X", "C-X"}


def test_pcdc_sends_a_small_transfer_about_as_fast_as_the_best_single_path_does(testbed):
    """It begins where the measured RTT is the smallest, and stays: a subflow keeps what it was given."""
    hainan = load("UiB-HU")

    def completion_ns(**changes):
        transfer = {"transfer_bytes": 512 * 1024, "buffer_bytes": 2**24}
        return testbed.run(trial(hainan, **transfer, **changes)).completion_ns

    labels = [path.label for path in hainan.paths]
    alone = {label: completion_ns(pm="default", initial_path=label) for label in labels}
    best, worst = min(alone.values()), max(labels, key=lambda label: alone[label])
    measured = {"rtt_ns": {path.label: path.base_rtt_ns for path in hainan.paths}}
    assert completion_ns(pm="pcdc", pm_options=measured) < 1.15 * best
    assert completion_ns(pm="pcdc", initial_path=worst) > 1.2 * best


def test_the_size_of_a_transfer_may_be_unknown(testbed, network):
    """Then PCDC sees only what was sent: one subflow at first, all in the end."""

    def last_begins(size_known):
        transfer = {"transfer_bytes": 4 << 20, "size_known": size_known}
        subflows = testbed.run(trial(network, pm="pcdc", buffer_bytes=2**18, **transfer)).subflows
        return max(next(i for i, sent in enumerate(subflow.bins) if sent) for subflow in subflows)

    assert last_begins(False) > last_begins(True)


@pytest.mark.parametrize("smallest", ["A-X", "B-X", "C-X"])
def test_a_small_transfer_begins_on_the_path_with_the_smallest_measured_rtt(testbed, network, smallest):
    """Whatever the topology's own initial path is."""
    rtts = {label: SECOND if label != smallest else SECOND // 100 for label in ("A-X", "B-X", "C-X")}
    transfer = {"transfer_bytes": 4096}
    observation = testbed.run(trial(network, pm="pcdc", pm_options={"rtt_ns": rtts}, **transfer))
    assert observation.subflows[0].path == smallest
    assert {subflow.path: subflow.bytes for subflow in observation.subflows if subflow.bytes} == {
        smallest: 4096
    }


def test_a_transfer_of_unknown_size_gets_further_subflows_beyond_the_limits_of_its_class(testbed, network):
    """One subflow up to the first limit, two up to the second, then all."""

    def carrying(size: int) -> int:
        transfer = {"transfer_bytes": size, "size_known": False}
        options = {"class_bytes": (100_000, 2_000_000)}
        observations = testbed.run(
            trial(network, pm="pcdc", pm_options=options, buffer_bytes=2**18, **transfer)
        ).subflows
        return sum(subflow.bytes > 0 for subflow in observations)

    assert [carrying(size) for size in (50_000, 1_500_000, 20_000_000)] == [1, 2, 3]


def test_the_script_reaches_its_path_at_its_time(testbed, network):
    script = (ScriptedAction(at_ns=5 * SECOND, path="B-X", action="standby"),)
    subflows = {s.path: s for s in testbed.run(trial(network, script=script)).subflows}
    assert sum(subflows["B-X"].bins[55:]) == 0
    assert sum(subflows["A-X"].bins[55:]) > 0


def test_a_transfer_is_measured_to_its_last_byte(testbed, network):
    observation = testbed.run(trial(network, duration_ns=None, transfer_bytes=100_001))
    assert observation.in_order_bytes == 100_001
    assert observation.completion_ns == observation.duration_ns


def test_an_impossible_transfer_fails_with_its_reason(testbed, network):
    cut = ScriptedAction(at_ns=0, path="A-X", action="down")
    observation = testbed.run(
        trial(network, pm="default", duration_ns=None, transfer_bytes=10**9, deadline_ns=SECOND)
    )
    assert observation.failed.kind == "incomplete"
    assert "not completed within 1.000 s" in observation.failed.reason
    silent = testbed.run(trial(network, pm="default", script=(cut,))).failed
    assert silent == Failure("unreachable", "no byte was delivered")


def test_a_trial_whose_books_contradict_themselves_is_a_failure(testbed, network, monkeypatch):
    reason = "accounting: more receive memory was released than held"

    def broken(spec: bytes) -> bytes:
        outcome = msgspec.json.decode(_core.simulate(spec))
        failure = {
            "failed": reason,
            "failed_kind": "miscounted",
            "completion_ns": None,
            "expected_bytes": None,
        }
        return msgspec.json.encode({**outcome, **failure})

    core = SimpleNamespace(simulate=broken, SpecError=_core.SpecError)
    monkeypatch.setattr("mptune.testbeds.simulated._core", core)
    assert testbed.run(trial(network)).failed == Failure("miscounted", reason)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"buffer_bytes": 1447}, "expected at least one segment of 1448 bytes, found 1447"),
        ({"cc": "tahoe"}, "cc: expected one of reno, cubic"),
        ({"pm": "mesh"}, "pm: expected one of default, fullmesh"),
        ({"scheduler": "fifo"}, "scheduler: expected one of minrtt"),
        ({"duration_ns": 0}, "duration_ns: expected more than 0"),
        ({"initial_path": "Z-X"}, "initial path: expected a path of toy"),
        ({"pm_options": {"active": ("A-X", "Z-X")}, "pm": "pcdc"}, "active: expected a path of toy"),
        ({"pm_options": {"active": "A-X"}, "pm": "pcdc"}, "active: expected a list of path numbers"),
        ({"pm_options": {"activ": ()}, "pm": "pcdc"}, "pm_options: expected one of active, "),
        ({"pm_options": {"ndiffports": 65}, "pm": "ndiffports"}, "ndiffports: expected 1 to 64"),
    ],
)
def test_an_impossible_trial_is_refused_in_one_line(testbed, network, changes, error):
    with pytest.raises(InputError) as refused:
        testbed.run(trial(network, **changes))
    assert error in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_testbed_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=", ".join(TESTBEDS)):
        create("moon")


def test_trials_on_several_threads_disturb_each_other_as_little_as_on_one(testbed):
    from concurrent.futures import ThreadPoolExecutor

    trials = [trial(load("UNIS-HiN"), seed=seed, duration_ns=2 * SECOND) for seed in range(6)]
    alone = [testbed.run(trial) for trial in trials]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(testbed.run, trials)) == alone


def test_a_removed_address_is_silent_until_it_is_added_again(testbed, network):
    script = (
        ScriptedAction(at_ns=3 * SECOND, path="B-X", action="remove"),
        ScriptedAction(at_ns=6 * SECOND, path="B-X", action="add"),
    )
    subflows = {s.path: s for s in testbed.run(trial(network, script=script)).subflows}
    assert sum(subflows["B-X"].bins[35:60]) == 0 < sum(subflows["B-X"].bins[65:])


def test_background_connections_are_observed_and_take_their_share(testbed, network):
    flows = (TcpBackground(path="A-X", cc="cubic"), TcpBackground(path="A-X", cc="reno", start_ns=SECOND))
    shared = msgspec.structs.replace(network, background=flows)
    observation = testbed.run(trial(shared, pm="default"))
    assert [(flow.path, flow.duration_ns) for flow in observation.background] == [
        ("A-X", 10 * SECOND),
        ("A-X", 9 * SECOND),
    ]
    assert all(flow.bytes > 0 for flow in observation.background)
    assert observation.throughput_bps < 0.8 * testbed.run(trial(network, pm="default")).throughput_bps


def test_linux_accounting_is_another_measure_of_a_buffer(testbed, network):
    def throughput(accounting: str) -> float:
        limited = trial(network, buffer_bytes=64 << 10, accounting=accounting)
        return float(testbed.run(limited).throughput_bps)

    assert throughput("linux") != throughput("payload")
    with pytest.raises(InputError, match="accounting: expected one of payload, linux"):
        throughput("windows")


def test_what_the_core_counts_of_a_subflow_comes_back(testbed, network):
    counters = testbed.run(trial(network)).subflows[0].counters
    assert counters["sent"] > 10 * counters["reinjected"] >= 0
