"""systemd-networkd: a script for networkd-dispatcher, which calls it when a device has become routable.

networkd itself knows no endpoints, and sets the congestion control of those routes alone that stand in its
own files (TCPCongestionControlAlgorithm= in a [Route] section of systemd.network(5), since version 252).
"""

import shlex

from mptune.apply.files._base import File, by_device, of_endpoints, of_kind, of_limits, of_routes
from mptune.apply.plan import HostPlan

SCRIPT = "90-mptune"


def files(host: HostPlan) -> list[File]:
    """The script; nothing if sysctls are all."""
    limits = [shlex.join(command.start) for command in of_limits(host)]
    # An endpoint that is still there from before is made anew: its device may have another index now.
    endpoints = [
        (device, f"{shlex.join(command.stop or ())} 2> /dev/null; {shlex.join(command.start)}")
        for device, command in of_endpoints(host)
    ]
    routes = [
        (row["device"], shlex.join(command.start))
        for row, command in zip(of_kind(host, "route"), of_routes(host), strict=True)
    ]
    always = [*limits, *(line for device, line in endpoints if not device)]
    own = [*(entry for entry in endpoints if entry[0]), *routes]
    if not always and not own:
        return []
    place = f"/etc/networkd-dispatcher/routable.d/{SCRIPT}"
    return [File(SCRIPT, by_device(always, own, "$IFACE"), place, executable=True)]
