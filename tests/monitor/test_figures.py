"""Rates, losses and limits from reports whose true figures are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import MptuneError
from mptune.monitor.columns import details, role
from mptune.monitor.figures import KEPT, Machine
from mptune.monitor.shape import census
from mptune.monitor.view import Row, View
from tests.monitor.reports import MBYTE, SECOND, connection, report, subflow


def machine(*reports):
    figures = Machine()
    for sample in reports:
        figures.update(census(sample))
    return figures


def test_rates_are_differences_over_the_machines_own_time():
    def at(at_s, acked, received, on_first):
        flows = subflow(1, acked_bytes=on_first + 1), subflow(2, received_bytes=received)
        return report(at_s, connection(1, *flows, acked_bytes=acked, received_bytes=received))

    seen = machine(at(5, 0, 0, 0), at(7, 2 * MBYTE, MBYTE, MBYTE)).connections[0]
    assert (seen.figures.sent_bps, seen.figures.received_bps) == (8e6, 4e6)
    assert seen.figures.rate_bps == 12e6
    assert [subflow.figures.rate_bps for subflow in seen.subflows] == [4e6, 4e6]
    assert list(seen.figures.course) == [12e6]


def test_what_needs_two_reports_is_not_known_after_one():
    connection_seen = machine(report(1, connection())).connections[0]
    assert (
        connection_seen.figures.rate_bps is None
        and connection_seen.limit is None
        and connection_seen.figures.loss is None
    )
    assert list(connection_seen.figures.course) == []


def test_a_connection_without_counters_has_those_of_its_subflows():
    def at(at_s, first, second):
        flows = subflow(1, acked_bytes=first), subflow(2, acked_bytes=second)
        return report(at_s, connection(1, *flows, acked_bytes=None, received_bytes=None))

    assert machine(at(1, 0, 0), at(2, MBYTE, 2 * MBYTE)).connections[0].figures.sent_bps == 24e6


def test_another_connection_with_the_same_token_begins_anew():
    other = connection(1, local="10.0.1.2:50000", acked_bytes=9 * MBYTE)
    seen = machine(report(1, connection(1)), report(2, other)).connections[0]
    assert seen.figures.rate_bps is None


def test_another_subflow_between_the_same_ends_begins_anew():
    first = connection(1, subflow(busy_ns=5 * SECOND, acked_bytes=5 * MBYTE))
    second = connection(1, subflow(busy_ns=SECOND, acked_bytes=6 * MBYTE))
    assert machine(report(1, first), report(2, second)).connections[0].subflows[0].figures.rate_bps is None


def test_losses_are_the_retransmitted_part():
    def at(at_s, acked, again):
        flow = subflow(acked_bytes=acked, retransmitted_bytes=again)
        return report(at_s, connection(1, flow, acked_bytes=acked))

    seen = machine(at(1, 0, 0), at(2, 900_000, 50_000), at(3, 1_900_000, 100_000)).connections[0]
    assert seen.subflows[0].figures.loss == seen.figures.loss == pytest.approx(0.05)


def test_the_course_is_not_kept_for_ever():
    reports = [report(at, connection(1, acked_bytes=at)) for at in range(1, 3 * KEPT)]
    assert len(machine(*reports).connections[0].figures.course) == KEPT


LIMITS = [
    ({"busy_ns": SECOND, "rwnd_limited_ns": 6 * SECOND // 10}, "window"),
    ({"busy_ns": SECOND, "sndbuf_limited_ns": 6 * SECOND // 10}, "buffer"),
    ({"busy_ns": SECOND, "rwnd_limited_ns": SECOND // 10}, "path"),
    ({"busy_ns": SECOND // 5, "rwnd_limited_ns": SECOND // 5}, "idle"),
    ({"busy_ns": SECOND // 5, "held": True}, "held"),
    ({"busy_ns": SECOND, "held": True}, "path"),
    ({"busy_ns": 0, "received_bytes": MBYTE, "held": True}, "receiving"),
    ({"busy_ns": 0, "received_bytes": MBYTE}, "receiving"),
    ({"busy_ns": SECOND, "received_bytes": MBYTE}, "path"),
    ({"busy_ns": None}, None),
]


@pytest.mark.parametrize(("after", "limit"), LIMITS, ids=lambda value: str(value))
def test_the_limit_is_what_took_most_of_the_time(after, limit):
    seen = machine(report(1, connection()), report(2, connection(1, subflow(**after)))).connections[0]
    assert seen.subflows[0].figures.limit == seen.limit == limit


counters = st.integers(0, 2**63)


@given(st.lists(st.tuples(counters, counters, counters, counters), min_size=1, max_size=5))
def test_no_course_of_counters_gives_a_negative_figure(courses):
    reports = [
        report(at, connection(1, subflow(acked_bytes=acked, busy_ns=busy, retransmitted_bytes=again)))
        | {"at_ns": stamp}
        for at, (acked, busy, again, stamp) in enumerate(courses)
    ]
    seen = machine(*reports).connections[0]
    for figures in (seen.figures, seen.subflows[0].figures):
        assert figures.rate_bps is None or figures.rate_bps >= 0
        assert figures.loss is None or 0 <= figures.loss <= 1


def test_the_role_of_a_connection_is_how_many_subflows_have_which():
    flows = subflow(1), subflow(2, backup=True), subflow(3, backup=None)
    seen = machine(report(1, connection(1, *flows))).connections[0]
    assert (seen.active, seen.standby, seen.rtt_ns) == (1, 1, 20_000_000)


def test_a_subflow_that_nobody_answers_is_neither_active_nor_standby():
    silent = {"timeouts_in_a_row": 4, "silent_ns": 12 * SECOND, "unacked": 3}
    flows = (
        subflow(1),
        subflow(2, **silent),
        subflow(3, backup=True, **silent),
        subflow(4, timeouts_in_a_row=2),
    )
    here = machine(report(1, connection(1, *flows)))
    seen = here.connections[0]
    assert (seen.active, seen.standby, seen.lost) == (2, 0, 2)
    view = View()
    view.open_all()
    connection_row, *rows = view.rows([here])
    assert [role(row).text for row in (connection_row, *rows)] == [
        "2 of 4",
        "active",
        "lost",
        "lost",
        "active",
    ]
    assert "no answer for 12 s, 4 timeouts in a row" in details(rows[1])[-1]
    assert "no answer" not in details(rows[0])[-1]
    view.text = "lost"
    assert len(view.rows([here])) == 5


def test_what_is_no_report_is_refused():
    with pytest.raises(MptuneError, match=r"report of connections: .*at_ns"):
        census({"event": "connections"})
    assert census(report(1, connection(1, subflow(news=1), novelty=2))).at_ns == SECOND


@pytest.mark.parametrize(
    ("cc", "siblings", "why"),
    [
        (
            "cubic_hold",
            [{"delivery_rate_bps": 18_000_000}, {"delivery_rate_bps": 9_000_000, "min_rtt_ns": 50_000_000}],
            "held: would block 18.0 Mbit/s for 40.0 ms; acknowledged",
        ),
        # It goes by what was, the reason by what is.
        ("cubic_hold", [{"delivery_rate_bps": 18_000_000, "held": True}], "held; acknowledged"),
        ("cubic_prefer", [{}], "held: paths before it have room; acknowledged"),
        ("cubic_quick", [{"rtt_ns": 9_000_000}], "held: 40.0 ms, another path takes 9.00 ms; acknowledged"),
        ("cubic_quick", [{"rtt_ns": 50_000_000, "delivery_rate_bps": 0}], "held; acknowledged"),
    ],
)
def test_a_held_subflow_has_a_reason(cc, siblings, why):
    flows = [subflow(1, **siblings[0]), subflow(2, held=True, cc=cc)]
    flows += [subflow(3, **other) for other in siblings[1:]]
    here = machine(report(1, connection(1, *flows)))
    (seen,) = here.connections
    reasons = [details(Row(here, seen, flow))[-1] for flow in seen.subflows]
    assert reasons[1].startswith(why) and all(text.startswith("acknowledged") for text in reasons[2:])
