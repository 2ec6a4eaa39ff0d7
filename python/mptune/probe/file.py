"""A probe's findings as a topology file: text for people and for `mptune.topology`.

Every value states its measurement, or why it is assumed. Findings without a key become comments: losses of
the other direction, packet sizes, address translation, what becomes of MPTCP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from mptune import units
from mptune._text import bounded, number_of, visible
from mptune.probe import routes
from mptune.probe.ends import ENDS
from mptune.probe.estimates import Estimate, Loss, Queue
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound
from mptune.topology import OVER_IPV6

#: Significant digits: no measurement is more precise.
_DIGITS = 4
#: Most shared segments that a topology file takes.
_MOST_SHARED = 8
#: Kinds of paths on which connections may begin.
_BEGINS = ("full", "joins refused")
#: The word where MPTCP passes, which is written only beside another family that it does not pass in.
_CARRIED = "full"
#: Fate of MPTCP by its word in the topology file; paths of machines without MPTCP have none.
_CARRIES = {
    "joins refused": "first",
    "stripped on SYN": "none",
    "stripped later": "none",
    "mirrored": "none",
    "blocked": "none",
    "unreachable": "none",
}


def text(found: Probed, name: str) -> str:
    """The file.

    Parameters
    ----------
    name : of the topology.
    """
    return "\n".join(_lines(found, name)) + "\n"


def keys(found: Probed) -> tuple[str, str]:
    """Keys of the two sites in the file."""
    sender, receiver = _key(found.sender.name), _key(found.receiver.name)
    return (sender, receiver) if sender != receiver else (f"{sender}-1", f"{receiver}-2")


def _key(name: str) -> str:
    host = name.rpartition("@")[2]
    short = host if re.fullmatch(r"[0-9.:\[\]]+", host) else host.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9-]+", "-", short).strip("-").upper() or "SITE"


def _lines(found: Probed, name: str) -> Iterator[str]:
    sender, receiver = keys(found)
    effort = f"in {found.seconds:.0f} s and {found.bytes / 1e6:.1f} MB"
    yield f"# Measured by mptune probe on {found.when}, {effort}."
    for note in found.notes:
        yield f"# {_one_line(note)}"
    for label in found.leaving:
        yield f"# {label}. To correct it:"
        yield from (f"#   {line}" for line in label.remedy)
    yield f"name = {_quoted(bounded(visible(name), 64))}"
    yield f'description = "{number_of(len(found.paths), "path")}, measured on {found.when}"'
    yield f"sender = {_quoted(sender)}"
    yield f"receiver = {_quoted(receiver)}"
    first = [pair[0] for pair in found.pairs]
    begins = [path for path in first if path.mptcp is not None and path.mptcp.kind in _BEGINS]
    if begins and begins[0] is not first[0]:
        where = _pair(begins[0])
        value = _value(where, "measured", f"{found.when}, connections begin here and stay MPTCP")
        yield f"initial_path = {value}"
    for key, site in ((sender, found.sender), (receiver, found.receiver)):
        yield from _site(key, site, found.when)
    longest = max((path.base_rtt_ns for path in found.paths if path.base_rtt_ns is not None), default=None)
    for pair in found.pairs:
        yield from _segment(pair, found, longest)
    yield from _shared(found)


def _site(key: str, site: SiteFound, when: str) -> Iterator[str]:
    yield ""
    yield f"[sites.{key}]"
    yield f"name = {_quoted(bounded(visible(site.name), 200))}"
    if site.ssh is not None:
        yield f"ssh = {_quoted(site.ssh)}"
    for interface in site.interfaces:
        yield from _interface(key, interface, when, known=site.ssh is not None)


def _interface(key: str, interface: InterfaceFound, when: str, *, known: bool) -> Iterator[str]:
    """An interface; unless it is `known` how to reach its site, rates must not be missing."""
    nic = interface.nic
    yield ""
    yield f"[[sites.{key}.interfaces]]"
    yield f"isp = {_quoted(nic.device)}"
    yield f"abbr = {_quoted(nic.abbr)}"
    yield f"device = {_quoted(nic.device)}"
    for family, ip in (("ipv4", nic.ipv4), ("ipv6", nic.ipv6)):
        if ip is not None:
            yield f"{family} = {_quoted(ip)}"
    for way, rate, queue in (
        ("up", interface.up, interface.queue_up),
        ("down", interface.down, interface.queue_down),
    ):
        if rate is not None:
            yield f"{way} = {_rate(rate, when)}"
        elif not known:
            yield f"{way} = {_value('1 Mbit/s', 'assumed', 'nothing came through: not measured')}"
        else:
            yield f"# {way}: nothing came through"
        if queue is not None:
            yield f"queue_{way} = {_queue(queue, when)}"
    yield f"delay = {_value('0 ms', 'assumed', 'the RTT of a path is known, not where it arises')}"
    yield f"loss = {_value('0 %', 'assumed', 'the loss of a path is known, not where it arises')}"


def _segment(pair: Sequence[PathFound], found: Probed, longest: int | None) -> Iterator[str]:
    """The segment of a pair of interfaces: the values of its first path that lets anything through."""
    when = found.when
    path = next((path for path in pair if path.rtt is not None), pair[0])
    yield ""
    for each in pair:
        yield from (f"# {_one_line(remark)}" for remark in _remarks(each))
        if each is not path:
            yield from (f"# {_one_line(remark)}" for remark in _values(each))
    yield "[[core.segments]]"
    yield f"path = {_quoted(_pair(path))}"
    rtt = path.rtt
    if rtt is not None and path.base_rtt_ns is not None:
        shown = f"{_ms(rtt.min_ns)}, median {_ms(rtt.median_ns)}, 95 % below {_ms(rtt.p95_ns)}"
        how = f"{when}, smallest of {rtt.samples}: {shown}"
        yield f"rtt = {_value(units.format_time(path.base_rtt_ns, _DIGITS), 'measured', how)}"
        jitter = rtt.median_ns - rtt.min_ns
        origin = f"{when}, the median RTT above the smallest"
        yield f"jitter = {_value(units.format_time(jitter, 3), 'measured', origin)}"
    elif found.sender.ssh is None or found.receiver.ssh is None:
        assumed = units.format_time(longest or 100_000_000, _DIGITS)
        yield f"rtt = {_value(assumed, 'assumed', 'nothing came through: not measured')}"
    if path.up.loss is not None:
        yield f"loss = {_loss(path.up.loss, when)}"
    elif rtt is None:
        yield f"loss = {_value('99 %', 'assumed', 'nothing came through')}"
    yield from _mptcp(pair, when)
    if path.core_bps is not None:
        value = units.format_rate(round(path.core_bps), _DIGITS)
        how = f"{when}, slower than both access links"
        yield f"rate = {_value(value, 'measured', how)}"
        queue = path.up.queue or path.down.queue
        if queue is not None:
            yield f"queue = {_queue(queue, when)}"


def _mptcp(pair: Sequence[PathFound], when: str) -> Iterator[str]:
    """Fate of MPTCP on the first path of a pair, and over IPv6 beside it, where that differs."""
    words = [None if path.mptcp is None else _CARRIES.get(path.mptcp.kind) for path in pair]
    for key, path, word in zip(("mptcp", "mptcp_ipv6"), pair, words, strict=False):
        if path.mptcp is None or (word == words[0] if key == "mptcp_ipv6" else word is None):
            continue
        how = f"{when}, {path.mptcp.kind}: {path.mptcp.because}"
        yield f"{key} = {_value(word or _CARRIED, 'measured', how)}"


def _pair(path: PathFound) -> str:
    """Name of a path's pair of interfaces in the file."""
    return path.label.removesuffix(OVER_IPV6)


