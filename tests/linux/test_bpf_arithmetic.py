"""The arithmetic of the BPF congestion controls against their formulas in floating point.

The very sources of bpf/congestion, compiled for the host and called on a made-up connection (bpf/tests/host).
What the kernel makes of their answers is tested in tests/kernel.
"""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.plugins.needs import compiler

pytestmark = pytest.mark.needs("compiler")

BPF = Path(__file__).parents[2] / "bpf"
#: So many segments acknowledged at once: growth is counted in whole segments, so the more the more exact.
MANY = 1 << 20
RECOVERY = 3  # TCP_CA_Recovery

Build = Callable[[str], Any]


class Subflow(NamedTuple):
    """A subflow as a coupled algorithm sees it."""

    cwnd: int
    rtt_us: int
    between: int = 0  # segments delivered between the last two losses
    since: int = 0  # and since then

    @property
    def rate(self) -> float:
        return self.cwnd / self.rtt_us

    @property
    def quality(self) -> float:
        return max(self.between, self.since) / self.rtt_us**2


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles an algorithm by its name, once."""
    made: dict[str, Any] = {}
    folder = tmp_path_factory.mktemp("bpf")

    def build(name: str) -> Any:
        if name not in made:
            library = folder / f"{name}.so"
            options = ["-shared", "-fPIC", "-O1", "-Wno-unknown-pragmas", "-Wno-attributes"]
            algorithm = ["-include", str(BPF / f"congestion/{name}.h"), f"-DALGORITHM={name}"]
            folders = [f"-I{BPF / 'tests/host'}", f"-I{BPF / 'include'}"]
            source = str(BPF / "tests/host/host.c")
            command = [str(compiler()), *options, *algorithm, *folders, source, "-o", str(library)]
            subprocess.run(command, check=True)
            made[name] = ctypes.CDLL(str(library))
            for function in ("window", "threshold", "lose"):
                getattr(made[name], function).restype = ctypes.c_uint32
        return made[name]

    return build


def connect(algorithm: Any, subflows: Sequence[Subflow]) -> None:
    """A connection of these subflows in congestion avoidance."""
    algorithm.begin_connection(len(subflows))
    for number, subflow in enumerate(subflows):
        algorithm.establish(number)
        algorithm.set_rtt(number, subflow.rtt_us * 8)
        algorithm.set_delivered(number, subflow.between)
        if subflow.between:
            algorithm.lose(number)
        algorithm.set_delivered(number, subflow.between + subflow.since)
    for number, subflow in enumerate(subflows):
        algorithm.set_window(number, subflow.cwnd, 1)


def growth(algorithm: Any, subflows: Sequence[Subflow], me: int, acked: int = MANY) -> int:
    """Segments that so many acknowledged ones add to the window of subflow `me`."""
    connect(algorithm, subflows)
    algorithm.acknowledge(me, acked, 1, 100)
    return int(algorithm.window(me)) - subflows[me].cwnd


def assert_growth(grown: int, per_segment: float, cwnd: int, tolerance: float = 2e-3) -> None:
    """Windows stay at one segment or above."""
    expected = max(per_segment * MANY, 1 - cwnd)
    assert abs(grown - expected) <= 1 + tolerance * abs(expected), f"{grown} and not {expected}"


def linked(subflows: Sequence[Subflow], me: int) -> float:
    """(w_r / rtt_r^2) / (sum of w_p / rtt_p)^2, per acknowledged segment."""
    mine = subflows[me]
    return mine.rate / mine.rtt_us / sum(subflow.rate for subflow in subflows) ** 2


def alpha(subflows: Sequence[Subflow], me: int) -> float:
    """OLIA's alpha of subflow `me`: draft-khalili-mptcp-congestion-control-05 section 3."""
    largest = max(subflow.cwnd for subflow in subflows)
    best = max(subflow.quality for subflow in subflows)
    large = [subflow.cwnd == largest for subflow in subflows]
    pairs = zip(subflows, large, strict=True)
    collected = [subflow.quality == best and not is_large for subflow, is_large in pairs]
    if not any(collected):
        return 0.0
    if collected[me]:
        return 1 / (len(subflows) * sum(collected))
    return -1 / (len(subflows) * sum(large)) if large[me] else 0.0


