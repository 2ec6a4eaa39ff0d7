"""The subflows that the kernels of two hosts open by themselves, as they are set, and the lines for more.

Trials need none of it: their path managers open what they want.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mptune.linux.addresses import NamedInterface, Side
from mptune.linux.path_manager import End, Network, Prediction, commands, end_of, mend, predict
from mptune.linux.path_manager.prediction import Pair, because
from mptune.testbeds._host_facts import HostFacts
from mptune.topology import Path, Topology
from mptune.trial import FAMILIES

#: Any address, by family: packets from there leave with the one that routing selects.
ANY = {"ipv4": "0.0.0.0", "ipv6": "::"}


class PathSubflow(msgspec.Struct, frozen=True, kw_only=True):
    """A path between own addresses of both hosts.

    Attributes
    ----------
    comes_up : None if it depends on which packets arrive first.
    first : the connection begins there.
    because : why it does not come up, or not surely; empty if it does.
    """

    path: str
    client: str
    server: str
    comes_up: bool | None
    standby: bool
    first: bool
    because: str


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """Subflows of connections between two hosts.

    Attributes
    ----------
    client, server : names of the hosts, that of who opens connections first.
    numbers : of subflows that there can be, ascending.
    lines : by name of a host, the commands for the paths that are missing.
    with_lines : paths that surely have a subflow then.
    """

    client: str
    server: str
    numbers: tuple[int, ...]
    paths: tuple[PathSubflow, ...]
    lines: Mapping[str, tuple[str, ...]]
    with_lines: int


def asked(own: Sequence[NamedInterface], others: Sequence[NamedInterface]) -> list[tuple[str, str]]:
    """Pairs of addresses, of which the first is any, whose route shows what routing selects."""
    reached = [(family, interface.reached_at(family)) for interface in others for family in FAMILIES]
    there = {family for interface in own for family in FAMILIES if interface.address(family) is not None}
    return [(ANY[family], to) for family, to in dict.fromkeys(reached) if to is not None and family in there]


def between(
    topology: Topology,
    facts: Mapping[Side, HostFacts],
    named: Mapping[Side, Sequence[NamedInterface]],
    leaves: Sequence[Mapping[str, Any]],
) -> Between | None:
    """The subflows of connections that the sender's host opens; None if its settings could not be read.

    Parameters
    ----------
    leaves : of the sender's host, by which device packets leave (`asked` too).
    """
    ours = {interface.index: interface for interface in named["local"]}
    theirs = {interface.index: interface for interface in named["remote"]}
    ends = {side: _end(facts[side], named[side]) for side in facts}
    pairs = dict(_pairs(topology.paths, ours, theirs))
    client, server = ends.get("local"), ends.get("remote")
    if client is None or server is None or topology.initial_path not in pairs:
        return None
    here, there = pairs[topology.initial_path]
    first = here, server.seen(there)
    routed, cut = _blocked(client, named["local"], leaves)
    network = Network(
        blocked=routed | cut, selected=_selected(named["local"], leaves), dual=":" in here and ":" in there
    )
    found = predict(client, server, first, network)
    # Lines for routes are given with the interfaces.
    mended = mend(
        client,
        server,
        first,
        {pair for pair in pairs.values() if network.dual or (":" in pair[0]) == (":" in here)},
        msgspec.structs.replace(network, blocked=cut),
        {
            address: interface.device
            for interface in ours.values()
            for address in (interface.ipv4, interface.ipv6)
            if address
        },
    )
    names = {side: facts[side].name for side in facts}
    return Between(
        client=names["local"],
        server=names["remote"],
        numbers=found.numbers,
        paths=tuple(
            _path(label, pair, client, server, first, network, found) for label, pair in pairs.items()
        ),
        lines={
            names["local"]: tuple(commands(mended.client, client)),
            names["remote"]: tuple(commands(mended.server, server)),
        },
        with_lines=len(set(pairs.values()) & mended.prediction.surely),
    )


def _pairs(
    paths: Sequence[Path], ours: Mapping[int, NamedInterface], theirs: Mapping[int, NamedInterface]
) -> Iterator[tuple[str, Pair]]:
    """Own addresses of both hosts by path, of IPv4 where both have it; not of interfaces that are missing."""
    for path in paths:
        here, there = ours.get(path.local_index), theirs.get(path.remote_index)
        if here is None or there is None:
            continue
        for family in FAMILIES:
            pair = here.address(family), there.address(family)
            if pair[0] is not None and pair[1] is not None:
                yield path.label, (pair[0], pair[1])
                break


def _end(facts: HostFacts, named: Sequence[NamedInterface]) -> End | None:
    own = [each["ip"] for device in facts.looked["interfaces"] for each in device["addresses"]]
    outside = {
        address: interface.public[family]
        for interface in named
        for family in FAMILIES
        if family in interface.public and (address := interface.address(family)) is not None
    }
    return end_of(facts.looked, tuple(own), outside)


def _blocked(
    client: End, own: Sequence[NamedInterface], leaves: Sequence[Mapping[str, Any]]
) -> tuple[dict[Pair, str], dict[Pair, str]]:
    """Pairs whose packets leave by another device, which rules mend, and those that have no route."""
    devices = {address: interface.device for interface in own for address in (interface.ipv4, interface.ipv6)}
    bound = {endpoint.address for endpoint in client.endpoints if endpoint.device is not None}
    routed: dict[Pair, str] = {}
    cut: dict[Pair, str] = {}
    for way in leaves:
        pair = way["from"], way["to"]
        if pair[0] not in devices:
            continue
        if way["device"] is None:
            cut[pair] = f"no route leads from {pair[0]} to {pair[1]}"
        elif way["device"] != devices[pair[0]] and pair[0] not in bound:
            routed[pair] = f"packets from {pair[0]} leave by {way['device']}"
    return routed, cut


def _selected(own: Sequence[NamedInterface], leaves: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """By address of the other host, the own one by whose device packets leave; None without a route."""
    found: dict[str, str | None] = {}
    for way in leaves:
        family = next((name for name, text in ANY.items() if text == way["from"]), None)
        if family is None:
            continue
        by = (interface.address(family) for interface in own if interface.device == way["device"])
        address = next((text for text in by if text is not None), None)
        # By another device than those of the file: as where connections begin.
        if address is not None or way["device"] is None:
            found[way["to"]] = address
    return found


def _path(
    label: str, pair: Pair, client: End, server: End, first: Pair, network: Network, found: Prediction
) -> PathSubflow:
    there = [
        subflow for each in found.possible for subflow in each if (subflow.client, subflow.server) == pair
    ]
    sure = pair in found.surely
    why = "" if sure else because(client, server, first, pair, network, found)
    if there and not sure:
        why = f"that depends on which packets arrive first: {why}"
    return PathSubflow(
        path=label,
        client=pair[0],
        server=pair[1],
        comes_up=True if sure else None if there else False,
        standby=any(subflow.backup for subflow in there),
        first=pair[0] == first[0] and server.own(first[1]) == pair[1],
        because=why,
    )
