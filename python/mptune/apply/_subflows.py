"""The subflows of a connection between the two machines of a run: as they are set now, and with a plan.

Both have to have been read. Routing and what lies between them are taken to be as in the trials.
"""

from collections.abc import Mapping

import msgspec

from mptune._text import number_of
from mptune.apply._settings import Present, own_addresses
from mptune.apply.plan import HostPlan, Outline, Part
from mptune.linux.path_manager import End, Network, Prediction, predict
from mptune.linux.path_manager.commands import after
from mptune.linux.path_manager.prediction import Pair, because
from mptune.topology import FAMILIES, Path
from mptune.trial import DEFAULT_FAMILY


class Subflows(msgspec.Struct, frozen=True, kw_only=True):
    """Subflows of a connection.

    Attributes
    ----------
    now, then : paths that surely have one, as the machines are set and with the settings of the plan.
    missing : by path of the plan that has none even then, why.
    text : the same in sentences.
    """

    now: tuple[str, ...]
    then: tuple[str, ...]
    missing: Mapping[str, str]
    text: tuple[str, ...]


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: its end, and by interface and family its own address."""

    end: End
    own: tuple[dict[str, str], ...]


def subflows(outlined: Outline, machines: Mapping[Part, tuple[HostPlan, Present]]) -> Subflows | None:
    """Subflows of a connection; None if a machine was not read, or only root may read its endpoints."""
    sides = {part: _side(plan, present) for part, (plan, present) in machines.items()}
    accepts: Part = "receiver" if outlined.opener == "sender" else "sender"
    client, server = sides.get(outlined.opener), sides.get(accepts)
    if client is None or server is None:
        return None
    plans = {part: plan for part, (plan, _) in machines.items()}
    if plans[outlined.opener].intent.limits is None:
        # Plain TCP, or a daemon's connections.
        return None
    pairs = {
        path.label: pair
        for path in outlined.answered.topology.paths
        if (pair := _pair(path, outlined, client, server)) is not None
    }
    if outlined.initial not in pairs:
        return None
    here, there = pairs[outlined.initial]
    first = here, server.end.seen(there)
    network = Network(selected=_selected(pairs, here, server), dual=plans[outlined.opener].intent.dual)
    ends = tuple(
        after(side.end, plans[part].settings) for side, part in ((client, outlined.opener), (server, accepts))
    )
    now = predict(client.end, server.end, first, network)
    then = predict(ends[0], ends[1], first, network)
    planned = (*outlined.used, *outlined.standby)
    missing = {
        label: because(ends[0], ends[1], first, pairs[label], network, then)
        for label in planned
        if label in pairs and pairs[label] not in then.surely
    }
    return Subflows(
        now=_labels(pairs, now),
        then=_labels(pairs, then),
        missing=missing,
        text=_text(pairs, now, then, missing),
    )


def _side(plan: HostPlan, present: Present) -> _Side | None:
    if present.end is None:
        return None
    own = tuple(own_addresses(interface, present) for interface in plan.intent.site.interfaces)
    outside: dict[str, str] = {}
    for interface, addresses in zip(plan.intent.site.interfaces, own, strict=True):
        for family, address in addresses.items():
            given = interface.address(family)
            if given is not None and given not in present.end.addresses:
                outside[address] = given
    return _Side(end=msgspec.structs.replace(present.end, outside=outside), own=own)


def _pair(path: Path, outlined: Outline, client: _Side, server: _Side) -> Pair | None:
    """Own addresses of both ends of a path; None where one has none."""
    family = path.family or outlined.answered.answer.family or DEFAULT_FAMILY
    family = family if family in FAMILIES else DEFAULT_FAMILY
    ends = path.local_index, path.remote_index
    ours, theirs = ends if outlined.opener == "sender" else ends[::-1]
    here, there = client.own[ours].get(family), server.own[theirs].get(family)
    return None if here is None or there is None else (here, there)


def _selected(pairs: Mapping[str, Pair], here: str, server: _Side) -> dict[str, str | None]:
    """Routing selects the address where connections begin, or the first of the other family."""
    found: dict[str, str | None] = {}
    for ours, theirs in ((here, there) for _, there in pairs.values()):
        if (":" in ours) == (":" in theirs):
            found[server.end.seen(theirs)] = ours
    return found


def _labels(pairs: Mapping[str, Pair], found: Prediction) -> tuple[str, ...]:
    return tuple(label for label, pair in pairs.items() if pair in found.surely)


def _text(
    pairs: Mapping[str, Pair], now: Prediction, then: Prediction, missing: Mapping[str, str]
) -> tuple[str, ...]:
    before, with_plan = (_labels(pairs, each) for each in (now, then))
    sentences = [
        f"As the machines are set now, a connection surely has {number_of(len(before), 'subflow')} "
        f"({', '.join(before)}); with these settings {len(with_plan)} ({', '.join(with_plan)})."
    ]
    sentences.extend(f"{label} is missing even then: {reason}." for label, reason in missing.items())
    return tuple(sentences)