# RTTs are powers of two apart, so that qualities are exact and ties are ties.
olia_subflows = st.lists(
    st.builds(
        Subflow,
        cwnd=st.integers(2, 30_000) | st.sampled_from([100, 200]),
        rtt_us=st.sampled_from([12_500 << shift for shift in range(6)]),
        between=st.integers(0, 100_000),
        since=st.integers(0, 100_000) | st.just(0),
    ),
    min_size=2,
    max_size=9,
)


@st.composite
def any_subflows(draw):
    """Subflows without losses, one of them, and how exact the fixed-point arithmetic is with them.

    Windows up to 1.5 GB and 32 subflows, which is as far as it reaches. A ratio of RTTs is in units of 2^-16:
    one of 1/32 is exact to 1/2000, one of 1/1000 to 1/65. It enters two or three times.
    """
    longest_rtt_us, tolerance = draw(st.sampled_from([(32_000, 5e-3), (1_000_000, 5e-2)]))
    subflow = st.builds(
        Subflow,
        cwnd=st.integers(1, 1 << 20),
        rtt_us=st.integers(1_000, longest_rtt_us),
        between=st.just(0),
        since=st.just(0),
    )
    subflows = draw(st.lists(subflow, min_size=2, max_size=32))
    return subflows, draw(st.integers(0, len(subflows) - 1)), tolerance


@given(subflows=olia_subflows, data=st.data())
def test_olia_grows_by_the_linked_increase_and_alpha(build, subflows, data) -> None:
    me = data.draw(st.integers(0, len(subflows) - 1))
    expected = linked(subflows, me) + alpha(subflows, me) / subflows[me].cwnd
    assert_growth(growth(build("olia"), subflows, me), expected, subflows[me].cwnd)


@given(case=any_subflows())
def test_olia_grows_so_within_the_bounds_of_its_arithmetic(build, case) -> None:
    subflows, me, tolerance = case
    expected = linked(subflows, me) + alpha(subflows, me) / subflows[me].cwnd
    assert_growth(growth(build("olia"), subflows, me), expected, subflows[me].cwnd, tolerance)


@given(case=any_subflows())
def test_lia_grows_by_equation_1_of_its_rfc(build, case) -> None:
    subflows, me, tolerance = case
    total = sum(subflow.rate for subflow in subflows)
    best = max(subflow.rate / subflow.rtt_us for subflow in subflows)
    expected = min(best / total**2, 1 / subflows[me].cwnd)
    assert_growth(growth(build("lia"), subflows, me), expected, subflows[me].cwnd, tolerance)


@given(case=any_subflows())
def test_balia_grows_and_shrinks_as_in_its_draft(build, case) -> None:
    subflows, me, tolerance = case
    cwnd = subflows[me].cwnd
    ratio = max(subflow.rate for subflow in subflows) / subflows[me].rate
    assume(ratio < 1 << 14)  # where alpha ends
    expected = linked(subflows, me) * (1 + ratio) / 2 * (4 + ratio) / 5
    assert_growth(growth(build("balia"), subflows, me), expected, cwnd, tolerance)
    connect(build("balia"), subflows)
    reduced = max(cwnd - cwnd / 2 * min(ratio, 1.5), 1)
    assert abs(build("balia").lose(me) - reduced) <= 1 + tolerance * cwnd


@pytest.mark.parametrize("name", ["olia", "lia", "balia"])
@pytest.mark.parametrize("subflows", [0, 1], ids=["plain TCP", "one subflow"])
def test_alone_it_is_reno(build, name, subflows) -> None:
    algorithm = build(name)
    algorithm.begin_connection(subflows)
    algorithm.set_rtt(0, 400_000)
    algorithm.establish(0)
    for _ in range(90):
        algorithm.acknowledge(0, 1, 1, 100)
    assert algorithm.window(0) == 100  # slow start
    algorithm.set_window(0, 50, 50)
    for _ in range(50 + 51):
        algorithm.acknowledge(0, 1, 1, 100)
    assert algorithm.window(0) == 52
    assert algorithm.lose(0) == 26
    algorithm.set_window(0, 3, 3)
    assert algorithm.lose(0) == 2


