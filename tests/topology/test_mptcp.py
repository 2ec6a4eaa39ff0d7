"""Paths on which MPTCP does not pass: read, shown, and left out of every trial of MPTCP, not of plain TCP."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.errors import InputError
from mptune.topology import Topology, load
from mptune.trial import Bulk, Trial

TEXT = """
name = "stripped"
sender = "S"
receiver = "R"
{more}
[sites.S]
name = "home"
[[sites.S.interfaces]]
isp = "Fibre"
abbr = "A"
up = "20 Mbit/s"
down = "20 Mbit/s"
[[sites.S.interfaces]]
isp = "Mobile"
abbr = "B"
up = "6 Mbit/s"
down = "6 Mbit/s"
[sites.R]
name = "server"
[[sites.R.interfaces]]
isp = "Transit"
abbr = "X"
up = "1 Gbit/s"
down = "1 Gbit/s"
[[core.segments]]
path = "A-X"
rtt = "20 ms"
{first}
[[core.segments]]
path = "B-X"
rtt = "40 ms"
{second}
"""
SEEN = "2026-11-24, stripped on SYN: plain TCP from the handshake on"
STRIPPED = f'mptcp = {{ value = "none", measured = "{SEEN}" }}'


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Load the network; `first` and `second` belong to its two paths."""

    def make(first: str = "", second: str = "", more: str = "") -> Topology:
        file = tmp_path / "stripped.toml"
        file.write_text(TEXT.format(first=first, second=second, more=more))
        return load(file)

    return make


def trial(topology: Topology, **changes: Any) -> Trial:
    settings = {
        "pm": "fullmesh",
        "cc": "cubic",
        "buffer_bytes": 2**20,
        "seed": 1,
        "workload": Bulk(duration_ns=10**9),
    }
    return Trial(topology=topology, **{**settings, **changes})


def labels(topology: Topology) -> list[str]:
    return [path.label for path in topology.paths]


def test_the_file_states_it_with_its_origin(made: Any) -> None:
    topology = made(second=STRIPPED)
    assert topology.path("B-X", "").core.mptcp == "none" and topology.path("A-X", "").core.mptcp is None
    assert topology.provenance["core.segments.B-X.mptcp"].measured == SEEN
    assert topology.ruled_out == (f"B-X carries no MPTCP, and is left to plain TCP: {SEEN}.",)


def test_a_file_without_it_is_as_it_was(made: Any) -> None:
    topology = made()
    assert topology.for_mptcp() is topology and topology.ruled_out == ()
    assert b"mptcp" not in msgspec.json.encode(topology)


def test_trials_of_mptcp_do_without_the_path_and_plain_tcp_does_not(made: Any) -> None:
    topology = made(second=STRIPPED)
    assert labels(trial(topology).topology) == ["A-X"]
    assert trial(topology).topology is trial(topology, seed=2).topology
    tcp = trial(topology, protocol="tcp", pm="default", initial_path="B-X")
    assert labels(tcp.topology) == ["A-X", "B-X"]
    simulated = testbeds.create("simulated")
    observed = simulated.run(trial(topology))
    assert observed.failed is None and [subflow.path for subflow in observed.subflows] == ["A-X"]
    alone = simulated.run(tcp)
    assert alone.failed is None and [subflow.path for subflow in alone.subflows] == ["B-X"]


def test_connections_do_not_begin_where_mptcp_does_not_pass(made: Any) -> None:
    assert made(first=STRIPPED).initial_path == "B-X"
    assert "MPTCP passes" in (made(first=STRIPPED).provenance["initial_path"].assumed or "")
    with pytest.raises(InputError, match=r"initial_path: expected a path that carries MPTCP, such as B-X"):
        made(first=STRIPPED, more='initial_path = "A-X"')
    with pytest.raises(InputError, match=r"initial path: expected .* MPTCP \(A-X\), found 'B-X': 2026-11-24"):
        trial(made(second=STRIPPED), initial_path="B-X")


def test_a_path_that_nobody_joins_may_be_the_first(made: Any) -> None:
    topology = made(second='mptcp = "first"')
    assert labels(topology.for_mptcp()) == ["A-X"]
    assert labels(trial(topology, initial_path="B-X").topology) == ["A-X", "B-X"]
    assert trial(topology, initial_path="B-X").topology.initial_path == "B-X"
    assert "no subflow joins" in topology.ruled_out[0]


