"""Two machines that are as real as one box allows, and the network between them.

How to use it, in a test (fixture `world`: both plain, alice with two uplinks and bob with one) or by hand:

    with World(tmp_path) as world:                            # Side(uplinks=(Uplink(nat=True), Uplink()))
        world.ssh("alice", "uname -n").stdout                 # over the management link, as root
        world.ssh("plain@bob", "id -un")                      # users: root, plain, sudoer, greeted
        world.alice.run("ip", "route")                        # inside, without ssh
        world.alice.inside(lambda: socket.socket(...))        # a socket in its network namespace
        world.uplink("alice", 1).ipv4                         # its second uplink's address
        with world.uplink("alice", 1).middlebox("strips"): ...
        world.cut(1, 0); world.restore(1, 0)                  # alice's uplink 1 to bob's uplink 0
        with world.unchanged(): ...                           # fails with a difference if something is left
        world.bob.kill()                                      # pulls the plug

A program that starts `ssh` itself finds these machines with `PATH` as in `world.environment()`: a script of
that name there starts the real one, in the namespace `world.controller` and with `-F world.config`. That file
alone works as well, from anywhere, by a ProxyCommand. Its aliases: alice, bob; alice-imposter (another host
key than the known one), alice-unknown (no known host key), alice-closed (nothing listens), alice-silent
(nobody answers), and the same of bob. Nothing touches ~/.ssh. `world.controller` has a management link to
each machine (172.30.1.1 to alice's 172.30.1.2, 172.30.2.1 to bob's 172.30.2.2 on `mgmt0`) and no route
between them; a machine whose plug is pulled is silent there. `world.topology()` is a topology file's text.

The path links: device eth1, eth2, ... of a machine -> its router, a namespace with nftables -> (a router for
all its uplinks, `Side.transit` ->) the emulator -> the router of the other machine's device. Each uplink is
two links of the emulator, with its rates, delay, queue and losses; any pair of uplinks is a path. Packets
leave by their source address, as a multi-homed host should be configured, unless `Side.routing` has
something else.

What is shared with the real machine, and therefore not as in reality:
- the kernel: its version, modules, congestion controls (BPF programs are registered for all), processors and
  their load, and the wall clock. A machine whose clock is off, `Side.clock_off_s`, has a library preloaded
  into every dynamically linked program; time stamps of files, and what reads the clock without the C library,
  are right. CLOCK_MONOTONIC and CLOCK_BOOTTIME differ from machine to machine, by time namespaces.
- the programs under /usr, read-only, and what /proc/sys and /sys show beyond the network and the host name.
- routers answer with ICMP only to their own machine: the emulator carries packets between the machines alone.

Everything is gone with the process that made it, however that ends: namespaces live by their processes and
open files, and every process has a parent-death signal. Files are only in the given directory.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from mptune.linux import agent
from mptune.linux.sandbox import leftovers, syscalls
from mptune.linux.sandbox.processes import Child
from tests.hosts import snapshots
from tests.hosts.machine import STEP_S, Keys, Machine
from tests.hosts.router import Attachment, Transit, Uplink, batch
from tests.plugins.needs import compiler
from tests.plugins.netlink import inside

__all__ = ["Side", "Uplink", "World"]

NAMES = ("alice", "bob")
REACH = Path(__file__).with_name("reach.py")
CLOCK = Path(__file__).with_name("clock.c")
#: Where it is; a machine is put together of files, without what tests put on the PATH.
BUSYBOX = shutil.which("busybox", path="/usr/bin:/bin:/usr/sbin:/sbin")
#: Seconds that each machine has been up longer than this one.
UPTIMES_S = {"alice": 100_000, "bob": 2_000_000}


@dataclass(frozen=True)
class Side:
    """Set-up of a machine.

    Attributes
    ----------
    uplinks : its attachments, `eth1` first.
    routing : `source`, a table for each uplink's address; `main`, one default route by the first uplink,
        which others' addresses use too; `wrong`, a default route by the management link, where it ends.
    rp_filter : 0, 1 (strict) or 2, on all its devices.
    clock_off_s : how much its wall clock is ahead; needs a C compiler.
    small : who logs in finds busybox, and no other program or library, as on a router; `Machine.run` runs
        programs outside of that.
    transit : address of a router more, behind those of all its uplinks, which every path crosses; it answers
        this machine alone. IPv4 only, and no NAT.
    """

    uplinks: Sequence[Uplink] = (Uplink(),)
    routing: Literal["source", "main", "wrong"] = "source"
    rp_filter: int = 0
    clock_off_s: int = 0
    small: bool = False
    transit: str | None = None


#: 20 Mbit/s with an RTT of 20 ms, and 10 Mbit/s with one of 40 ms.
PLAIN = Side(uplinks=(Uplink(), Uplink(up_mbps=10, down_mbps=10, delay_ms=15)))
SERVER = Side(uplinks=(Uplink(up_mbps=200, down_mbps=200),))


@dataclass
class World:
    """Use it as a context manager; it takes about a second to come up.

    Attributes
    ----------
    directory : for keys and the ssh configuration.
    alice, bob : the machines.
    controller : path of the network namespace with the management links.
    config : the ssh configuration.
    """

    directory: Path
    sides: Sequence[Side] = (PLAIN, SERVER)
    uplinks: dict[str, list[Attachment]] = field(init=False, default_factory=dict)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def alice(self) -> Machine:
        """The first machine."""
        return self.machines["alice"]

    @property
    def bob(self) -> Machine:
        """The second machine."""
        return self.machines["bob"]

    def uplink(self, name: str, index: int) -> Attachment:
        """An uplink of a machine, the first is 0."""
        return self.uplinks[name][index]

    # making it

    def _build(self, stack: ExitStack) -> None:
        self._run = leftovers.new_run()
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        user = _key(self.directory / "key")
        keys = {name: _key(self.directory / name) for name in (*NAMES, "imposter")}
        made = [
            Machine(
                name,
                self._run,
                keys[name],
                user.public,
                uptime_s=UPTIMES_S[name],
                preload=_clock(side.clock_off_s, self.directory) if side.clock_off_s else None,
                busybox=BUSYBOX if side.small else None,
            )
            for name, side in zip(NAMES, self.sides, strict=True)
        ]
        for machine in made:
            stack.callback(machine.end)
        self.machines = {machine.name: stack.enter_context(machine) for machine in made}
        for machine in self.machines.values():
            machine.sysctl("net.ipv6.conf.default.accept_dad", "0")  # addresses do not change after a second
        self.controller = self._namespace(stack)
        nowhere = ["link add nowhere type veth peer name nowhere-end", "link set nowhere-end up"]
        batch(self.controller, ["link set lo up", *nowhere, "link set nowhere up"])
        self._attach(stack)
        self._emulate(stack)
        for attachments in self.uplinks.values():
            for attachment in attachments:
                attachment.connect()
        for number, (machine, side) in enumerate(zip(self.machines.values(), self.sides, strict=True), 1):
            self._configure(number, machine, side)
        self._write_config(keys)

    def _namespace(self, stack: ExitStack) -> str:
        """A network namespace that lives as long as this process has it open."""

        def make() -> int:
            syscalls.unshare(syscalls.CLONE_NEWNET)
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        descriptor = inside(None, make)
        stack.callback(os.close, descriptor)
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def _attach(self, stack: ExitStack) -> None:
        sides: tuple[Literal["local", "remote"], ...] = ("local", "remote")
        for place, machine, side in zip(sides, self.machines.values(), self.sides, strict=True):
            transit = None if side.transit is None else Transit(side.transit, self._namespace(stack))
            self.uplinks[machine.name] = [
                Attachment(machine, place, index, uplink, self._namespace(stack), transit)
                for index, uplink in enumerate(side.uplinks)
            ]

    def _emulate(self, stack: ExitStack) -> None:
        """Start the emulator, which makes the routers' other devices."""
        self._emulator = stack.enter_context(Child("emulator", agent.command("emulator"), self._run))
        attachments = [uplink for name in NAMES for uplink in self.uplinks[name]]
        interfaces = [attachment.interface() for attachment in attachments]
        self._emulator.tell({"network": self._network(), "seed": 1, "interfaces": interfaces})
        self._emulator.tell({"action": "start"})
        self._emulator.expect("ready", STEP_S)

    def _network(self) -> dict[str, object]:
        """Two links per uplink, up and down, and the pairs of uplinks."""
        links: list[dict[str, object]] = []
        first: dict[tuple[str, int], int] = {}
        for name in NAMES:
            for uplink in self.uplinks[name]:
                first[name, uplink.index] = len(links)
                for direction, rate in (("up", uplink.uplink.up_mbps), ("down", uplink.uplink.down_mbps)):
                    link = {
                        "name": f"{name} {uplink.device} {direction}",
                        "rate_bps": round(rate * 1e6),
                        "delay_ns": round(uplink.uplink.delay_ms * 1e6),
                        "queue_bytes": uplink.uplink.queue_bytes,
                        "loss_ppb": round(uplink.uplink.loss * 1e9),
                    }
                    links.append(link)
        paths = [
            {
                "label": f"{a.device}-{b.device}",
                "local": a.index,
                "remote": b.index,
                "forward": [first["alice", a.index], first["bob", b.index] + 1],
                "reverse": [first["bob", b.index], first["alice", a.index] + 1],
            }
            for a, b in self.pairs()
        ]
        return {"links": links, "paths": paths}

    def pairs(self) -> list[tuple[Attachment, Attachment]]:
        """Alice's and bob's uplinks, every one with every other."""
        return [(a, b) for a in self.uplinks["alice"] for b in self.uplinks["bob"]]

    def _configure(self, number: int, machine: Machine, side: Side) -> None:
        """The machine's own part of its links."""
        here, there = f"172.30.{number}.1", f"172.30.{number}.2"
        batch(
            self.controller,
            [
                f"link add {machine.name} type veth peer name mgmt0 netns {machine.pid}",
                f"link set {machine.name} up",
                f"address add {here}/32 dev lo",
                f"route add {there}/32 dev {machine.name} src {here}",
                # Where nobody has the address, or has it no more.
                f"route add 172.30.{number}.0/24 dev nowhere metric 1000 src {here}",
                *(
                    f"neigh add {address} lladdr 02:00:00:00:00:09 dev nowhere"
                    for address in (there, f"172.30.{number}.9")
                ),
            ],
        )
        machine.cables.append((self.controller, machine.name))
        lines = ["link set lo up", "link set mgmt0 up", f"address add {there}/24 dev mgmt0"]
        for uplink in self.uplinks[machine.name]:
            lines += uplink.machine_lines(side.routing)
        if side.routing == "wrong":
            lines.append(f"route add default via {here} dev mgmt0")
        for device in (
            "all",
            "default",
            "lo",
            "mgmt0",
            *(uplink.device for uplink in self.uplinks[machine.name]),
        ):
            machine.sysctl(f"net/ipv4/conf/{device}/rp_filter", str(side.rp_filter))
        for family in ("-4", "-6"):  # in a batch, a rule has the family of the command line
            own = [line for line in lines if (":" in line) == (family == "-6")]
            machine.run("ip", family, "-batch", "-", text="\n".join(own) + "\n")
        machine.start_sshd()

    def _write_config(self, keys: dict[str, Keys]) -> None:
        self.config = self.directory / "ssh_config"
        known = {name: self.directory / f"known_hosts_{name}" for name in ("right", "wrong", "none")}
        for kind, file in known.items():
            file.write_text(
                "".join(f"{name} {keys['imposter' if kind == 'wrong' else name].public}" for name in NAMES)
                if kind != "none"
                else ""
            )
        lines = []
        for number, name in enumerate(NAMES, 1):
            for suffix, kind, address, port in (
                ("", "right", 2, 22),
                ("-imposter", "wrong", 2, 22),
                ("-unknown", "none", 2, 22),
                ("-closed", "right", 2, 2222),
                ("-silent", "right", 9, 22),
            ):
                lines += [
                    f"Host {name}{suffix}",
                    f"  HostName 172.30.{number}.{address}",
                    f"  Port {port}",
                    f"  HostKeyAlias {name}",
                    f"  UserKnownHostsFile {known[kind]}",
                ]
        reach = shlex.join([sys.executable, "-I", "-S", str(REACH), self.controller])
        lines += [
            "Host *",
            "  User root",
            f"  IdentityFile {self.directory / 'key'}",
            "  IdentitiesOnly yes",
            "  IdentityAgent none",
            "  GlobalKnownHostsFile /dev/null",
            "  StrictHostKeyChecking yes",
            "  UpdateHostKeys no",
            f"  ProxyCommand {reach} %h %p",
            "  ProxyUseFdpass yes",
        ]
        self.config.write_text("\n".join(lines) + "\n")
        script = self.bin / "ssh"
        words = [
            "nsenter",
            f"--net={self.controller}",
            _ssh(),
            "-F",
            str(self.config),
            "-o",
            "ProxyCommand=none",
        ]
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        script.chmod(0o755)

    # using it

    def environment(self) -> dict[str, str]:
        """This process's environment, in which `ssh` knows the machines."""
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def ssh_command(self, target: str, *words: str) -> list[str]:
        """The command line of ssh to a machine, which runs these words there."""
        return [str(self.bin / "ssh"), "-T", "-o", "BatchMode=yes", "--", target, *words]

    def ssh(self, target: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on a machine over ssh to its end; `text` is its input."""
        return subprocess.run(
            self.ssh_command(target, *words),
            input=text,
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """The block leaves nothing behind on either machine.

        Raises
        ------
        AssertionError : it does; the message is a readable difference.
        """
        machines = list(self.machines.values())
        with ThreadPoolExecutor() as side_by_side:
            before = list(side_by_side.map(snapshots.take, machines))
        yield
        with ThreadPoolExecutor() as side_by_side:
            list(side_by_side.map(snapshots.settle, machines, before))

    def cut(self, local: int, remote: int) -> None:
        """Swallow everything between two uplinks, alice's and bob's."""
        self._emulator.tell({"action": "down", "path": self._path(local, remote)})

    def restore(self, local: int, remote: int) -> None:
        """Carry packets there again."""
        self._emulator.tell({"action": "up", "path": self._path(local, remote)})

    def _path(self, local: int, remote: int) -> int:
        return local * len(self.uplinks["bob"]) + remote

    def topology(self, sender: str = "alice", rates: bool = True) -> str:
        """A topology file of the two machines; without rates it states nothing on the links."""
        names = [sender, *(name for name in NAMES if name != sender)]
        lines = ['name = "world"', 'description = "two machines on one box"', 'source = "made up"']
        lines += ['sender = "S"', 'receiver = "R"']
        for abbr, name, letters in zip("SR", names, ("ABCDEFGH", "XYZUVW"), strict=True):
            lines += [f"[sites.{abbr}]", f'name = "{name}"', 'location = "here"', f'ssh = "{name}"']
            for uplink, letter in zip(self.uplinks[name], letters, strict=False):
                lines += [f"[[sites.{abbr}.interfaces]]", f'isp = "provider {letter}"', f'abbr = "{letter}"']
                lines.append(f'device = "{uplink.device}"')
                lines += [
                    f'{family} = "{value}"'
                    for family in ("ipv4", "ipv6")
                    if (value := getattr(uplink, family))
                ]
                if rates:
                    up, down, delay = uplink.uplink.up_mbps, uplink.uplink.down_mbps, uplink.uplink.delay_ms
                    lines += [f'up = "{up:g} Mbit/s"', f'down = "{down:g} Mbit/s"', f'delay = "{delay:g} ms"']
        return "\n".join(lines) + "\n"


def _key(path: Path) -> Keys:
    """A new pair of keys in `path` and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return Keys(path.read_text(), path.with_name(f"{path.name}.pub").read_text())


def _ssh() -> str:
    path = shutil.which("ssh")
    assert path is not None
    return path


def _clock(ahead_s: int, directory: Path) -> bytes:
    """The library that lets programs see another wall clock."""
    library = directory / f"clock{ahead_s}.so"
    command = [
        compiler() or "cc",
        "-shared",
        "-fPIC",
        "-O2",
        f"-DAHEAD_S={ahead_s}",
        "-o",
        str(library),
        str(CLOCK),
    ]
    subprocess.run(command, check=True)
    return library.read_bytes()