@pytest.mark.parametrize("name", ["olia", "lia", "balia"])
@pytest.mark.parametrize(
    "role", [(1, 0, 1), (0, 1, 1), (0, 0, 0)], ids=["standby", "stale", "not established"]
)
def test_a_subflow_that_carries_nothing_does_not_count(build, name, role) -> None:
    algorithm = build(name)
    pair = [Subflow(100, 50_000), Subflow(100, 50_000)]
    together = growth(algorithm, [*pair, Subflow(900, 5_000)], 0)
    connect(algorithm, [*pair, Subflow(900, 5_000)])
    algorithm.set_role(2, *role)
    algorithm.acknowledge(0, MANY, 1, 100)
    assert algorithm.window(0) - 100 == growth(algorithm, pair, 0) != together


@pytest.mark.parametrize("name", ["olia", "lia", "balia"])
def test_standby_subflows_that_carry_data_are_coupled_among_themselves(build, name) -> None:
    algorithm = build(name)
    pair = [Subflow(100, 50_000), Subflow(100, 50_000)]
    connect(algorithm, [Subflow(900, 5_000), *pair])
    for standby in (1, 2):
        algorithm.set_role(standby, 1, 0, 1)
    algorithm.acknowledge(1, MANY, 1, 100)
    assert algorithm.window(1) - 100 == growth(algorithm, pair, 0)


@pytest.mark.parametrize("name", ["olia", "lia", "balia"])
def test_a_subflow_in_recovery_counts_with_its_threshold(build, name) -> None:
    algorithm = build(name)
    subflows = [Subflow(100, 50_000), Subflow(300, 50_000)]
    connect(algorithm, subflows)
    algorithm.set_window(1, 17, 300)
    algorithm.change_state(1, RECOVERY)
    algorithm.acknowledge(0, MANY, 1, 100)
    assert algorithm.window(0) - 100 == growth(algorithm, subflows, 0)


@pytest.mark.parametrize("name", ["olia", "lia", "balia"])
def test_an_unused_window_does_not_grow(build, name) -> None:
    algorithm = build(name)
    connect(algorithm, [Subflow(100, 50_000), Subflow(100, 50_000)])
    algorithm.set_limited(0, 0)
    algorithm.acknowledge(0, MANY, 1, 100)
    assert algorithm.window(0) == 100


@pytest.mark.parametrize("name", ["lia", "balia"])
def test_the_growth_is_computed_once_per_window_and_after_congestion(build, name) -> None:
    algorithm = build(name)
    slow, fast = (
        growth(algorithm, [Subflow(100, 50_000)] * 2, 0),
        growth(algorithm, [Subflow(100, 50_000)], 0),
    )
    assert slow < fast
    connect(algorithm, [Subflow(100, 50_000)] * 2)

    def grown(una: int) -> int:
        algorithm.set_window(0, 100, 1)
        algorithm.acknowledge(0, MANY, una, una + 50)
        return int(algorithm.window(0)) - 100

    first = grown(1)
    algorithm.set_window(1, 400, 1)
    assert abs(grown(20) - first) <= 1
    later = grown(51)
    assert later < first - 1
    algorithm.set_window(1, 100, 1)
    algorithm.change_state(0, RECOVERY)
    algorithm.change_state(0, 0)
    assert abs(grown(60) - first) <= 1


def test_the_fraction_of_a_segment_is_kept_from_ack_to_ack(build) -> None:
    algorithm = build("olia")
    subflows = [Subflow(1_000, 50_000)] * 4
    connect(algorithm, subflows)
    for _ in range(20_000):
        algorithm.acknowledge(0, 1, 1, 100)
    # The fork's 1/1024 segment per ACK would have lost 1000 / 4000^2 = 1/16000 each time.
    assert algorithm.window(0) == 1_001


