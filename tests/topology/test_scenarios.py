"""The shipped scenarios: all pairs of the five papers, and others; every number published or argued for."""

import itertools
import re
from functools import cache

import pytest

from mptune.papers import published
from mptune.topology import Interface, Provenance, Topology, calibration, cellular, load, shipped
from mptune.units import format_rate, parse_rate, parse_time

# Site pairs of the papers with their numbers of paths (MPCOA section 5; PCDC section VI; buffer sizes section
# V; path management section V; GLM section VI). A pair of two papers has a file for each.
PATHS = {
    "SRL-HU": 8,
    "UNIS-HiN": 6,
    "UiT-HAW": 2,
    "UiB-UNIS": 4,
    "UiB-HiN": 6,
    "UiB-HU": 4,
    "UDE-HU.buffersizes": 4,
    "HU-UDE": 4,
    "KU-HiG.buffersizes": 2,
    "NTNU-HiN.buffersizes": 6,
    "UiB-UiS": 6,
    "UDE-HU.pathmgmt": 4,
    "HU-KRU": 2,
    "KU-HiG.pathmgmt": 2,
    "UiB-HKC": 4,
    "NTNU-HiN.pathmgmt": 6,
    "UiO-UiT": 9,
}
# Those of no paper, with their numbers of paths.
OTHERS = {
    "CLOUD-BRANCH": 2,
    "CLOUD-HOME.day": 2,
    "CLOUD-HOME.hybrid": 2,
    "HOME-CLOUD.droptail": 2,
    "HOME-CLOUD.fq_codel": 2,
    "VEHICLE-CLOUD": 2,
}
#: End of the names of those that are calibrated; each has the pair of the nominal one.
CALIBRATED = ".calibrated"
MPCOA = ("SRL-HU", "UNIS-HiN", "UiT-HAW")
# Table II's scenario -> the file with its RTTs.
TABLE2 = {
    "UDE-HU": "UDE-HU.buffersizes",
    "HU-UDE": "HU-UDE",
    "KU-HiG": "KU-HiG.buffersizes",
    "NTNU-HiN": "NTNU-HiN.buffersizes",
    "UiB-UiS": "UiB-UiS",
}
# Payload that crossed a path alone, Mbit/s: what proved nominal rates wrong (errata E14, E29), or stands in
# for a rate that is not published. PCDC Fig. 6, 8, 10; MPCOA Fig. 7; path management section V.
CARRIED = [
    ("UNIS-HiN", "U-U", 274.2),
    ("UiB-UNIS", "U-U", 242.4),
    ("UiB-HiN", "U-U", 240.3),
    ("UiB-HU", "U-C", 63.7),
    ("HU-KRU", "C-K", 7.4),
    ("KU-HiG.pathmgmt", "K-U", 141.9),
    ("KU-HiG.pathmgmt", "K-P", 1.8),
    ("NTNU-HiN.pathmgmt", "U-U", 86.6),
    ("NTNU-HiN.pathmgmt", "U-B", 13.8),
]
LEAST = re.compile(r"\b(?:the least|at least)\b")
RESPONSE = re.compile(r"from the response function: (Cubic|Reno), ([\d.]+ Mbit/s) at ([\d.]+ ms) \(.+\)")

cached = cache(load)


def test_every_pair_of_the_papers_is_shipped() -> None:
    assert {name for name in shipped() if not name.endswith(CALIBRATED)} == set(PATHS) | set(OTHERS)


@pytest.mark.parametrize("name", [name for name in shipped() if name.endswith(CALIBRATED)])
def test_a_calibrated_scenario_differs_only_in_what_the_nominal_one_assumes(name: str) -> None:
    calibrated, nominal = cached(name), cached(name.removesuffix(CALIBRATED))
    assert calibrated.name == name
    assert [path.label for path in calibrated.paths] == [path.label for path in nominal.paths]
    for key, origin in nominal.provenance.items():
        if origin.source is not None:
            assert calibrated.provenance[key] == origin
    inferred = [
        origin for origin in calibrated.provenance.values() if "inferred from" in (origin.assumed or "")
    ]
    assert inferred and all("with 80 %" in (origin.assumed or "") for origin in inferred)


