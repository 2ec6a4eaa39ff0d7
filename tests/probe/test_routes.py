"""Routes: how they end, what paths share on them, and what becomes of it in the topology."""

import pytest

from mptune.probe.ends import Hop, Route
from mptune.probe.routes import Crossing, SharedHop, crossings, shared_hops, words

#: Two interfaces at each end.
FOUR = {"A-X": ("0", "0"), "A-Y": ("0", "1"), "B-X": ("1", "0"), "B-Y": ("1", "1")}


def route(*addresses: str | None, reached: bool = False, failed: str | None = None) -> Route:
    hops = [Hop(address=one, rtt_ns=None if one is None else 1) for one in addresses]
    return Route(hops=hops, reached=reached, failed=failed)


@pytest.mark.parametrize(
    ("one", "state", "line"),
    [
        (route("a", None, "z", reached=True), "reached", "a * z"),
        (route("a", "b", None, "b", "a", "b"), "loop", "a b * b (loop)"),
        (route("a", "b", "b"), "unfinished", "a b b ..."),
        (route("a", "b", "a", "z", reached=True), "reached", "a b a z"),
        (route("a", "b"), "unfinished", "a b ..."),
        (route(None, None), "silent", "no router answers"),
        (route(), "silent", "no router answers"),
        (route(failed="no buffer space"), "failed", "not traced: no buffer space"),
        (route("a", failed="no buffer space"), "unfinished", "a ..."),
    ],
)
def test_how_a_route_ends_is_named(one: Route, state: str, line: str) -> None:
    assert (one.state, words(one)) == (state, line)


def test_a_loop_of_thirty_hops_is_shown_once_around() -> None:
    assert words(route(*("a", "b", "c") * 10)) == "a b c a (loop)"


def test_routers_on_the_same_paths_are_one_segment_in_both_directions() -> None:
    hops = shared_hops(
        {
            "sender": {"A-X": route("a", "t", "u", "x", reached=True), "B-Y": route("b", "t", "u", None)},
            "receiver": {"A-X": route("x", "v", "a"), "B-Y": route("y", "v", "b")},
        }
    )
    ends = {label: FOUR[label] for label in ("A-X", "B-Y")}
    assert crossings(hops, ends) == [
        Crossing(paths=("A-X", "B-Y"), routers={"sender": ("t", "u"), "receiver": ("v",)})
    ]


def hop(*paths: str) -> SharedHop:
    return SharedHop(address="-".join(paths), end="sender", paths=paths)


def test_what_the_paths_of_one_interface_share_is_its_access_link() -> None:
    """Some of them may meet elsewhere."""
    assert crossings([hop("A-X", "A-Y"), hop("A-X", "B-X")], FOUR) == []
    assert [one.paths for one in crossings([hop("A-X", "B-Y"), hop(*FOUR)], FOUR)] == [
        ("A-X", "A-Y", "B-X", "B-Y"),
        ("A-X", "B-Y"),
    ]
    three = {"A-X": ("0", "0"), "A-Y": ("0", "1"), "A-Z": ("0", "2")}
    assert [one.paths for one in crossings([hop("A-X", "A-Y")], three)] == [("A-X", "A-Y")]
