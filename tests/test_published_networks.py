"""Networks of which others published what they reached: their files, and the comparison."""

import pytest

from benchmarks.decision import published_networks
from benchmarks.decision.recommendations import Given
from benchmarks.shared import docs
from mptune.topology import load

TEXT = """\
iperf 3.10.1
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  1.60 MBytes  13.4 Mbits/sec
[  5]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec
[  5]   2.00-3.00   sec   130 MBytes  1.09 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-3.00   sec   132 MBytes  368 Mbits/sec                  receiver
"""


def outcome(answer, **alone):
    given = {name: Given(mbps, 10.0, 0) for name, mbps in alone.items()}
    return published_networks.Outcome(
        network="starlink-att",
        answer="fullmesh, cubic",
        buffers="1 MiB",
        simulated={**given, "by hand": Given(100.0, 20.0, 0), "answer": Given(answer, 5.0, 0)},
        kernel={},
    )


def test_the_intervals_of_a_text_are_read_without_its_total():
    assert list(published_networks.rates(TEXT)) == [(0.0, 13.4), (1.0, 0.0), (2.0, 1090.0)]


def test_a_drive_becomes_a_network_with_a_rate_every_second(tmp_path):
    folder = tmp_path / published_networks.FOLDER
    folder.mkdir()
    drive = published_networks.DRIVES["starlink-att"]
    for file in (drive.starlink, drive.other):
        (folder / file).write_text(TEXT)
    topology = load(str(published_networks.written(drive, "starlink-att", tmp_path, tmp_path / "out")))
    assert topology.name in published_networks.PUBLISHED
    assert [path.label for path in topology.paths] == ["T-S", "T-C"]
    starlink, cellular = (interface.down_effects.schedule for interface in topology.receiver.interfaces)
    assert starlink == cellular and starlink is not None


def test_what_is_no_checkout_is_one_line(tmp_path):
    with pytest.raises(SystemExit, match="No such file or directory; expected a checkout of"):
        list(published_networks.networks(tmp_path))


def test_the_shipped_networks_are_those_that_are_published():
    names = {path.stem for path in published_networks.NETWORKS.glob("*.toml")}
    assert names == set(published_networks.PUBLISHED) - set(published_networks.DRIVES)
    assert [topology.name for topology in published_networks.networks(None)] == sorted(names)


@pytest.mark.parametrize(("mbps", "share", "verdict"), [(270, "90 %", "met"), (150, "50 %", "missed")])
def test_the_share_is_that_of_tcp_on_each_path(mbps, share, verdict):
    measured = outcome(mbps, **{"TCP on T-S": 200, "TCP on T-C": 100})
    text = published_networks.summary([measured], "simulated")
    assert f"the answer gives {share} of the sum" in text and f"the goal of 90 % is {verdict}" in text
    assert "its authors' best 81 %" in text


def test_a_table_names_the_authors_results_first():
    first, *_, last = published_networks.rows(outcome(240, **{"TCP on T-S": 200, "TCP on T-C": 100}))
    assert first[1:4] == ("published: MPTCP", "178", "63 %")
    assert last[1:4] == ("**answer**: fullmesh, cubic, 1 MiB", "240, 5 ms", "80 %")


def test_the_docs_have_the_place_of_the_table():
    page = published_networks.DOCS.read_text(encoding="utf-8")
    assert all(page.count(marker) == 1 for marker in docs.markers(published_networks.NAME))
