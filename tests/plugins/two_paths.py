"""A topology of two paths from a sender with two uplinks to a receiver whose link is wide enough for both."""

from typing import NamedTuple

_UPLINK = """
[[sites.S.interfaces]]
isp = "{isp}"
abbr = "{isp[0]}"
up = "{rate}"
down = "{rate}"
delay = "1 ms"
queue_up = "{queue}"
"""
_WHOLE = """
name = "two"
description = "two paths"
source = "made up"
sender = "S"
receiver = "R"
[sites.S]
name = "sender"
location = "here"
{uplinks}
[sites.R]
name = "receiver"
location = "there"
[[sites.R.interfaces]]
isp = "Exchange"
abbr = "X"
up = "200 Mbit/s"
down = "200 Mbit/s"
delay = "1 ms"
{segments}
"""
_SEGMENT = """
[[core.segments]]
path = "{isp[0]}-X"
rtt = "{rtt}"
loss = "0 %"
"""


class Uplink(NamedTuple):
    """An uplink, abbreviated by its first letter, and the RTT of the core behind it; no random losses."""

    isp: str
    rate: str
    rtt: str
    queue: str = "100 kB"


def text(*uplinks: Uplink) -> str:
    """The file; the paths are called A-X for an uplink A."""
    return _WHOLE.format(
        uplinks="".join(_UPLINK.format(**uplink._asdict()) for uplink in uplinks),
        segments="".join(_SEGMENT.format(**uplink._asdict()) for uplink in uplinks),
    )


#: Two unlike paths without random losses; the wide one is cut and withdrawn in tests.
WIDE_AND_NARROW = text(Uplink("Wide", "40 Mbit/s", "20 ms", "120 kB"), Uplink("Narrow", "20 Mbit/s", "40 ms"))

#: The same with queues that hold all that a buffer of 1 MiB admits: nothing is lost.
DEEP = text(Uplink("Wide", "40 Mbit/s", "20 ms", "2 MB"), Uplink("Narrow", "20 Mbit/s", "40 ms", "2 MB"))