def test_a_shrinking_window_stays_in_congestion_avoidance_and_above_zero(build) -> None:
    algorithm = build("olia")
    subflows = [Subflow(20, 50_000, between=10), Subflow(10, 50_000, between=100)]
    connect(algorithm, subflows)
    algorithm.set_window(0, 20, 20)
    algorithm.acknowledge(0, MANY, 1, 100)
    assert (algorithm.window(0), algorithm.threshold(0)) == (1, 1)


@pytest.mark.parametrize("name", ["olia", "balia"])
def test_coupled_subflows_may_go_down_to_one_segment(build, name) -> None:
    connect(build(name), [Subflow(2, 50_000), Subflow(2, 50_000)])
    assert build(name).lose(0) == 1


def test_sequence_numbers_and_counts_wrap(build) -> None:
    algorithm = build("olia")
    algorithm.begin_connection(2)
    for number in (0, 1):
        algorithm.set_rtt(number, 400_000)
        algorithm.set_delivered(number, 0xFFFFFFF0)
        algorithm.establish(number)
        algorithm.set_window(number, 20 - 10 * number, 1)
    algorithm.set_delivered(1, 0x10)  # 32 segments further: the better path, and the smaller
    algorithm.acknowledge(1, 10, 1, 100)
    linked_increase, per_window = 10 / 30**2, 1 / 2 / 10
    assert algorithm.window(1) == 10 + int(10 * (linked_increase + per_window))


@pytest.mark.parametrize(("rtt_ms", "rho"), [(10, 1.0), (25, 1.0), (40, 1.5), (100, 4.0), (400, 16.0)])
def test_hybla_grows_as_a_flow_of_25_ms_would(build, rtt_ms, rho) -> None:
    hybla = build("hybla")
    hybla.begin_connection(0)
    hybla.set_rtt(0, rtt_ms * 8_000)
    hybla.establish(0)
    start = hybla.window(0)
    assert start == int(rho)
    hybla.acknowledge(0, 1, 1, 100)
    # The power of two is cut to 1/128 and the window to 65535 segments.
    assert hybla.window(0) == pytest.approx(min(start + 2**rho - 1, 65_535), abs=1.01)
    hybla.set_window(0, 200, 200)
    for _ in range(200):
        hybla.acknowledge(0, 1, 1, 100)
    # rho^2 / w per ACK: w^2 grows by 2 rho^2. The increment is cut to 1/128.
    assert hybla.window(0) == pytest.approx((200**2 + 2 * 200 * rho**2) ** 0.5, abs=2)
    assert hybla.lose(0) == hybla.window(0) // 2


def test_hybla_above_128_rho_squared_still_gains_a_segment_per_window(build) -> None:
    hybla = build("hybla")
    hybla.begin_connection(0)
    hybla.set_rtt(0, 25 * 8_000)
    hybla.establish(0)
    hybla.set_window(0, 1_000, 1_000)
    for _ in range(1_000):
        hybla.acknowledge(0, 1, 1, 100)
    assert hybla.window(0) == 1_001


def test_scalable_gains_a_hundredth_and_gives_up_an_eighth(build) -> None:
    scalable = build("scalable")
    scalable.begin_connection(0)
    for cwnd, gained in ((1_000, 10), (50, 1)):
        scalable.set_window(0, cwnd, cwnd)
        for _ in range(cwnd):
            scalable.acknowledge(0, 1, 1, 100)
        assert scalable.window(0) == cwnd + gained
    for cwnd, threshold in ((800, 700), (9, 8), (7, 7), (1, 2)):
        scalable.set_window(0, cwnd, cwnd)
        assert scalable.lose(0) == threshold


BASE_US = 40_000


def after_a_round(algorithm: Any, cwnd: int, queued: float, ssthresh: int = 1, samples: int = 3) -> int:
    """Window of a lone flow after a round in which so many segments were queued behind the base RTT."""
    algorithm.begin_connection(0)
    algorithm.establish(0)
    algorithm.sample(0, BASE_US - 1)
    algorithm.acknowledge(0, 1, 1, 1_000)
    algorithm.set_window(0, cwnd, ssthresh)
    for _ in range(samples):
        algorithm.sample(0, round(BASE_US * (1 + queued / cwnd)) - 1)
    algorithm.acknowledge(0, 1, 1_001, 2_000)
    return int(algorithm.window(0))


