"""Risks of a plan, in sentences: memory, and interfaces that cost money."""

from collections.abc import Iterator

from mptune.apply._settings import Intent
from mptune.apply.plan import HostPlan, Outline
from mptune.units import format_size


def memory(intent: Intent, available: int | None, connections: int) -> str:
    """Memory of many connections with full buffers: send and receive buffer of each."""
    amount = 2 * intent.buffer_bytes
    whole = connections * amount
    number = "a connection" if connections == 1 else f"{connections:,} connections"
    buffers = f"{number} with full buffers: {format_size(whole, 3)}"
    if available is None:
        return (
            f"Memory of {buffers} (2 x {format_size(intent.buffer_bytes, 3)} each); free memory is unknown."
        )
    free = f"of {format_size(available, 3)} available, enough for {available // amount:,}"
    warning = " That exceeds the available memory." if whole > available else ""
    return f"Memory of {buffers} {free}.{warning}"


def metered(outlined: Outline, plan: HostPlan) -> Iterator[str]:
    """Interfaces that cost money and would be used."""
    topology = outlined.answered.topology
    sender = plan.part == "sender"
    ends = {path.label: (path.local if sender else path.remote) for path in topology.paths}
    for interface in plan.intent.site.interfaces:
        if not interface.metered:
            continue
        abbr = interface.abbr
        if any(ends[label].abbr == abbr for label in outlined.used):
            yield f"{abbr} is metered, and would carry data of every such connection."
        elif any(ends[label].abbr == abbr for label in outlined.standby):
            yield (
                f"{abbr} is metered: a standby subflow costs handshakes, and carries everything when the "
                "others fail."
            )