def test_without_any_path_for_mptcp_plain_tcp_is_left(made: Any) -> None:
    topology = made(first=STRIPPED, second=STRIPPED)
    with pytest.raises(InputError, match=r"expected a path that carries MPTCP \(none\)"):
        trial(topology)
    tcp = trial(topology, protocol="tcp", pm="default", initial_path="A-X")
    assert tcp.topology is topology


def test_the_other_way_round_it_is_the_same_path(made: Any) -> None:
    turned = made(second=STRIPPED).reversed()
    assert labels(turned.for_mptcp()) == ["X-A"]
    assert turned.ruled_out == (f"X-B carries no MPTCP, and is left to plain TCP: {SEEN}.",)


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (
            'mptcp = "stripped"',
            "core.segments.B-X.mptcp: expected one of full, first, none, found 'stripped'",
        ),
        ("mptcp = false", "core.segments.B-X.mptcp: expected text such as"),
    ],
)
def test_another_word_is_refused(made: Any, second: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        made(second=second)


def test_connections_of_others_are_not_on_such_a_path(made: Any) -> None:
    others = '[[background]]\nkind = "tcp"\npath = "B-X"'
    made(second=others)
    with pytest.raises(InputError, match=r"background\[0\]\.path: expected a path without a word on mptcp"):
        made(second=f"{STRIPPED}\n{others}")


def test_the_paths_are_shown_with_it(made: Any, tmp_path: Path) -> None:
    made(second=STRIPPED)
    file = str(tmp_path / "stripped.toml")
    result = CliRunner().invoke(app, ["paths", file])
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert f"B-X carries no MPTCP, and is left to plain TCP: {SEEN}." in words
    rows = msgspec.json.decode(CliRunner().invoke(app, ["paths", file, "--json"]).stdout)["paths"]
    assert [row["mptcp"] for row in rows] == [None, "none"]


def test_a_trial_lists_what_it_does_without(made: Any, tmp_path: Path) -> None:
    made(second=STRIPPED)
    file = str(tmp_path / "stripped.toml")
    result = CliRunner().invoke(app, ["run", file, "--duration", "1s"])
    assert result.exit_code == 0 and "B-X carries no MPTCP" in result.stderr
    refused = CliRunner().invoke(app, ["run", file, "--duration", "1s", "--initial-path", "B-X"])
    assert refused.exit_code == 2 and "found 'B-X': 2026-11-24, stripped on SYN" in refused.stderr


BROKEN = f'mptcp_ipv6 = {{ value = "none", measured = "{SEEN}" }}'


def test_a_family_on_which_mptcp_does_not_pass_is_left_out_and_the_other_is_not(made: Any) -> None:
    topology = made(second=BROKEN)
    assert labels(topology.for_mptcp()) == ["A-X", "B-X"]
    six = topology.over("ipv6")
    assert labels(six.for_mptcp()) == ["A-X"]
    assert six.ruled_out == (f"B-X carries no MPTCP, and is left to plain TCP: {SEEN}.",)
    both = topology.over("both")
    assert labels(both) == ["A-X", "B-X", "A-X/6", "B-X/6"] and both is topology.over("both")
    assert both.ruled_out == (f"B-X/6 carries no MPTCP, and is left to plain TCP: {SEEN}.",)
    assert labels(trial(topology, family="both").topology) == ["A-X", "B-X", "A-X/6"]
    assert labels(trial(topology, family="ipv6").topology) == ["A-X"]
    # As seen from the other site.
    assert labels(topology.reversed().over("both").for_mptcp()) == ["X-A", "X-B", "X-A/6"]


def test_where_ipv4_carries_no_mptcp_connections_begin_over_ipv6(made: Any) -> None:
    passes = f'{STRIPPED}\nmptcp_ipv6 = "full"'
    topology = made(first=passes, second=passes)
    both = topology.over("both")
    assert (topology.initial_path, both.initial_path) == ("A-X", "A-X/6")
    assert labels(both.for_mptcp()) == ["A-X/6", "B-X/6"]
    assert labels(topology.over("ipv6").for_mptcp()) == ["A-X", "B-X"]
