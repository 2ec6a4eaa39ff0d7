"""The daemon's units for systemd: the service, and a timer that measures again in the quiet hours.

The service is of a user of its own, who may manage the network (CAP_NET_ADMIN) and nothing else. All that it
writes beside its own directory are `net.mptcp.path_manager` and, with `[buffers]`, the limits of the buffers:
`ProtectKernelTunables` makes /proc/sys read-only, and `ReadWritePaths` gives that directory and those two
files back, as far as the files' rights and the capability go.
"""

from datetime import time as Time
from ipaddress import ip_address
from pathlib import Path

import msgspec

#: Directories that a service without homes does not see.
_HOMES = ("/home", "/root", "/run/user")

SERVICE, REMEASURE, TIMER = "mptune.service", "mptune-remeasure.service", "mptune-remeasure.timer"


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the programs: the agent, and the command line of mptune."""

    agent: Path
    mptune: tuple[str, ...]


def texts(
    programs: Programs,
    policy: Path,
    begin: Time | None,
    metrics: str | None = None,
    *,
    by_option: bool = False,
) -> dict[str, str]:
    """The units by the names of their files.

    Parameters
    ----------
    policy : the policy file.
    begin : when the quiet hours begin; None if nothing is measured again.
    metrics : address and port of the metrics over HTTP; None if they are nowhere.
    by_option : the policy file does not name them.
    """
    units = {SERVICE: service(programs, policy, metrics, by_option=by_option)}
    if begin is not None:
        units[REMEASURE] = remeasure(programs, policy)
        units[TIMER] = timer(begin)
    return units


def service(programs: Programs, policy: Path, metrics: str | None = None, *, by_option: bool = False) -> str:
    """The daemon's unit, which lets it listen only where the metrics are."""
    agent = _word(str(programs.agent))
    hidden = any(programs.agent.is_relative_to(home) for home in _HOMES)
    homes = "read-only" if hidden else "yes"
    option = f" --metrics {metrics}" if by_option else ""
    families, peers = _reachable(metrics)
    return f"""\
[Unit]
Description=mptune: MPTCP connections under the policy of their destination
Documentation=https://www.kernel.org/doc/html/latest/networking/mptcp.html
After=network.target
ConditionPathExists=/proc/sys/net/mptcp

[Service]
Type=notify
NotifyAccess=main
ExecStart={agent} daemon --policy {_word(str(policy))}{option}
ExecReload=/bin/kill -HUP $MAINPID
# If the daemon and its watchdog were both killed, the kernel gets its path manager back here.
ExecStopPost=-{agent} daemon --restore
Restart=on-failure
RestartSec=1s
WatchdogSec=30s
KillMode=mixed
TimeoutStopSec=20s

# A user who exists only while this runs. If there is one called mptune, it is that one; its group may then
# use the socket.
DynamicUser=yes
User=mptune
# For the socket. It must not outlive the service: systemd would put it where only root can go.
RuntimeDirectory=mptune
RuntimeDirectoryMode=0755
# For what a daemon that died has left.
StateDirectory=mptune-daemon
StateDirectoryMode=0700
UMask=0077

# Subflows, roles, endpoints, net.mptcp.path_manager, limits of buffers; nothing else.
AmbientCapabilities=CAP_NET_ADMIN
CapabilityBoundingSet=CAP_NET_ADMIN
ProtectKernelTunables=yes
ReadWritePaths=-/proc/sys/net/mptcp
ReadWritePaths=-/proc/sys/net/ipv4/tcp_rmem -/proc/sys/net/ipv4/tcp_wmem

NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={homes}
PrivateTmp=yes
PrivateDevices=yes
PrivateIPC=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectProc=invisible
ProcSubset=all
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK{families}
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
DevicePolicy=closed
{peers}MemoryMax=256M
TasksMax=16

[Install]
WantedBy=multi-user.target
"""


def _reachable(metrics: str | None) -> tuple[str, str]:
    """Further address families, and lines on the peers with which the service may exchange packets."""
    if metrics is None:
        return "", "IPAddressDeny=any\n"
    families = " AF_INET AF_INET6"
    if ip_address(metrics.rpartition(":")[0].strip("[]")).is_loopback:
        return families, "IPAddressDeny=any\nIPAddressAllow=localhost\n"
    return families, ""


def remeasure(programs: Programs, policy: Path) -> str:
    """The service that the timer starts: as a user who may measure between the hosts, by ssh."""
    command = " ".join(map(_word, programs.mptune))
    return f"""\
[Unit]
Description=mptune: measure again what no longer holds
After={SERVICE} network-online.target
Wants=network-online.target
# Without the daemon nobody knows what no longer holds.
Requisite={SERVICE}

[Service]
Type=oneshot
# ssh needs a user with keys for the hosts; as for `mptune optimise --testbed hosts`.
User=root
ExecStart={command} daemon --remeasure --quiet --policy {_word(str(policy))}
KillSignal=SIGINT
Nice=10
PrivateTmp=yes
ProtectSystem=full
NoNewPrivileges=no
"""


def timer(begin: Time) -> str:
    """Once a night, when the quiet hours begin."""
    return f"""\
[Unit]
Description=mptune: measure again in the quiet hours

[Timer]
OnCalendar=*-*-* {begin:%H:%M}:00
AccuracySec=1min
Persistent=no

[Install]
WantedBy=timers.target
"""


def _word(text: str) -> str:
    """A word of a command line in a unit (systemd.service(5), systemd.syntax(7))."""
    plain = text.replace("%", "%%").replace("$", "$$")
    if not plain or any(name.isspace() or name in "\"'\\;" for name in plain):
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain
