"""A machine for tests of settings that stay: namespaces of its own, with devices, routes and endpoints.

Network and mounts are its own, so that nothing here touches this machine: neither its settings nor its BPF
file system. Everything ends with the process that holds the namespaces.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mptune.linux import agent
from tests.plugins.kills import ending
from tests.plugins.needs import Thing, lack, require
from tests.plugins.waiting import PATIENCE_S

#: A route of each sort: with metrics, in another table, with several next hops, by the number of one; both
#: families. The endpoint that goes has a number that the next would get.
BEGINNING = """
set -e
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs -o mode=755 none /etc
mount -t tmpfs -o mode=755 none /var/lib
mkdir /etc/mptune
printf '[daemon]\nmode = "auto"\n' > /etc/mptune/policy.toml
chown 7:8 /etc/mptune/policy.toml
chmod 640 /etc/mptune/policy.toml
echo 1 > /proc/sys/net/ipv6/conf/default/addr_gen_mode
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
ip link set lo up
ip link add eth1 type veth peer name peer1
ip addr add 10.0.1.2/24 dev eth1
ip addr add 10.0.1.77/24 dev eth1
ip link set eth1 up
ip link set peer1 up
ip route add 10.9.0.0/16 via 10.0.1.1 dev eth1 src 10.0.1.2 metric 50 mtu lock 1400 initcwnd 12
ip route add default via 10.0.1.1 table 100
ip rule add from 10.0.1.2 table 100 priority 1000
ip route add 10.10.0.0/16 nexthop via 10.0.1.1 dev eth1 weight 3 nexthop via 10.0.1.3 dev eth1
ip nexthop add id 7 via 10.0.1.1 dev eth1
ip route add 10.11.0.0/16 nhid 7
ip -6 addr add fd00::2/64 dev eth1 nodad
until ip -6 route show table local | grep -q "^local fd00::2 "; do :; done
ip -6 route add fd01::/64 via fd00::1 dev eth1 mtu 1300
ip -6 route add fd02::/64 via fd00::1 dev eth1
ip -6 route append fd02::/64 via fd00::3 dev eth1
ip mptcp endpoint add 10.0.1.2 dev eth1 subflow
ip mptcp endpoint add 10.0.1.77 signal
echo ready
cat > /dev/null
"""

#: Everything that a rollback has to leave as it was, as the kernel shows it; but for the congestion controls
#: that it knows, which are everybody's on this machine.
LOOK = """
ip -d -4 route show table all
ip -d -6 route show table all
ip nexthop
ip -4 rule
ip -6 rule
ip mptcp limits
ip mptcp endpoint
cd /proc/sys/net && grep -rs "" core ipv4 ipv6 mptcp | grep -v -e stable_secret -e tcp_available_congestion
find /sys/fs/bpf -printf "%p %M %U\\n" | sort
find /etc /var/lib -type f -exec md5sum {} + | sort
find /etc /var/lib -printf "%p %M %U %G\\n" | sort
find "$MPTUNE_STATE_DIRECTORY" -printf "%p %M %U\\n" 2>&1 | sort
"""

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

Message = dict[str, Any]
Setting = dict[str, Any]

#: One of each kind that needs no BPF; what a rollback has to undo takes one step, two, or is a new thing.
PLAIN: list[Setting] = [
    {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "4096 16384 741376"},
    {"kind": "sysctl", "name": "net.mptcp.path_manager", "value": "userspace"},
    {"kind": "limits", "subflows": 3, "add_addr_accepted": 2},
    {"kind": "endpoint", "address": "10.0.1.77", "absent": True},
    {"kind": "endpoint", "address": "10.0.1.2", "device": "eth1", "flags": ["subflow", "backup"]},
    {"kind": "endpoint", "address": "fd00::2", "device": None, "flags": ["signal"]},
    {"kind": "route", "to": "10.9.0.0/16", "table": 254, "congctl": "reno"},
    {"kind": "route", "to": "10.10.0.0/16", "congctl": "reno"},
    {"kind": "route", "to": "10.11.0.0/16", "congctl": "reno"},
    {"kind": "route", "to": "default", "table": 100, "via": "10.0.1.1", "device": "eth1", "congctl": "reno"},
    {"kind": "route", "to": "fd01::/64", "congctl": "reno"},
    {"kind": "route", "to": "fd02::/64", "congctl": "reno"},
    {"kind": "file", "path": "/etc/mptune/policy.toml", "content": "[[policy]]\n"},
    {"kind": "file", "path": "/var/lib/mptune/policies/a-run/policy.json", "content": "{}\n"},
]

#: Directories that these take, which are settings too.
TAKEN = 4

#: The first of them, and the kernel's file for it.
SYSCTL = PLAIN[0]
WMEM = "/proc/sys/net/ipv4/tcp_wmem"

#: What replaces it: some again with other values, one that is changed in two steps, some not any more.
OTHER: list[Setting] = [
    {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "4096 16384 333333"},
    {"kind": "sysctl", "name": "net.ipv4.tcp_rmem", "value": "4096 131072 888888"},
    {"kind": "endpoint", "address": "10.0.1.2", "device": None, "flags": ["subflow", "fullmesh"]},
    {"kind": "endpoint", "address": "10.0.1.77", "flags": ["signal", "backup"]},
    {"kind": "route", "to": "10.9.0.0/16", "congctl": "cubic"},
    {"kind": "file", "path": "/etc/mptune/policy.toml", "absent": True},
    {"kind": "file", "path": "/etc/mptune/another", "content": "text"},
]


def applying(settings: Sequence[Setting], **more: object) -> Message:
    """An order that applies settings."""
    return {"action": "apply", "settings": settings, "run": "a run", **more}


class Machine:
    """The machine, and orders to the agent on it."""

    def __init__(self, directory: Path) -> None:
        require("namespaces", tested="settings that stay")
        self.state = directory / "state"
        #: Names of congestion controls that nobody else uses.
        self.programs: set[str] = set()
        self.marks = {"MPTUNE_STATE_DIRECTORY": str(self.state)}
        command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", BEGINNING]
        self.holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None and self.holder.stderr is not None
        if self.holder.stdout.readline() != "ready\n":
            reason = self.holder.stderr.read().strip().split("\n")[-1]
            self.close()
            lack("settings that stay", Thing(f"namespaces with MPTCP ({reason})", "elsewhere"))

    def inside(self, command: Sequence[str]) -> list[str]:
        """A command line that runs there."""
        return ["nsenter", "-t", str(self.holder.pid), "--net", "--mount", "--", *command]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self.marks, **more}

    def sh(self, script: str) -> str:
        """Output of a script there, which must not fail."""
        done = subprocess.run(
            self.inside(["sh", "-c", script]),
            capture_output=True,
            text=True,
            check=False,
            env=self.environment(),
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def look(self) -> str:
        """Everything that settings are, and the files."""
        done = subprocess.run(
            self.inside(["sh", "-c", LOOK]),
            capture_output=True,
            text=True,
            check=False,
            env=self.environment(),
        )
        known = set(AVAILABLE.read_text().split())
        return f"{done.stdout}{sorted(known & self.programs)}\n"

    def start(self, *orders: Mapping[str, object], **environment: str) -> "Role":
        return Role(self, orders, environment)

    def order(self, action: str, **more: object) -> Message:
        """The role's answer to an order."""
        return self.start({"action": action, **more}).answer()

    def apply(self, settings: Sequence[Setting], **more: object) -> Message:
        answer = self.order("apply", settings=settings, run="a run", **more)
        assert answer["event"] == "applied", answer
        return answer

    def roll_back(self, **more: object) -> Message:
        answer = self.order("rollback", **more)
        assert answer["event"] == "rolled-back", answer
        return answer

    def reverters(self) -> list[int]:
        """Processes that wait for a confirmation on this machine."""
        mark = f"MPTUNE_STATE_DIRECTORY={self.state}".encode()
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:2] == [b"reverter"] and mark in (process / "environ").read_bytes().split(b"\0"):
                    pids.append(int(process.name))
        return pids

    def close(self) -> None:
        for pid in self.reverters():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.holder.kill()
        self.holder.wait()
        for pipe in (self.holder.stdin, self.holder.stdout, self.holder.stderr):
            if pipe is not None:
                pipe.close()


class Role:
    """A process of the role `settings` that was given orders; its input ends with them."""

    def __init__(
        self, machine: Machine, orders: Sequence[Mapping[str, object]], environment: Mapping[str, str]
    ) -> None:
        lines = "".join(json.dumps(order) + "\n" for order in orders)
        self.process = subprocess.Popen(
            machine.inside([str(agent.PROGRAM), "settings"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=machine.environment(**environment),
        )
        assert self.process.stdin is not None
        self.process.stdin.write(lines)
        self.process.stdin.close()

    def answer(self) -> Message:
        """Its only message; it ends."""
        messages = self.messages()
        assert len(messages) == 1, messages
        return messages[0]

    def messages(self) -> list[Message]:
        assert self.process.stdout is not None
        messages = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(PATIENCE_S) == 0
        self.process.stdout.close()
        return messages

    def stopped(self) -> bool:
        """It stops at the step that it was given; false if it ends first."""
        return ending(self.process.pid) == "T"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def gone(machine: Machine) -> bool:
    """No process waits for a confirmation any more."""
    return not machine.reverters()
