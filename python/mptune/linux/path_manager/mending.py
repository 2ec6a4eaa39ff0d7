"""The few settings of both ends with which the wanted subflows come up.

As little as possible is changed: what is there stays unless it is in the way, and limits are only raised.
Every proposal is predicted before it is made.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec

from mptune.linux.path_manager import nearest as nearest_set
from mptune.linux.path_manager.commands import after, commands
from mptune.linux.path_manager.ends import ENABLED, JOINS, KERNEL, End, Network
from mptune.linux.path_manager.nearest import FLAGS
from mptune.linux.path_manager.prediction import Pair, Prediction, predict

Setting = dict[str, Any]
Keep = Literal["all", "planned"]


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that mend a connection, and its subflows with them.

    Attributes
    ----------
    client, server : settings, as the agent's role `settings` takes them (`commands` has them as lines).
    prediction : with them.
    """

    client: tuple[Setting, ...]
    server: tuple[Setting, ...]
    prediction: Prediction


def mend(
    client: End,
    server: End,
    first: Pair,
    wanted: Collection[Pair],
    network: Network | None = None,
    devices: Mapping[str, str] | None = None,
) -> Mended:
    """The settings with which all wanted pairs of own addresses get a subflow, or as many as can.

    Parameters
    ----------
    first : as in `predict`.
    wanted : pairs of one family of addresses.
    devices : of own addresses, by which their subflows have to leave.
    """
    network = network or Network()
    wanted = {(first[0], server.own(first[1]) or first[1]), *wanted}
    tried: list[tuple[int, int, Mended]] = []
    for proposal in _proposals(client, server, first, wanted, devices or {}):
        there, here = after(client, proposal[0]), after(server, proposal[1])
        found = predict(there, here, first, network)
        lines = len(commands(proposal[0], client)) + len(commands(proposal[1], server))
        missing = len(wanted - found.surely)
        mended = Mended(client=proposal[0], server=proposal[1], prediction=found)
        tried.append((missing, lines, mended))
        if not missing:
            break
    return min(tried, key=lambda each: each[:2])[2]


def _proposals(
    client: End, server: End, first: Pair, wanted: set[Pair], devices: Mapping[str, str]
) -> Iterator[tuple[tuple[Setting, ...], tuple[Setting, ...]]]:
    """Settings of the client and of the server: first without taking anything away."""
    yield (), ()
    there = server.own(first[1]) or first[1]
    barred = not server.joins and any(theirs == there and ours != first[0] for ours, theirs in wanted)
    for opens in (False, True) if barred else (False,):
        for keep in ("all", "planned"):
            yield _proposal(client, server, (first[0], there), wanted, devices, keep=keep, opens=opens)


def _proposal(
    client: End,
    server: End,
    first: Pair,
    wanted: set[Pair],
    devices: Mapping[str, str],
    *,
    keep: Keep,
    opens: bool,
) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    ours = list(dict.fromkeys([first[0], *(pair[0] for pair in sorted(wanted))]))
    theirs = list(dict.fromkeys([first[1], *(pair[1] for pair in sorted(wanted))]))
    asked = {(ours.index(here), theirs.index(there)) for here, there in wanted}
    most = min(client.most_subflows, client.most_endpoints, server.most_subflows)
    chosen = nearest_set.nearest((len(ours), len(theirs)), (0, 0), asked, most=most)
    uses = {ours[number]: FLAGS[use] for number, use in enumerate(chosen.uses) if use != "none"}
    told = [server.seen(theirs[number]) for number in chosen.announced]
    exact = keep == "planned"
    endpoints = [_endpoint(client, here, flags, devices.get(here), exact) for here, flags in uses.items()]
    signals = [_endpoint(server, address, ("signal",), None, exact) for address in told]
    number = len(nearest_set.used(chosen).active) - 1
    # What others open, and what is tried in vain, has its place within the limits too.
    further = 0 if exact else _count(client, "subflow", uses)
    vain = 0 if exact else _count(server, "subflow") + _count(client, "signal")
    return (
        (
            *_enabled(client),
            *(_absent(client, uses, ("subflow", "fullmesh", "signal")) if exact else ()),
            *endpoints,
            *_limits(client, number + further, len(told)),
        ),
        (
            *_enabled(server),
            *([_sysctl(JOINS, "1")] if opens else []),
            *(_absent(server, told, ("subflow",)) if exact else ()),
            *signals,
            *_limits(server, number + further + vain, 0),
        ),
    )


def _sysctl(name: str, value: str) -> Setting:
    return {"kind": "sysctl", "name": name, "value": value}


def _enabled(end: End) -> Iterator[Setting]:
    if not end.enabled:
        yield _sysctl(ENABLED, "1")
    if not end.managed:
        name, value = KERNEL[end.release < (6, 15)]
        yield _sysctl(name, value)


def _endpoint(end: End, address: str, flags: tuple[str, ...], device: str | None, exact: bool) -> Setting:
    """An endpoint with these flags; one that is there stays standby, and unless `exact` what it is."""
    there = end.endpoint(address)
    if there is not None and "implicit" not in there.flags:
        if set(flags) <= set(there.flags) and not exact:
            flags = there.flags
        else:
            stays = ("backup", "laminar")
            flags = (*flags, *(flag for flag in there.flags if flag in stays and flag not in flags))
    return {"kind": "endpoint", "address": address, "device": device, "flags": list(flags)}


def _absent(end: End, planned: Collection[str], harmful: Collection[str]) -> Iterator[Setting]:
    """Endpoints that open subflows nobody wants, or try in vain and take the place of others."""
    for endpoint in end.endpoints:
        # From outside nobody reaches an address behind NAT.
        inner = endpoint.address in end.outside and "signal" in endpoint.flags
        if (
            endpoint.address not in planned
            and not endpoint.port
            and (inner or set(endpoint.flags) & set(harmful))
        ):
            yield {"kind": "endpoint", "address": endpoint.address, "absent": True}


def _count(end: End, flag: str, but: Collection[str] = ()) -> int:
    """Endpoints with a flag, at other addresses."""
    return sum(flag in endpoint.flags and endpoint.address not in but for endpoint in end.endpoints)


def _limits(end: End, subflows: int, accepted: int) -> Iterator[Setting]:
    now = end.limits
    most = end.most_subflows
    raised = {
        "subflows": max(now.subflows, min(subflows, most)),
        "add_addr_accepted": max(now.add_addr_accepted, min(accepted, most)),
    }
    if raised != msgspec.structs.asdict(now):
        yield {"kind": "limits", **raised}
