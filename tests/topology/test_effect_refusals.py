"""Bad effects: each ends in one line with file, key and what was expected; and nothing else ever happens."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.topology import Topology, _load
from mptune.topology._schema import InterfaceTable, SegmentTable, SourcedTable, TcpTable, UdpTable

Given = Callable[..., Topology]

STEPS = 'schedule = [{{ at = "1 s", {} }}, {{ at = "2 s", {} }}]'


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ('trace_down = "lte.trace"', "trace_down", "either down or trace_down, found both"),
        ('bucket_up = "5 Mbit/s"', "bucket_up", "expected a table, found text"),
        ('bucket_up = { rate = "5 Mbit/s" }', "bucket_up.burst", "expected, but missing"),
        ('bucket_up = { rate = "99 bit/s", burst = "1 MB" }', "bucket_up.rate", "at least 100 bit/s"),
        ('bucket_up = { rate = "5 Mbit/s", burst = "1 kB" }', "bucket_up.burst", "one packet of 1500 bytes"),
        ('discipline = "pie"', "discipline", "one of droptail, red, codel, fq_codel, step, found 'pie'"),
        ("discipline = 3", "discipline", 'text such as "fq_codel" or a table with kind, found 3'),
        ("discipline_up = { ecn = true }", "discipline_up.kind", "expected, but missing"),
        ('discipline_up = { kind = "pie" }', "discipline_up.kind", "one of droptail, red"),
        ('discipline_up = { kind = "droptail", ecn = true }', "discipline_up.ecn", "unknown key"),
        ('discipline_up = { kind = "codel", queues = 4 }', "discipline_up.queues", "unknown key"),
        ('discipline_up = { kind = "codel", ecn = "yes" }', "discipline_up.ecn", "true or false"),
        ('discipline_up = { kind = "codel", target = "0 ms" }', "discipline_up.target", "more than 0"),
        (
            'discipline_up = { kind = "codel", target = "1 s", interval = "1 s" }',
            "discipline_up.interval",
            "more",
        ),
        ('discipline_up = { kind = "codel", interval = "101 s" }', "discipline_up.interval", "at most 100 s"),
        ('discipline_up = { kind = "fq_codel", queues = 0 }', "discipline_up.queues", "1 to 65536, found 0"),
        ('discipline_up = { kind = "fq_codel", queues = true }', "discipline_up.queues", "a whole number"),
        ('discipline_up = { kind = "fq_codel", quantum = "255 B" }', "discipline_up.quantum", "256 to 65536"),
        (
            'discipline_up = { kind = "red", min = "9 kB", max = "9 kB" }',
            "discipline_up.max",
            "more than min",
        ),
        ('discipline_up = { kind = "red", max = "1 GiB" }', "discipline_up.max", "at most the queue's limit"),
        ('discipline_up = { kind = "red", weight = "0" }', "discipline_up.weight", "more than 0"),
        (
            'discipline_up = { kind = "red", probability = "101 %" }',
            "discipline_up.probability",
            "0 and 100 %",
        ),
        (
            'discipline_up = { kind = "step", mark = "1 GiB" }',
            "discipline_up.mark",
            "less than the queue's limit",
        ),
        ('discipline = "red"\ndiscipline_up = "red"', "discipline", "either discipline or discipline_up"),
        ('duplicate = "1 %"\nduplicate_down = "1 %"', "duplicate", "either duplicate or duplicate_up"),
        ('gilbert_elliott = { enter = "1 %" }', "gilbert_elliott.leave", "expected, but missing"),
        ('gilbert_elliott = { enter = "1 %", leave = "0 %" }', "gilbert_elliott.leave", "more than 0"),
        ('gilbert_elliott = { enter = "101 %", leave = "1 %" }', "gilbert_elliott.enter", "0 and 100 %"),
        ('gilbert_elliott = { enter = "-1 %", leave = "1 %" }', "gilbert_elliott.enter", "not negative"),
        (
            'gilbert_elliott = { enter = "1 %", leave = "1 %", good_loss = "100 %" }',
            "gilbert_elliott.good_loss",
            "below 100 %",
        ),
        ('gilbert_elliott = { p = "1 %", r = "1 %" }', "gilbert_elliott.p", "one of enter, leave"),
        ('reorder = { probability = "1 %", delay = "0 s" }', "reorder.delay", "more than 0"),
        ('reorder = { probability = "1 %", delay = "101 s" }', "reorder.delay", "at most 100 s"),
        ('duplicate = "2"', "duplicate", "between 0 and 100 %"),
        ('jitter = "101 s"', "jitter", "at most 100 s"),
        ("schedule = []", "schedule", "at least one step, found none"),
        ('schedule = "often"', "schedule", "a list of tables, found text"),
        ("schedule = [1]", "schedule[0]", "expected a table, found a whole number"),
        (
            'schedule = [{ at = "1 s" }]',
            "schedule[0].at",
            "one of up, down, delay, loss beside it, found none",
        ),
        ('schedule = [{ up = "1 Mbit/s" }]', "schedule[0].at", "expected, but missing"),
        ('schedule = [{ at = "1 s", rate = "1 Mbit/s" }]', "schedule[0].rate", "unknown key"),
        ('schedule = [{ at = "1 s", up = "99 bit/s" }]', "schedule[0].up", "at least 100 bit/s"),
        ('schedule = [{ at = "12 d", up = "1 Mbit/s" }]', "schedule[0].at", "at most 1000000 s"),
        (
            STEPS.format('loss = "1 %"', 'loss = "1 %"').replace("2 s", "1 s"),
            "schedule[1].at",
            "more than 1 s",
        ),
        ('schedule_period = "1 s"', "schedule_period", "a schedule beside it"),
        (
            STEPS.format('loss = "1 %"', 'loss = "0 %"') + '\nschedule_period = "2 s"',
            "schedule_period",
            "more than the 2 s of the last step, found 2 s",
        ),
        (
            STEPS.format('up = "1 Mbit/s"', 'up = "0 bit/s"'),
            "schedule[1].up",
            "at least 100 bit/s in the long run: a later step or a schedule_period, found 0 bit/s for ever",
        ),
        (
            STEPS.format('down = "0 bit/s"', 'loss = "1 %"') + '\nschedule_period = "5 s"',
            "schedule[0].down",
            "found 0 bit/s",
        ),
        (STEPS.format('loss = "0 %"', 'loss = "100 %"'), "schedule[1].loss", "found 100 % for ever"),
    ],
)
def test_of_an_interface(given: Given, tmp_path: Path, keys: str, key: str, expected: str) -> None:
    (tmp_path / "lte.trace").write_text("1\n", encoding="ascii")
    with pytest.raises(InputError) as error:
        given(keys)
    file = tmp_path / "small.toml"
    assert str(error.value).startswith(
        (f"{file}: sites.B.interfaces.3.{key}: ", f"{file}: sites.B.interfaces[0].{key}: ")
    )
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "place", "key", "expected"),
    [
        ('trace = "lte.trace"', 'path = "1-3"', "core.segments.1-3", "either rate or trace, found both"),
        ('discipline = "red"', "[core]", "core.discipline", "a rate, a trace or a bucket beside it"),
        ('queue = "1 MB"', "[core]", "core.queue", "a rate, a trace or a bucket beside it"),
        ('schedule = [{ at = "1 s", rate = "1 Mbit/s" }]', "[core]", "core.schedule[0].rate", "a fixed rate"),
        (
            'schedule = [{ at = "1 s", up = "1 Mbit/s" }]',
            'path = "1-3"',
            "core.segments[0].schedule[0].up",
            "unk",
        ),
        ('schedule_period = "1 s"', "[core]", "core.schedule_period", "a schedule beside it"),
        ('assumed = ""', "[core]", "core.assumed", "the reason, found empty text"),
    ],
)
def test_of_the_core(given: Given, keys: str, place: str, key: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        given(keys, place)
    assert f"small.toml: {key}: " in str(error.value)
    assert expected in str(error.value)


def test_a_rate_cannot_be_left_out(given: Given) -> None:
    with pytest.raises(InputError, match=r"interfaces\.3\.down: expected a rate, or trace_down instead"):
        given("", 'isp = "Three"', 'down = "20 Mbit/s"')


def test_a_trace_has_no_rate_that_steps_could_change(given: Given, tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n", encoding="ascii")
    keys = 'trace_down = "lte.trace"\nschedule = [{ at = "1 s", down = "1 Mbit/s" }]'
    with pytest.raises(InputError, match=r"interfaces\.3\.schedule\[0\]\.down: expected a link with a fixed"):
        given(keys, 'isp = "Three"', 'down = "20 Mbit/s"')


def _names(table: type[SourcedTable]) -> list[str]:
    return [name for name in table.__struct_fields__ if name not in ("segments", "isp", "abbr", "path")]


FLOWS = [_names(TcpTable), _names(UdpTable)]

#: Anything TOML can express, and words that come near.
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates()
    | st.sampled_from(
        ["1 s", "0 s", "5 Mbit/s", "0 bit/s", "10 kB", "1 %", "100 %", "red", "fq_codel", "tcp", "udp"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["value", "assumed", "kind", "at", "up", "rate", "burst", "enter", "leave", "delay"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


@drawn(st.data())
def test_whatever_is_written_is_loaded_or_refused(data: st.DataObject) -> None:
    tables: dict[str, dict[str, Any]] = {}
    for name, table in (("interface", InterfaceTable), ("segment", SegmentTable)):
        keys = st.lists(st.sampled_from(_names(table)), max_size=3)
        tables[name] = {key: data.draw(ANYTHING) for key in data.draw(keys)}
    flow = {key: data.draw(ANYTHING) for key in data.draw(st.sampled_from(FLOWS))}
    row = {"isp": "a", "abbr": "a", "up": "1 Mbit/s", "down": "1 Mbit/s"}
    sites: dict[str, dict[str, Any]] = {
        "A": {"name": "A", "interfaces": [row | tables["interface"]]},
        "B": {"name": "B", "interfaces": [row]},
    }
    if data.draw(st.booleans()):
        sites = {abbr: site | {"ssh": "host"} for abbr, site in sites.items()}
        for key in data.draw(st.sets(st.sampled_from(["up", "down"]))):
            del sites["A"]["interfaces"][0][key]
    core = {"delay": "5 ms", "rate": "1 Mbit/s", "segments": [{"path": "a-a"} | tables["segment"]]}
    raw = {"name": "x", "sender": "A", "receiver": "B", "sites": sites, "core": core}
    raw["background"] = data.draw(st.sampled_from([[], [flow]]))
    with contextlib.suppress(InputError):
        _load.from_tables(raw, "x.toml", "x.toml")
