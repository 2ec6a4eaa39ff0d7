"""Known properties of paths between real hosts, whose topology file may leave out rates and RTTs.

The values themselves have a placeholder (`_sites.UNKNOWN`), so whoever computes with them asks here first.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from mptune.topology._sites import Path, Site


class Known(NamedTuple):
    """Numbers of a path as its own properties have them; None is not known."""

    rate_bps: int | None
    base_rtt_ns: int | None
    queue_bytes: int | None
    bdp_bytes: int | None


def known(path: Path, sender: Site, receiver: Site, missing: Collection[str]) -> Known:
    """Known properties of a path: rate and queue are those of the slowest link, whichever that is."""
    links = (rate_key(sender, path.local.abbr, "up"), rate_key(receiver, path.remote.abbr, "down"))
    has_rate = not any(key in missing for key in links)
    has_rtt = rtt_key(path) not in missing
    return Known(
        rate_bps=path.rate_bps if has_rate else None,
        base_rtt_ns=path.base_rtt_ns if has_rtt else None,
        queue_bytes=path.queue_bytes if has_rate else None,
        bdp_bytes=path.bdp_bytes if has_rate and has_rtt else None,
    )


def possible(sender: Site, receiver: Site, paths: Sequence[Path]) -> Iterator[str]:
    """Key of everything that may be left out, in the order in which files are read."""
    for site in (sender, receiver):
        for interface in site.interfaces:
            for way in ("up", "down"):
                yield rate_key(site, interface.abbr, way)
    for path in paths:
        yield rtt_key(path)


def wanted(key: str) -> str:
    """Expected value of such a key."""
    return "an RTT" if key.endswith(_RTT) else "a rate"


_RTT = ".rtt"


def rate_key(site: Site, interface: str, way: str) -> str:
    """Key of the rate of an access link; `way` is up or down."""
    return f"sites.{site.abbr}.interfaces.{interface}.{way}"


def rtt_key(path: Path) -> str:
    """Key of the RTT of a path."""
    return f"core.segments.{path.crosses}{_RTT}"