def _shared(found: Probed) -> Iterator[str]:
    """Segments that paths share; nothing is known of their rates."""
    crossings = found.crossings
    for number, crossing in enumerate(crossings[:_MOST_SHARED], 1):
        both = " and ".join(
            f"{' '.join(crossing.routers[end])} to the {routes.TO[end]}"
            for end in ENDS
            if end in crossing.routers
        )
        yield ""
        yield "[[core.shared]]"
        yield f'name = "shared{number}"'
        labels = (label.removesuffix(OVER_IPV6) for label in crossing.paths)
        yield f"paths = [{', '.join(map(_quoted, labels))}]"
        yield f"measured = {_quoted(bounded(f'{found.when}, on the routes of these paths: {both}', 4000))}"
        yield "# rate: not known; a rate given here limits these paths together"
    if len(crossings) > _MOST_SHARED:
        yield f"# {len(crossings) - _MOST_SHARED} more groups of paths share routers"


def _remarks(path: PathFound) -> Iterator[str]:
    if path.mptcp is not None:
        yield f"{path.label}: MPTCP {path.mptcp.kind}: {path.mptcp.because}"
    if path.translated:
        yield f"{path.label}: the receiver sees {path.source}: an address translation (NAT)"
    if not path.udp and path.rtt is not None:
        yield f"{path.label}: UDP does not come through; measured by TCP"
    for word, way in (("to the receiver", path.up), ("to the sender", path.down)):
        if way.mtu is not None and way.mtu_next is not None:
            yield f"{path.label}: packets of at most {way.mtu} bytes {word}"
        if way.rate is not None:
            yield f"{path.label}: {rate_in_words(way.rate)} {word} ({way.how})"
        if way.route is not None and way.route.hops:
            yield f"{path.label}: route {word}: {routes.words(way.route)}"
    if path.down.loss is not None and path.down.loss.lost:
        yield f"{path.label}: {path.down.loss.lost} of {path.down.loss.sent} packets lost to the sender"


