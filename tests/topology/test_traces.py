"""Formats of traces: each recognised, with the units of its documentation; and what is refused.

The samples are our own numbers in the formats' forms.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mptune.errors import InputError
from mptune.topology import Schedule, Topology
from mptune.topology.traces import FORMATS, recognised

Given = Callable[..., Topology]

PING = """PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1764288000.030000] 64 bytes from 192.0.2.1: icmp_seq=65535 ttl=57 time=30.0 ms
[1764288001.050000] 64 bytes from a.example (192.0.2.1): icmp_seq=0 ttl=57 time=50.0 ms
[1764288002.900000] no answer yet for icmp_seq=1
[1764288003.040000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=40.0 ms
[1764288003.041000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=41.0 ms (DUP!)
[1764288004.010000] From 198.51.100.1 icmp_seq=4 Destination Host Unreachable
[1764288005.060000] 64 bytes from 192.0.2.1: icmp_seq=5 ttl=57 time=60.0 ms

--- 192.0.2.1 ping statistics ---
7 packets transmitted, 4 received, 42% packet loss, time 5005ms
"""

MONROE_PING = """nodeid,iccid,timestamp,sequencenumber,bytes,dataid,dataversion,guid,host,operator,rtt
48,894,1463048694.006,70,84,MONROE.EXP.PING,1,g,192.0.2.1,An Operator,6.0
48,894,1463048695.008,71,84,MONROE.EXP.PING,1,g,192.0.2.1,An Operator,8.0
"""
MONROE_HTTP = """nodeid,iccid,timestamp,sequencenumber,bytes,downloadtime,guid,host,operator,port,speed
48,894,1460720460,1,102400,0.033,g,192.0.2.1,An Operator,80,1500000
48,894,1460720520,2,102400,0.033,g,192.0.2.1,An Operator,80,500000.0
"""
FCC_RATE = """unit_id,dtime,target,address,fetch_time,bytes_total,bytes_sec,bytes_sec_interval
386,2015-01-01 00:05:51,t.example,192.0.2.1,5000000,6250000,1250000,1250000
386,2015-01-01 01:05:51,t.example,192.0.2.1,5000000,6250000,2500000,2500000
"""
FCC_RTT = """unit_id,dtime,target,rtt_avg,rtt_min,rtt_max,rtt_std,successes,failures,location_id
386,2015-01-01 00:05:51,t.example,20000,18000,30000,1000,75,25,1
386,2015-01-01 01:05:51,t.example,24000,18000,30000,1000,100,0,1
"""
CONEXT = """time,throughput,speed,latitude,longtitu,area_type
2023-04-12 10:40:22 CDT,30,62.9,45.4,-93.2,rural
2023-04-12 10:40:20 CDT,10,62.9,45.4,-93.2,rural
2023-04-12 10:40:21 CDT,20.5,62.9,45.4,-93.2,rural
"""
CONEXT_PARALLEL = "Bitrate,Time\n11.9,2023-04-28 11:00:13 CDT\n19.3,2023-04-28 11:00:14 CDT\n"
CSV = """time (ms), Down [kbit/s],rtt (us),note,up_loss (%),rate of turn
0,8000,20000,a,0.5,1
100,,30000,b,0,2
200,4000,20000,c,0,3
"""


def trip(number: int, lost: object = False, **delay: int) -> dict[str, Any]:
    """A round trip of irtt, sent every 200 ms."""
    sent = {"wall": 1508180723502727340 - number, "monotonic": 2776704 + number * 200_000_000}
    client = {"send": sent, "receive": {}}
    return {"seqno": number, "lost": lost, "timestamps": {"client": client, "server": {}}, "delay": delay}


def irtt(*trips: dict[str, Any]) -> str:
    """A file of irtt."""
    return json.dumps({"version": {"irtt": "0.9.0", "json_format": 1}, "stats": {}, "round_trips": trips})


def iperf3(*sums: dict[str, Any], **test: int) -> str:
    """A file of iperf3, an interval each second."""
    intervals = [
        {"streams": [], "sum": {"start": at, "end": at + 1, "omitted": False, "sender": True} | found}
        for at, found in enumerate(sums)
    ]
    start = {"version": "iperf 3.16", "test_start": {"protocol": "TCP", "reverse": 0, "bidir": 0} | test}
    return json.dumps({"start": start, "intervals": intervals, "end": {}})


IRTT = irtt(
    trip(0, rtt=30_000_000, send=20_000_000, receive=10_000_000),
    trip(1, "true_down"),
    trip(2, rtt=50_000_000, send=35_000_000, receive=15_000_000),
)
IPERF3 = iperf3(
    {"bits_per_second": 1e6, "omitted": True}, {"bits_per_second": 2.5e6}, {"bits_per_second": 5e6}
)


@pytest.fixture
def links(given: Given, tmp_path: Path) -> Callable[..., dict[str, Schedule]]:
    """Schedules of both links of interface 3 with a trace in the place of its rates."""

    def load(text: str | bytes, keys: str = 'trace = "it"', *others: str) -> dict[str, Schedule]:
        (tmp_path / "it").write_bytes(text.encode() if isinstance(text, str) else text)
        without = [line for line in ('up = "20 Mbit/s"\n', 'down = "20 Mbit/s"\n') if line[:2] not in others]
        topology = given(keys, 'isp = "Three"', *without)
        found = {link.name: link.effects.schedule for link in topology.links}
        return {way: steps for way in ("up", "down") if (steps := found[f"B 3 {way}"])}

    return load


def steps(schedule: Schedule, name: str) -> list[tuple[float, int]]:
    """Times in s and values of one of the values."""
    return [
        (step.at_ns / 1e9, value) for step in schedule.steps if (value := getattr(step, name)) is not None
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PING, "ping"),
        (MONROE_PING, "monroe"),
        (MONROE_HTTP, "monroe"),
        (FCC_RATE, "fcc"),
        (FCC_RTT, "fcc"),
        (CONEXT, "conext23"),
        (CONEXT_PARALLEL, "conext23"),
        (CSV, "csv"),
        ("time,rate\n", "csv"),
        (IRTT, "irtt"),
        (IPERF3, "iperf3"),
        ("1\n3\n", None),
        ("", None),
        ("{}", None),
    ],
)
def test_a_format_is_recognised_by_the_beginning_of_a_file(text: str, name: str | None) -> None:
    found = recognised(text)
    assert (None if found is None else found.name) == name


def test_every_format_is_documented_with_its_units() -> None:
    reference = (Path(__file__).parents[2] / "docs/reference/topology.md").read_text(encoding="utf-8")
    for name, kind in FORMATS.items():
        assert f"| `{name}` |" in reference
        assert kind.units and kind.source


def test_ping_has_half_the_rtt_on_either_link_and_tells_losses_from_outages(
    links: Callable[..., dict[str, Schedule]],
) -> None:
    found = links(PING, 'trace = "it"', "up", "do")
    assert found["up"] == found["down"]
    # Sent at 0, 1, (1.9, 2.45), 3, 4.01, 5 s; the third and fourth in a row are an outage, the sixth is not.
    assert steps(found["up"], "delay_ns") == [
        (0, 15_000_000),
        (1, 25_000_000),
        (3, 20_000_000),
        (5, 30_000_000),
    ]
    losses = steps(found["up"], "loss_ppb")
    assert losses[1:2] == [(2.9, 10**9)]
    # One of the five others: a fifth of round trips, 1 - sqrt(4/5) of either way.
    assert [value for _, value in losses] == [105_572_809, 10**9, 105_572_809]


def test_monroe_has_milliseconds_and_bytes_per_second(links: Callable[..., dict[str, Schedule]]) -> None:
    found = links(MONROE_PING, 'trace = "it"', "up", "do")
    assert steps(found["down"], "delay_ns") == [(0, 3_000_000), (1, 4_000_000)]
    down = links(MONROE_HTTP, 'trace_down = "it"', "up")["down"]
    assert steps(down, "rate_bps") == [(0, 12_000_000), (60, 4_000_000)]
    assert down.period_ns == 120 * 10**9


def test_the_fcc_has_bytes_per_second_and_microseconds(links: Callable[..., dict[str, Schedule]]) -> None:
    found = links(FCC_RATE, 'trace_up = "it"', "do")
    assert steps(found["up"], "rate_bps") == [(0, 10_000_000), (3600, 20_000_000)]
    found = links(FCC_RTT, 'trace = "it"', "up", "do")
    assert steps(found["up"], "delay_ns") == [(0, 10_000_000), (3600, 12_000_000)]
    # A quarter of the round trips, 1 - sqrt(3/4) of either way.
    assert steps(found["up"], "loss_ppb") == [(0, 133_974_596), (3600, 0)]


def test_the_set_of_conext_has_megabits_and_drives_in_any_order(
    links: Callable[..., dict[str, Schedule]],
) -> None:
    down = links(CONEXT, 'trace_down = "it"', "up")["down"]
    assert steps(down, "rate_bps") == [(0, 10_000_000), (1, 20_500_000), (2, 30_000_000)]
    down = links(CONEXT_PARALLEL, 'trace_down = "it"', "up")["down"]
    assert steps(down, "rate_bps") == [(0, 11_900_000), (1, 19_300_000)]


def test_irtt_has_nanoseconds_and_the_way_on_which_a_probe_was_lost(
    links: Callable[..., dict[str, Schedule]],
) -> None:
    found = links(gzip.compress(IRTT.encode()), 'trace = "it"', "up", "do")
    assert steps(found["up"], "delay_ns") == [(0, 15_000_000), (0.4, 25_000_000)]
    assert steps(found["up"], "loss_ppb") == [(0, 0)]
    assert steps(found["down"], "loss_ppb") == [(0, 333_333_333)]
    found = links(IRTT, 'trace = { file = "it", one_way = true }', "up", "do")
    assert steps(found["up"], "delay_ns") == [(0, 20_000_000), (0.4, 35_000_000)]
    assert steps(found["down"], "delay_ns") == [(0, 10_000_000), (0.4, 15_000_000)]


def test_irtt_that_does_not_know_the_way_has_losses_of_round_trips(
    links: Callable[..., dict[str, Schedule]],
) -> None:
    trips = [trip(0, rtt=10), trip(1, True), trip(2, "true"), trip(3, rtt=10)]
    found = links(irtt(*trips), 'trace = "it"', "up", "do")
    assert found["up"] == found["down"]
    assert steps(found["up"], "loss_ppb") == [(0, 0), (0.2, 10**9), (0.6, 0)]


def test_iperf3_has_the_rates_that_it_did_not_omit(links: Callable[..., dict[str, Schedule]]) -> None:
    # The key says which link it is, whatever the direction of the test.
    for reverse in (0, 1):
        rates = [{"bits_per_second": 2.5e6}, {"bits_per_second": 5e6}]
        down = links(iperf3(*rates, reverse=reverse), 'trace_down = "it"', "up")["down"]
        assert steps(down, "rate_bps") == [(0, 2_500_000), (1, 5_000_000)]
    omitted = iperf3({"bits_per_second": 9e6, "omitted": True}, *rates)
    assert steps(links(omitted, 'trace_down = "it"', "up")["down"], "rate_bps")[0] == (0, 2_500_000)


def test_iperf3_of_both_directions_is_of_both_links(links: Callable[..., dict[str, Schedule]]) -> None:
    whole = json.loads(iperf3({"bits_per_second": 1e6}, {"bits_per_second": 2e6}, bidir=1))
    for interval in whole["intervals"]:
        back = {"bits_per_second": 8e6, "sender": False, "lost_percent": 2.5}
        interval["sum_bidir_reverse"] = interval["sum"] | back
    found = links(json.dumps(whole))
    assert steps(found["up"], "rate_bps") == [(0, 1_000_000), (1, 2_000_000)]
    assert steps(found["down"], "rate_bps") == [(0, 8_000_000)]
    assert steps(found["down"], "loss_ppb") == [(0, 25_000_000)]


def test_csv_has_the_units_of_its_header(links: Callable[..., dict[str, Schedule]]) -> None:
    found = links(CSV)
    assert steps(found["down"], "rate_bps") == [(0, 8_000_000), (0.2, 4_000_000)]
    assert steps(found["up"], "delay_ns") == [(0, 10_000_000), (0.1, 15_000_000), (0.2, 10_000_000)]
    assert steps(found["up"], "loss_ppb") == [(0, 5_000_000), (0.1, 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time (s),down (Mbit/s)\n0,1\n1,-3\n", "a rate of 0 to 1 Tbit/s in line 3, found '-3'"),
        ("time (s),down (Mbit/s)\n0,1\n1,3 Mbit/s\n", "in line 3, found '3 Mbit/s'"),
        (
            "time (s),down (Mbit/s)\n0,1\n1,nan\n",
            "a number for a rate of 0 to 1 Tbit/s in line 3",
        ),
        ("time (s),down (Mbit/s)\n0,1\n1,1e9\n", "found '1e9'"),
        ("time (s),down (Mbit/s),down (kbit/s)\n", "each quantity once in line 1"),
        ("time (s),down\n", "a unit in brackets in line 1, found 'down'"),
        ("time (s),down (Mb)\n", "a unit for 'down (mb)' in line 1"),
        ("time (s),rtt (Mbit/s)\n", "expected one of ns, us, ms"),
        ("time (s),loss (%)\n0,1\n1,101\n", "a loss of 0 to 100 % in line 3, found '101'"),
        ("time (s),rtt (ms)\n0,1\n1,200000\n", "an RTT of 0 to 100 s in line 3"),
        ("time (s),down (Mbit/s)\n5,1\n4,1\n", "the clock was set) in line 3, found 1 s earlier"),
        ("time (s),down (Mbit/s)\n0,1\n1,1\n2,1\n60,1\n", "in line 5, found a gap of 58 s"),
        ("time (s),down (Mbit/s)\n0,1\n", "at least two measurements from start to stop, found 1"),
        ("time (s),down (Mbit/s)\n0,1\n0,1\n", "measurements at several times in line 3, found all at one"),
        ("time (s),down (Mbit/s)\n0,0\n1,0\n", "something gets through at some time, found an outage"),
        ("time (s),down (Mbit/s)\n0,1\n3000000,1\n", "at most 25 days"),
        ("time,down (Mbit/s)\n2026-13-01 00:00:00,1\n", "found '2026-13-01 00:00:00'"),
        ("time,down (Mbit/s)\n2026-11-01 00:00:00 XYZ,1\n", "found '2026-11-01 00:00:00 XYZ'"),
        ("when,what\n1,2\n", "one per line, in it, or one of the formats irtt, iperf3"),
        (PING.replace("[1764288000.030000] ", ""), "a time in brackets, as `ping -D` prints it, in line 2"),
        (PING.replace("time=50.0", "time=5.0.0"), "a number for an RTT of 0 to 100 s in line 3"),
        (PING.replace("288003.04", "287003.04"), "the clock was set) in line 5"),
        (FCC_RATE + FCC_RATE.split("\n")[1].replace("386", "390"), "found '390'"),
        (FCC_RTT.replace("75,25", "0,0"), "successes and failures above 0 in line 2, found '0, 0'"),
        (FCC_RATE.replace("1250000,1250000", ""), "a value in column bytes_sec in line 2"),
        (IRTT[:-20], "the format's JSON"),
        (irtt(trip(0, lost="perhaps")), "true_up or true_down in line 1, found 'perhaps'"),
        (irtt(trip(0, rtt=-5), trip(1, rtt=5)), "an RTT of 0 to 100 s in line 1, found '-5'"),
        (json.dumps({"start": {"version": "iperf 3.16"}, "error": "unable to connect"}), "unable to connect"),
        (iperf3({"bits_per_second": -1.0}), "a rate of 0 to 1 Tbit/s in line 1"),
        (gzip.compress(IRTT.encode())[:-9], "a whole compressed file"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    links: Callable[..., dict[str, Schedule]], text: str | bytes, expected: str
) -> None:
    with pytest.raises(InputError) as error:
        links(text, 'trace_down = "it"', "up")
    message = str(error.value)
    assert "small.toml: sites.B.interfaces.3.trace_down: " in message
    assert expected in message and "expected" in message and "\n" not in message


def test_a_line_of_a_compressed_file_is_no_way_around_the_limit(
    links: Callable[..., dict[str, Schedule]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptune.topology._trace.LIMIT", 10_000)
    with pytest.raises(InputError, match="found more"):
        links(gzip.compress(b"1\n" * 100_000), 'trace_down = "it"', "up")


def test_many_measurements_are_refused_before_they_are_kept(
    links: Callable[..., dict[str, Schedule]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptune.topology.traces._recording.MOST_ENTRIES", 3)
    text = "time (s),down (Mbit/s)\n" + "".join(f"{at},1\n" for at in range(5))
    with pytest.raises(InputError, match=r"at most 3 measurements \(start, stop\) in line 5, found 4"):
        links(text, 'trace_down = "it"', "up")
    assert links(text, 'trace_down = { file = "it", stop = "2 s" }', "up")["down"].period_ns == 2 * 10**9