@pytest.mark.parametrize(("name", "paths"), (PATHS | OTHERS).items())
def test_loads_with_all_its_paths(name: str, paths: int) -> None:
    topology = cached(name)
    assert (topology.name, topology.file) == (name, f"{name}.toml")
    assert len(topology.paths) == paths
    assert f"{topology.sender.abbr}-{topology.receiver.abbr}" == name.split(".")[0]


@pytest.mark.parametrize("name", PATHS)
def test_every_value_has_a_source_in_a_paper_or_a_reason(name: str) -> None:
    paper = re.compile(r"(MPCOA|PCDC|Buffer sizes|Path management|GLM procedure) \(.+\), (Table|section) ")
    for key, origin in cached(name).provenance.items():
        assert (origin.source is None) != (origin.assumed is None), key
        assert origin.source is None or paper.match(origin.source), (key, origin.source)
        assert origin.assumed is None or len(origin.assumed.split()) > 4, (key, origin.assumed)


@pytest.mark.parametrize("name", OTHERS)
def test_what_nobody_measured_is_marked(name: str) -> None:
    for key, origin in cached(name).provenance.items():
        assert origin.source is None, key
        assert len((origin.assumed or "").split()) > 4, (key, origin.assumed)


def test_the_twins_differ_in_the_queue_of_the_modem_only() -> None:
    droptail, fq_codel = (cached(f"HOME-CLOUD.{name}").network() for name in ("droptail", "fq_codel"))
    changed = [
        (ours, theirs)
        for ours, theirs in zip(droptail["links"], fq_codel["links"], strict=True)
        if ours != theirs
    ]
    [(plain, managed)] = changed
    assert plain["name"] == "HOME D up"
    assert managed == plain | {"aqm": managed["aqm"]}
    assert droptail["paths"] == fq_codel["paths"]


@pytest.mark.parametrize(
    ("name", "site", "abbr", "side"),
    [
        ("CLOUD-HOME.hybrid", "HOME", "M", "down"),
        ("VEHICLE-CLOUD", "VEHICLE", "A", "up"),
        ("VEHICLE-CLOUD", "VEHICLE", "B", "up"),
    ],
)
def test_a_cellular_trace_is_the_one_its_file_names(name: str, site: str, abbr: str, side: str) -> None:
    topology = cached(name)
    reason = topology.provenance[f"sites.{site}.interfaces.{abbr}.trace_{side}"].assumed or ""
    call = re.search(r"cellular\.trace_ms\(([\d_]+), (.+)\)", reason)
    assert call, reason
    values = dict(one.split("=") for one in call[2].split(", "))
    seed = int(values.pop("seed"))
    drawn = cellular.trace_ms(int(call[1]), seed, **{key: float(value) for key, value in values.items()})
    ends = (topology.sender, topology.receiver)
    (interface,) = (one for end in ends for one in end.interfaces if (end.abbr, one.abbr) == (site, abbr))
    assert list(getattr(interface, f"{side}_effects").trace_ms or ()) == drawn


def test_only_one_of_the_networks_of_the_vehicle_goes_out_at_a_time() -> None:
    """What an outage costs is what the other network can save."""
    first, second = (
        [
            (before, after)
            for before, after in itertools.pairwise(one.up_effects.trace_ms or ())
            if after - before > 250
        ]
        for one in cached("VEHICLE-CLOUD").sender.interfaces
    )
    assert first and second
    assert all(after <= begin or end <= before for before, after in first for begin, end in second)


@pytest.mark.parametrize("name", MPCOA)
def test_labels_are_those_of_mpcoa_table_2(name: str) -> None:
    table = {
        row["subflow"] for row in published.rows("mpcoa_table2_impact_factors") if row["scenario"] == name
    }
    assert {path.label for path in cached(name).paths} == table