def _values(path: PathFound) -> Iterator[str]:
    """Values of a path that stand in the file only as those of the other family."""
    if path.base_rtt_ns is not None:
        yield f"{path.label}: RTT {_ms(path.base_rtt_ns)}"
    if path.up.loss is not None and path.up.loss.lost:
        yield f"{path.label}: {path.up.loss.lost} of {path.up.loss.sent} packets lost to the receiver"


def _rate(rate: Estimate, when: str) -> str:
    value = units.format_rate(round(rate.value), _DIGITS)
    low, high = (units.format_rate(round(number), _DIGITS) for number in (rate.low, rate.high))
    count = f"{rate.samples} probe{'s' if rate.samples > 1 else ''}"
    bound = ", at least: the other ends may be the limit" if rate.at_least else ""
    return _value(value, "measured", f"{when}, {count}, {low} to {high}{bound}")


def _queue(queue: Queue, when: str) -> str:
    filled = "at least: it never overflowed" if queue.at_least else "where it overflowed"
    # A queue has room for a packet, whatever was seen.
    size = units.format_size(max(1500, round(queue.bytes, -2)))
    return _value(size, "measured", f"{when}, {filled}, {_ms(queue.delay_ns)}")


def _loss(loss: Loss, when: str) -> str:
    low, high = (units.format_fraction(round(number * 1e9), 2) for number in loss.interval)
    how = f"{when}, {loss.lost} of {loss.sent} packets, {low} to {high}"
    return _value(units.format_fraction(min(round(loss.share * 1e9), 999_000_000), 3), "measured", how)


def rate_in_words(rate: Estimate) -> str:
    """A rate with its spread."""
    value = units.format_rate(round(rate.value), _DIGITS)
    return f"{'at least ' if rate.at_least else ''}{value} (spread {100 * rate.spread:.1f} %)"


def _ms(ns: int) -> str:
    return units.format_time(ns, _DIGITS)


def _value(value: str, origin: str, why: str) -> str:
    return f"{{ value = {_quoted(value)}, {origin} = {_quoted(_one_line(why))} }}"


def _quoted(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def _one_line(words: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())
