"""Packets made by hand, and captures of them: any link type, both formats, both byte orders."""

import ipaddress
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FIN, SYN, RST, ACK = 1, 2, 4, 16
CLIENT, SERVER = "10.0.0.1", "10.0.1.1"


def mptcp(*body: bytes | int) -> bytes:
    """An option of MPTCP; numbers are single bytes."""
    content = b"".join(bytes([part]) if isinstance(part, int) else part for part in body)
    return bytes([30, len(content) + 2]) + content


def capable(*keys: int, version: int = 1) -> bytes:
    """MP_CAPABLE."""
    return mptcp(version, 1, *(key.to_bytes(8, "big") for key in keys))


def dss(
    data: int | None = None, subflow: int = 0, length: int = 0, ack: int | None = None, *, fin: bool = False
) -> bytes:
    """DSS with numbers of 8 bytes."""
    flags = (3 if ack is not None else 0) | (12 if data is not None else 0) | 16 * fin
    body = b"" if ack is None else (ack % 2**64).to_bytes(8, "big")
    if data is not None:
        body += struct.pack(">QIH", data % 2**64, subflow, length)
    return mptcp(0x20, flags, body)


def tcp(
    *,
    ports: tuple[int, int] = (40000, 80),
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    window: int = 1000,
    options: bytes = b"",
    payload: int = 0,
    way: tuple[str, str] = (CLIENT, SERVER),
) -> bytes:
    """A packet of IP; the family follows from the addresses."""
    options += b"\1" * (-len(options) % 4)
    header = struct.pack(
        ">HHIIBBHHH", *ports, seq % 2**32, ack % 2**32, (20 + len(options)) << 2, flags, window, 0, 0
    )
    segment = header + options + bytes(payload)
    source, target = (ipaddress.ip_address(address).packed for address in way)
    if len(source) == 16:
        return struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + source + target + segment
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0)
    return head + source + target + segment


class Sent(NamedTuple):
    """A frame at a time."""

    at_ns: int
    frame: bytes


def exchange(
    packets: Iterable[tuple[float, int, Mapping[str, object]]],
    ends: tuple[str, str] = (CLIENT, SERVER),
    ports: tuple[int, int] = (40000, 80),
) -> list[Sent]:
    """Packets of a flow: time in ms, way (0 is the client's), and what `tcp` takes."""
    made = []
    for at_ms, way, fields in packets:
        turned = {"way": ends, "ports": ports} if way == 0 else {"way": ends[::-1], "ports": ports[::-1]}
        made.append(Sent(round(at_ms * 1e6), tcp(**{**turned, **fields})))  # type: ignore[arg-type]
    return made


def pcap(
    frames: Iterable[Sent], *, link: int = 101, order: str = "<", nano: bool = True, snap: int = 65535
) -> bytes:
    """A capture in the old format."""
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    content = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)
    for at_ns, frame in frames:
        kept = frame[:snap]
        seconds, rest = divmod(at_ns, 10**9)
        content += struct.pack(order + "IIII", seconds, rest // unit, len(kept), len(frame)) + kept
    return content


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of pcapng."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(frames: Iterable[Sent], *, link: int = 101, order: str = "<", resolution: int = 9) -> bytes:
    """A capture in the new format with one interface, whose ticks are 10^-`resolution` seconds."""
    content = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack(order + "HHBxxxHH", 9, 1, resolution, 0, 0)
    content += block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)
    for at_ns, frame in frames:
        ticks = at_ns * 10**resolution // 10**9
        head = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
        content += block(order, 6, head + frame)
    return content


def written(path: Path, frames: Sequence[Sent]) -> Path:
    """A capture of packets of IP, in order of time."""
    path.write_bytes(pcap(sorted(frames)))
    return path
