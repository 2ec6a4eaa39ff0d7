"""Rows of the view: which there are, in which order, with which text."""

import pytest

from mptune.monitor.columns import COLUMNS, details, layout, rate, safe_cell, sparkline
from mptune.monitor.figures import Machine
from mptune.monitor.shape import census
from mptune.monitor.view import SORTS, View
from tests.monitor.reports import MBYTE, connection, report, subflow


@pytest.fixture
def busy():
    """Four connections: 1 is fast, 2 slow with losses, 3 fell back, 4 is idle and not known well."""

    def at(at_s):
        slow = subflow(2, acked_bytes=at_s * 9000, retransmitted_bytes=at_s * 1000, rtt_ns=90_000_000)
        unknown = dict.fromkeys(("backup", "device", "cc", "rtt_ns", "local_id", "cwnd", "busy_ns"))
        return report(
            at_s,
            connection(
                1,
                subflow(1, acked_bytes=at_s * MBYTE),
                subflow(2, backup=True),
                acked_bytes=at_s * MBYTE,
                command="rsync",
            ),
            connection(2, slow, acked_bytes=at_s * 9000, remote="10.9.0.7:80"),
            connection(3, subflow(3), fallback=True, command=None, pid=None),
            connection(4, subflow(1) | unknown, family="ipv6", remote="[fd65::1]:443", command="a\x1b[2Jb"),
        )

    machine = Machine()
    machine.update(census(at(1)))
    return machine.update(census(at(2)))


def tokens(view, *machines):
    return [row.connection.now.token for row in view.rows(machines) if row.subflow is None]


def cells(row, width=200):
    return {column.title: safe_cell(column, row).text for column, _ in layout(width)}


def test_the_fastest_come_first_and_idle_ones_stay_in_order(busy):
    view = View()
    assert tokens(view, busy) == [1, 2, 3, 4]
    view.turned = True
    assert tokens(view, busy)[-2:] == [2, 1]


@pytest.mark.parametrize(
    ("sort", "first"), [("RTT", 2), ("losses", 2), ("subflows", 1), ("bytes", 1), ("name", 4)]
)
def test_each_order_has_its_first(busy, sort, first):
    view = View()
    view.sort = sort
    assert tokens(view, busy)[0] == first


def test_all_orders_come_round():
    view = View()
    assert [view.next_sort() for _ in SORTS] == [*list(SORTS)[1:], "rate"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [1, 2, 3, 4]),
        ("RSYNC", [1]),
        ("standby", [1]),
        ("fallback", [3]),
        ("eth2 curl", [2]),
        ("curl eth2", [2]),
        ("fd65", [4]),
        (":80", [2]),
        ("77", [1, 2, 4]),
        ("eth2 nothing", []),
    ],
)
def test_all_words_of_the_filter_are_in_the_connection(busy, text, expected):
    view = View()
    view.text = text
    assert tokens(view, busy) == expected


def test_pinned_ones_stay_at_the_top_whatever_the_filter(busy):
    view = View()
    view.pin(view.rows([busy])[2])
    assert tokens(view, busy) == [3, 1, 2, 4]
    view.text = "rsync"
    assert tokens(view, busy) == [3, 1]
    view.pin(view.rows([busy])[0])
    assert tokens(view, busy) == [1]


def test_connections_open_to_their_subflows(busy):
    view = View()
    view.open(view.rows([busy])[0])
    rows = view.rows([busy])
    assert [row.subflow is not None for row in rows[:4]] == [False, True, True, False]
    view.open(rows[1])  # from a subflow its connection is closed
    assert len(view.rows([busy])) == 4
    assert view.open_all() and len(view.rows([busy])) == 9
    view.open(view.rows([busy])[0], state=False)
    assert len(view.rows([busy])) == 7
    assert not view.open_all() and len(view.rows([busy])) == 4


def test_rows_of_several_machines_are_distinguished(busy):
    other = Machine("there").update(census(report(1, connection(1))))
    rows = View().rows([busy, other])
    assert len({row.key for row in rows}) == 5
    assert [cells(row)["connection"] for row in rows if row.machine is other] == [
        "+ there: curl > 10.9.0.1:443"
    ]


def test_a_row_has_what_is_known(busy):
    view = View()
    view.open_all()
    rows = {row.key[1:]: cells(row) for row in view.rows([busy])}
    fast = rows[(1,)]
    assert fast["connection"] == "- rsync > 10.9.0.1:443"
    assert (fast["Mbit/s"], fast["role"], fast["sent"]) == ("8.00", "1+1", "2.0 MB")
    assert fast["course"].endswith("█")
    assert rows[(2,)]["loss %"] == "10.0"
    assert (rows[(3,)]["role"], rows[(3,)]["pid"]) == ("TCP", "-")
    standby = rows[(1, "10.0.2.2:40002", "10.9.0.1:443")]
    assert (standby["role"], standby["limit"], standby["RTT ms"]) == ("standby", "idle", "40.0")
    assert standby["connection"].strip() == "eth2 10.0.2.2 > 10.9.0.1"


def test_what_is_not_known_is_a_dash_and_programs_cannot_control_the_terminal(busy):
    view = View()
    view.text = "fd65"
    view.open_all()
    connection_row, flow = view.rows([busy])
    assert cells(connection_row)["connection"] == r"- a\x1b[2Jb > [fd65::1]:443"
    texts = cells(flow)
    assert {texts[title] for title in ("RTT ms", "role", "limit", "cc", "cwnd", "loss %")} == {"-"}
    assert "\x1b" not in "".join([*details(connection_row), *details(flow)])


@pytest.mark.parametrize("width", [40, 80, 91, 92, 120, 146, 300])
def test_the_columns_fill_the_screen(width):
    columns = layout(width)
    total = sum(size for _, size in columns) + len(columns) - 1
    assert total == width or width < 62
    assert len(columns) == sum(column.from_width <= width for column in COLUMNS)
    if width >= 80:
        assert columns[0][1] >= 25


def test_sparklines_are_relative_to_their_largest_and_show_what_is_little():
    assert sparkline([], 4) == sparkline([0, 0], 4) == "    "
    assert sparkline([0, 1, 50, 100], 6) == "   ▁▄█"
    assert len(sparkline(range(100), 10)) == 10


@pytest.mark.parametrize(
    ("bps", "text"),
    [(None, "-"), (0, "0"), (1234, "0.00"), (9.99e6, "9.99"), (1e7, "10.0"), (2.5e9, "2500")],
)
def test_rates_have_three_digits(bps, text):
    assert rate(bps) == text
