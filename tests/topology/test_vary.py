"""Uncertain values: which there are, how far they go, and that only the named one changes."""

import msgspec
import pytest

from mptune.topology import Provenance, Topology, Uncertain, load, uncertain
from mptune.units import parse_fraction, parse_rate, parse_time


@pytest.fixture(scope="module")
def shipped() -> Topology:
    return load("UNIS-HiN")


@pytest.fixture(scope="module")
def values(shipped: Topology) -> dict[str, Uncertain]:
    return {value.key: value for value in uncertain(shipped, 0.2)}


def test_published_values_are_taken_as_they_are(shipped: Topology, values: dict[str, Uncertain]) -> None:
    published = {key for key, origin in shipped.provenance.items() if origin.source is not None}
    assert published and not published & set(values)
    assert "sites.UNIS.interfaces.U.up" in values


def test_a_rate_goes_up_and_down_by_the_share_and_its_queue_keeps_its_time(
    shipped: Topology, values: dict[str, Uncertain]
) -> None:
    value = values["sites.UNIS.interfaces.U.up"]
    assert value.paths == ("U-U", "U-P", "U-B")
    before = shipped.sender.interfaces[0]
    for there, factor in ((value.below, 1 / 1.2), (value.above, 1.2)):
        assert there is not None
        after = there.sender.interfaces[0]
        assert after.up_bps == pytest.approx(before.up_bps * factor, rel=1e-6)
        kept = before.queue_up_bytes / before.up_bps
        assert after.queue_up_bytes / after.up_bps == pytest.approx(kept, rel=1e-4)
        changed = msgspec.structs.replace(after, up_bps=before.up_bps, queue_up_bytes=before.queue_up_bytes)
        assert changed == before and there.receiver == shipped.receiver
        assert all(path.local == there.sender.interfaces[path.local_index] for path in there.paths)


def test_an_rtt_changes_that_path_alone_and_by_as_much(
    shipped: Topology, values: dict[str, Uncertain]
) -> None:
    value = values["core.segments.U-B.rtt"]
    assert value.above is not None
    for before, after in zip(shipped.paths, value.above.paths, strict=True):
        factor = 1.2 if before.label == "U-B" else 1.0
        assert after.base_rtt_ns == pytest.approx(before.base_rtt_ns * factor, rel=1e-6)
    assert parse_time(value.high) == pytest.approx(1.2 * parse_time(value.stated), rel=0.01)


def test_an_access_delay_beside_a_known_rtt_is_no_value_of_its_own(values: dict[str, Uncertain]) -> None:
    assert not [key for key in values if key.endswith(".delay")]


def test_queues_and_losses_go_from_half_to_twice_and_no_loss_to_some(values: dict[str, Uncertain]) -> None:
    queue = values["sites.HiN.interfaces.B.queue_down"]
    assert queue.below is not None and queue.above is not None
    low, high = (end.receiver.interfaces[2].queue_down_bytes for end in (queue.below, queue.above))
    assert high == pytest.approx(4 * low, rel=1e-4)
    loss = values["sites.HiN.interfaces.B.loss"]
    assert parse_fraction(loss.high) == 4 * parse_fraction(loss.low)
    none = values["sites.HiN.interfaces.U.loss"]
    assert none.below is None and none.above is not None
    assert none.above.receiver.interfaces[0].loss_ppb == parse_fraction(none.high) > 0


def test_a_measured_value_has_the_interval_that_the_probe_wrote(shipped: Topology) -> None:
    key = "sites.UNIS.interfaces.T.up"
    for words, ends in (
        ("2026-11-22, 5 probes, 9.1 Mbit/s to 10.9 Mbit/s", (9_100_000, 10_900_000)),
        (
            "2026-11-22, 5 probes, 9 Mbit/s to 11 Mbit/s, at least: the other ends",
            (9e6, 11e6),
        ),
        ("2026-11-22, 1 probe", None),
    ):
        origin = Provenance(value="10 Mbit/s", by=words)
        measured = msgspec.structs.replace(shipped, provenance={key: origin})
        values = list(uncertain(measured, 0.2))
        assert bool(values) == (ends is not None)
        for value in values:
            assert (parse_rate(value.low), parse_rate(value.high)) == ends
            assert value.because == "measured"