@pytest.mark.parametrize("name", MPCOA)
def test_rates_are_those_of_mpcoa_table_1_unless_argued_otherwise(name: str) -> None:
    topology = cached(name)
    rates = {
        (row["site_abbr"], row["isp_abbr"]): (int(row["up_kbit_s"]), int(row["down_kbit_s"]))
        for row in published.rows("mpcoa_table1_sites")
    }
    for site in (topology.sender, topology.receiver):
        for interface in site.interfaces:
            up, down = rates[site.abbr, interface.abbr]
            for name_, rate, nominal in (("up", interface.up_bps, up), ("down", interface.down_bps, down)):
                origin = topology.provenance[f"sites.{site.abbr}.interfaces.{interface.abbr}.{name_}"]
                assert rate == nominal * 1000 or "Table 1's" in (origin.assumed or "")


@pytest.mark.parametrize("row", published.rows("buffersizes_table2_rtt_throughput"), ids=str)
def test_buffer_size_paths_have_an_rtt_of_table_2_and_room_for_its_throughput(row: dict[str, str]) -> None:
    topology = cached(TABLE2[row["scenario"]])
    isps = (row["from_isp"], row["to_isp"])
    path = next(p for p in topology.paths if (_isp(p.local), _isp(p.remote)) == isps)
    assert path.base_rtt_ns / 1e6 in (float(row["rtt_min_ms"]), float(row["rtt_median_ms"]))
    assert path.rate_bps >= calibration.link_rate_bps(float(row["tcp_throughput_Mbit_s"]) * 1e6)


@pytest.mark.parametrize(("name", "label", "mbps"), CARRIED)
def test_a_path_can_carry_what_was_seen_on_it(name: str, label: str, mbps: float) -> None:
    assert cached(name).path(label, "").rate_bps >= calibration.link_rate_bps(mbps * 1e6)


@pytest.mark.parametrize("name", PATHS)
def test_a_rate_called_the_least_is_no_more_than_one_mbps_above_it(name: str) -> None:
    for key, origin in _assumed(cached(name), "up", "down"):
        reason = origin.assumed or ""
        if LEAST.search(reason):
            seen = [float(number) for number in re.findall(r"\d+\.\d+", reason)]
            needed = [calibration.link_rate_bps(mbps * 1e6) for mbps in seen]
            assert any(0 <= parse_rate(origin.value) - least < 1e6 for least in needed), (key, reason)


@pytest.mark.parametrize("name", PATHS)
def test_losses_from_the_response_function_agree_with_it(name: str) -> None:
    topology = cached(name)
    for path in topology.paths:
        origin = topology.provenance.get(f"core.segments.{path.label}.loss")
        if origin is None or origin.default:
            continue
        match = RESPONSE.fullmatch(origin.assumed or "")
        assert match, (path.label, origin.assumed)
        cc, throughput, rtt = match[1].lower(), parse_rate(match[2]), parse_time(match[3])
        assert rtt == path.base_rtt_ns, path.label
        expected = calibration.loss_for(throughput, rtt / 1e9, cc)
        assert path.core.loss_ppb / 1e9 == pytest.approx(expected, rel=0.006), path.label
        assert path.rate_bps >= calibration.link_rate_bps(throughput), format_rate(path.rate_bps)


@pytest.mark.parametrize("name", PATHS | OTHERS)
def test_nothing_travels_faster_than_light_in_fibre(name: str) -> None:
    for path in cached(name).paths:
        assert path.core.forward_ns > 0, path.label


def _assumed(topology: Topology, *names: str) -> list[tuple[str, Provenance]]:
    provenance = topology.provenance.items()
    return [(key, o) for key, o in provenance if o.assumed and key.rsplit(".", 1)[-1] in names]


def _isp(interface: Interface) -> str:
    """Name of the ISP as Table II spells it."""
    return interface.isp.replace("China Unicom", "CnUnicom")
