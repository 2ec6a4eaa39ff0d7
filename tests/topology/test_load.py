"""Topologies as read from a file: values, defaults, provenance, paths and their derived numbers."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.topology import Topology, _load
from mptune.units import format_time

MS = 1_000_000

Change = Callable[..., Topology]


def test_values_become_integers(changed: Change) -> None:
    interface = changed().sender.interfaces[0]
    assert (interface.up_bps, interface.down_bps, interface.delay_ns) == (100_000_000, 50_000_000, MS)
    assert (interface.queue_up_bytes, interface.queue_down_bytes, interface.loss_ppb) == (
        262_144,
        262_144,
        1_000_000,
    )
    assert changed().receiver.interfaces[0].ipv4 == "192.0.2.1"


def test_paths_are_all_pairs_local_by_local(changed: Change) -> None:
    paths = changed().paths
    assert [path.label for path in paths] == ["1-3", "2-3"]
    assert [(path.local_index, path.remote_index) for path in paths] == [(0, 0), (1, 0)]


def test_core_segment_takes_its_own_value_then_that_of_core_then_the_default(changed: Change) -> None:
    first, second = (path.core for path in changed().paths)
    assert (first.forward_ns, first.reverse_ns, first.jitter_ns) == (7 * MS, 7 * MS, 2 * MS)
    assert first.loss_ppb == second.loss_ppb == 2_000_000
    assert first.rate_bps == 10_000_000
    assert second.rate_bps is None
    assert second.queue_bytes is None
    assert 0 < second.jitter_ns < second.forward_ns


def test_rtt_is_that_of_the_whole_path_and_delay_that_of_the_core_one_way(changed: Change) -> None:
    first, second = changed().paths
    assert second.base_rtt_ns == 100 * MS
    access = 2 * (first.local.delay_ns + first.remote.delay_ns)
    assert first.base_rtt_ns == access + 2 * 7 * MS


@given(st.integers(min_value=11 * MS, max_value=10**11), st.integers(min_value=0, max_value=MS))
def test_an_rtt_is_met_to_the_nanosecond(rtt: int, delay: int) -> None:
    topology = _built(rtt=format_time(rtt), delay=format_time(delay))
    path = topology.paths[0]
    assert path.base_rtt_ns == rtt
    assert 0 <= path.core.reverse_ns - path.core.forward_ns <= 1


def _built(rtt: str, delay: str) -> Topology:
    def site(abbr: str) -> dict[str, object]:
        row = {"isp": abbr, "abbr": abbr, "up": "1 Mbit/s", "down": "1 Mbit/s", "delay": delay}
        return {"name": abbr, "interfaces": [row]}

    sites = {"A": site("a"), "B": site("b")}
    raw = {"name": "x", "sender": "A", "receiver": "B", "sites": sites, "core": {"rtt": rtt}}
    return _load.from_tables(raw, "x.toml", "x.toml")


def test_bottleneck_is_the_slowest_link_of_the_data_direction(changed: Change) -> None:
    capped, adsl = changed().paths
    assert (capped.rate_bps, capped.queue_bytes) == (10_000_000, capped.core.queue_bytes)
    assert (adsl.rate_bps, adsl.queue_bytes) == (1_000_000, adsl.local.queue_up_bytes)
    assert adsl.bdp_bytes == 1_000_000 // 8 // 10


def test_loss_of_a_path_is_that_of_its_three_links(changed: Change) -> None:
    path = changed(('up = "20 Mbit/s"', 'loss = "50 %"\nup = "20 Mbit/s"')).paths[0]
    assert path.loss_ppb == round(1e9 * (1 - 0.999 * 0.998 * 0.5))


def test_plain_text_is_published_where_the_nearest_source_states_it(changed: Change) -> None:
    provenance = changed().provenance
    assert provenance["sites.A.interfaces.1.up"].source == "a table"
    assert provenance["sites.B.interfaces.3.up"].source == "a web page"
    own = changed(('isp = "Three"', 'isp = "Three"\nsource = "its contract"')).provenance
    assert own["sites.B.interfaces.3.up"].source == "its contract"
    inline = changed(('"7 ms"', '{ value = "7 ms", source = "ping" }')).provenance
    assert inline["core.segments.1-3.delay"].source == "ping"


def test_assumptions_keep_their_reason_and_defaults_are_marked(changed: Change) -> None:
    provenance = changed().provenance
    guess = provenance["sites.A.interfaces.2.down"]
    assert (guess.value, guess.source, guess.assumed, guess.default) == ("16 Mbit/s", None, "a guess", False)
    left_out = [key for key, value in provenance.items() if value.default]
    assert left_out == [
        *(f"sites.A.interfaces.2.{name}" for name in ("queue_up", "queue_down", "delay", "loss")),
        *(f"sites.B.interfaces.3.{name}" for name in ("queue_up", "queue_down", "delay", "loss")),
        "core.segments.1-3.queue",
        "core.segments.2-3.rate",
        "core.segments.2-3.jitter",
        "initial_path",
        "lsrr",
    ]
    assert all(provenance[key].assumed for key in left_out)


def test_an_adsl_line_gets_the_larger_delay_loss_and_queueing_time(changed: Change) -> None:
    adsl, fibre = changed().sender.interfaces[1], changed().receiver.interfaces[0]
    assert adsl.delay_ns > fibre.delay_ns
    assert adsl.loss_ppb > fibre.loss_ppb
    assert adsl.queue_up_bytes / adsl.up_bps > fibre.queue_up_bytes / fibre.up_bps


def test_initial_path_and_lsrr_can_be_given(changed: Change) -> None:
    assert (changed().initial_path, changed().lsrr_honoured) == ("1-3", False)
    given = changed(('sender = "A"', 'sender = "A"\ninitial_path = "2-3"\nlsrr = "honoured"'))
    assert (given.initial_path, given.lsrr_honoured) == ("2-3", True)
    assert given.network()["initial_path"] == 1


def test_path_finds_a_label_or_lists_those_there_are(changed: Change) -> None:
    assert changed().path("2-3", "--active").local.isp == "Two"
    with pytest.raises(InputError, match=r"^--active: .*1-3, 2-3.*'3-2'$"):
        changed().path("3-2", "--active")