@pytest.mark.parametrize(
    ("queued", "change"), [(0.0, 1), (1.5, 1), (2.5, 0), (4.5, 0), (5.5, -1), (20.0, -1)]
)
def test_vegas_keeps_two_to_four_segments_queued(build, queued, change) -> None:
    assert after_a_round(build("vegas"), 100, queued) == 100 + change


def test_vegas_ends_slow_start_with_what_arrived(build) -> None:
    infinite = 0x7FFFFFFF
    assert after_a_round(build("vegas"), 100, 1.0, infinite) == 101
    assert after_a_round(build("vegas"), 100, 25.0, infinite) == 81  # 100 / 1.25 + 1
    assert not build("vegas").window(0) < build("vegas").threshold(0)


def test_vegas_trusts_no_round_of_few_samples(build) -> None:
    assert after_a_round(build("vegas"), 100, 20.0, samples=2) == 100


def test_vegas_forgets_the_round_after_a_recovery(build) -> None:
    vegas = build("vegas")
    after_a_round(vegas, 100, 0.0)
    for _ in range(3):
        vegas.sample(0, 2 * BASE_US)
    vegas.change_state(0, RECOVERY)
    vegas.change_state(0, 0)
    vegas.set_window(0, 100, 1)
    vegas.acknowledge(0, 1, 2_001, 3_000)
    assert vegas.window(0) == 100  # half of the window would be queued otherwise


@pytest.mark.parametrize(("cwnds", "share"), [((300, 100, 100), 6), ((100, 300, 100), 2), ((100, 100), 5)])
def test_wvegas_keeps_its_share_of_ten_segments_queued(build, cwnds, share) -> None:
    wvegas = build("wvegas")
    for queued, change in ((share - 0.5, 1), (share + 0.5, 0), (share + 1.5, -1)):
        wvegas.begin_connection(len(cwnds))
        for number, cwnd in enumerate(cwnds):
            wvegas.establish(number)
            wvegas.set_rtt(number, BASE_US * 8)
            wvegas.set_window(number, cwnd, 1)
        wvegas.sample(0, BASE_US - 1)
        wvegas.acknowledge(0, 1, 1, 1_000)
        # Twice, since what it keeps before it has had its share is two.
        for una in (1_001, 2_001):
            wvegas.set_window(0, cwnds[0], 1)
            for _ in range(1_000):
                wvegas.sample(0, round(BASE_US / (1 - queued / cwnds[0])) - 1)
            wvegas.acknowledge(0, 1, una, una + 999)
        assert wvegas.window(0) - cwnds[0] == change, queued


def test_wvegas_drains_a_queue_that_doubled(build) -> None:
    wvegas = build("wvegas")
    wvegas.begin_connection(0)
    wvegas.establish(0)
    wvegas.sample(0, BASE_US - 1)
    wvegas.acknowledge(0, 1, 1, 1_000)
    windows = []
    for una, delay in ((1_001, BASE_US // 10), (2_001, BASE_US // 5)):
        wvegas.set_window(0, 60, 1)
        for _ in range(3):
            wvegas.sample(0, BASE_US + delay - 1)
        wvegas.acknowledge(0, 1, una, una + 999)
        windows.append(wvegas.window(0))
    assert windows[0] in (59, 60, 61)
    assert windows[1] == pytest.approx(60 / 2.4, abs=1)


@given(begun=st.integers(0, 2**32 - 1), age_us=st.integers(0, 2**32 - 1))
def test_a_period_ends_whenever_it_began(build, begun, age_us):
    """The clock wraps after 71 minutes: a first period, which begins at 0, once lasted up to 35 of them."""
    program = build("scalable")
    assert program.next_period(begun, (begun + age_us) % 2**32, 2_000_000) == (age_us >= 2_000_000)
    # From any time on, what began at 0 is over within a period.
    assert any(program.next_period(0, (begun + later) % 2**32, 2_000_000) for later in (0, 2_000_000))
