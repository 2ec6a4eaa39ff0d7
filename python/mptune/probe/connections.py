"""Connections on every path, with MPTCP and as plain TCP beside it: what becomes of MPTCP at the handshake.

Plain connections stay open: `transfers` uses them where trains of datagrams do not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mptune.errors import TrialError
from mptune.probe import estimates
from mptune.probe.echoes import Greeted
from mptune.probe.ends import ENDS, host_of
from mptune.probe.estimates import RoundTrip
from mptune.probe.preparation import Prepared
from mptune.probe.verdicts import Tried

#: Patience, ns: before the kernel gives up MPTCP on a path for all connections.
_CONNECT_NS, _DATA_NS = 2_500_000_000, 4_000_000_000


@dataclass
class Connections:
    """Fate of the connections.

    Attributes
    ----------
    tried : by path, with MPTCP and without.
    plain : by path, the plain connection that is open.
    no_mptcp : why no connection can be MPTCP; None if it can.
    rtts, sources : by path, where no datagram gave them.
    """

    tried: dict[int, tuple[Tried, Tried]]
    no_mptcp: str | None
    plain: dict[int, int] = field(default_factory=dict)
    rtts: dict[int, RoundTrip] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)


def connect(prepared: Prepared, greeted: Greeted) -> Connections:
    """Open connections on all possible paths at once, and use them.

    Raises
    ------
    TrialError : no path lets anything through.
    """
    numbers, ends = prepared.possible, prepared.ends
    found = Connections({}, _unsupported(prepared))
    tried: dict[tuple[int, bool], Tried] = {}
    for mptcp in (False, True):
        opened = ends.connect(numbers, mptcp=mptcp, limit_ns=_CONNECT_NS)
        alive = [connected.id for connected in opened if connected.failed is None]
        steps = [{"ping": 3}, {"upload": 4000}, {"download": 4000}, {"ping": 2}]
        asked = dict(zip(alive, ends.ask(alive, steps, limit_ns=_DATA_NS), strict=True))
        for path, connected in zip(numbers, opened, strict=True):
            answer = asked.get(connected.id)
            tried[path, mptcp] = Tried(
                connected=connected.failed is None,
                data=answer is not None and answer.failed is None,
                at_handshake=connected.view.mptcp,
                near=answer is not None and answer.view.mptcp,
                far=answer is not None and answer.served is not None and answer.served.mptcp,
                syn_ack=connected.syn_ack,
                failed=connected.failed or (None if answer is None else answer.failed),
            )
            if mptcp or answer is None or answer.failed is not None:
                ends.end([connected.id])
                continue
            found.plain[path] = connected.id
            if path not in greeted.udp:
                rtt = estimates.round_trip([answer.pings_ns], [min(answer.pings_ns)])
                found.rtts |= {} if rtt is None else {path: rtt}
                found.sources |= {} if answer.source is None else {path: host_of(answer.source)}
    found.tried = {path: (tried[path, True], tried[path, False]) for path in numbers}
    if not greeted.udp and not found.plain:
        raise TrialError(_nothing_gets_through(prepared, found.tried), "unreachable")
    return found


def _unsupported(prepared: Prepared) -> str | None:
    """Why a machine cannot do MPTCP."""
    for end in ENDS:
        if (reason := prepared.facts[end].get("mptcp")) is not None:
            return f"{prepared.machines[end].name}: {reason}"
    return prepared.ends.plain_because


def _nothing_gets_through(prepared: Prepared, tried: Mapping[int, Sequence[Tried]]) -> str:
    """That no path reaches the receiver, and what to do."""
    sender, receiver = (prepared.machines[end].name for end in ENDS)
    reasons = sorted({f"{prepared.label(path)}: {plain.failed}" for path, (_, plain) in tried.items()})
    return (
        f"nothing gets through to {receiver} ({', '.join(prepared.addresses['receiver'])}): UDP is lost, "
        f"TCP {'; '.join(reasons)}. Behind a NAT it cannot be reached: probe the other way round, "
        f"mptune probe {receiver} {sender}, which measures both directions as well. "
        "Behind a firewall: let --port in, UDP and TCP"
    )
