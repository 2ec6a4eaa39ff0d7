"""Send or receive buffer too small for what the paths hold: the receiver's window, the sender's, or both."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import ROOM, Finding, Gaps, enough_bytes, mbps
from mptune.diagnosis.evidence import Buffers, Evidence, Settings
from mptune.units import format_size

#: One end's buffer is to blame if enlarging it alone brings this share of what both bring; a smaller share is
#: enough where it is at most half of the other.
_ALONE, _CLEARLY = 0.97, 0.9


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """Larger buffers bring more."""
    now, large = evidence.basis, evidence.large
    if now is None or large is None or gaps.buffers <= 0:
        return
    receive, send = _brings(evidence, "receive"), _brings(evidence, "send")
    settings, enough = evidence.settings, enough_bytes(evidence)
    ends = settings.receive_bytes, settings.send_bytes
    is_receiver = _is_alone(receive, gaps.buffers, *ends)
    is_sender = not is_receiver and _is_alone(send, gaps.buffers, *reversed(ends))
    gains = [f"{mbps(large.mbps)} with large buffers instead of {mbps(now.mbps)}"]
    for end, gain in (("send", send), ("receive", receive)):
        if gain is not None:
            gains.append(f"{mbps(now.mbps + gain)} with a large {end} buffer alone")
    if now.stalled:
        gains.append("as it is the connection stalls")
    limited = {name for flow in now.flows.values() for name, share in flow.limited.items() if share > 0.1}
    if limited:
        words = {"rwnd": "the receive window", "sndbuf": "the send buffer"}
        gains.append(f"the kernel waited for {' and '.join(words[name] for name in sorted(limited))}")
    yield Finding(
        kind="receive window" if is_receiver else "buffer",
        part="buffers",
        mbps=gaps.buffers,
        because=f"{_sizes(settings)}: {', '.join(gains)}; RTT x rate needs {format_size(enough // ROOM, 2)}",
        remedy=_remedy(enough, is_receiver=is_receiver, is_sender=is_sender),
    )


def _is_alone(gain: float | None, both: float, own: int, other: int) -> bool:
    """An end's larger buffer brings what both bring."""
    return gain is not None and gain >= (_CLEARLY if 2 * own <= other else _ALONE) * both


def _brings(evidence: Evidence, which: Buffers) -> float | None:
    """Gain of one larger buffer, Mbit/s; None if it was not tried."""
    now, one = evidence.basis, evidence.together(which, evidence.base)
    return None if now is None or one is None else one.mbps - now.mbps


def _sizes(settings: Settings) -> str:
    """The buffers as they are."""
    kind = "limit" if settings.autotuned else "size"
    if settings.send_bytes == settings.receive_bytes:
        return f"buffers ({kind}) {format_size(settings.send_bytes, 3)}"
    sizes = format_size(settings.send_bytes, 3), format_size(settings.receive_bytes, 3)
    return f"send buffer ({kind}) {sizes[0]}, receive buffer {sizes[1]}"


def _remedy(enough: int, *, is_receiver: bool, is_sender: bool) -> str:
    """The setting of the end that it is."""
    receiver = f'receiver: sysctl -w net.ipv4.tcp_rmem="4096 131072 {enough}"'
    sender = f'sender: sysctl -w net.ipv4.tcp_wmem="4096 16384 {enough}"'
    return receiver if is_receiver else sender if is_sender else f"{sender}; {receiver}"
