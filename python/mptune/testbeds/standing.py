"""A network between two namespaces of this machine that stands as long as a block, for programs of any kind.

Namespaces, emulator, addresses and path managers are those of a trial (`mptune.testbeds.namespaces`); nothing
is measured, and nothing waits for a quiet machine. `mptune.pytest_plugin` makes a fixture of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mptune import _threads
from mptune.errors import InputError, MptuneError
from mptune.topology import Topology, from_tables, load
from mptune.trial import Programs, Trial

#: Source of a network: a scenario's name, a topology file, a topology, or one entry for each path,
#: "20Mbit/s 10ms 1%" (rate, one-way delay, loss), or keys of an interface as in a topology file.
Described = str | Path | Topology | Sequence[str | Mapping[str, object]]

#: The server's only interface, of networks that are described by their paths: never the bottleneck.
_SERVER = {"isp": "Server", "abbr": "S", "up": "10 Gbit/s", "down": "10 Gbit/s", "delay": "0 ms"}
_LETTERS = "ABCDEFGHIJKLMNOPQRTUVWXYZ"
#: Seconds that a path manager has to begin.
_READY_S = 20.0
#: Seconds that a program has to end by itself.
_GRACE_S = 2.0
#: Never used: nothing is measured, and so nothing ends.
_UNUSED_NS = 10**9
_BUFFER_BYTES = 1 << 22


class Host:
    """One end of the network.

    Attributes
    ----------
    addresses, addresses_ipv6 : of its interfaces, in the order of the topology.
    address : the one by which connections begin.
    children : what was started there.
    """

    def __init__(
        self,
        namespaces: tuple[str, str | None],
        run: str,
        addresses: tuple[tuple[str, ...], tuple[str, ...]],
        address: str,
        kernel_cc: str,
    ) -> None:
        self._namespaces, self._run, self._kernel_cc = namespaces, run, kernel_cc
        self.children: list[subprocess.Popen[Any]] = []
        self.addresses: tuple[str, ...] = addresses[0]
        self.addresses_ipv6: tuple[str, ...] = addresses[1]
        self.address = address

    def popen(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        mptcp: bool = True,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a program there; it is ended with the network at the latest.

        Parameters
        ----------
        mptcp : its TCP sockets become MPTCP sockets, by `mptune exec`'s library; False leaves them to it.
        env, options : as of `subprocess.Popen`.

        Raises
        ------
        MptuneError : the library is missing.
        """
        from mptune.linux import preload
        from mptune.linux.sandbox import leftovers

        own = _threads.inherited() if env is None else dict(env)
        if mptcp:
            own |= preload.environment(own, "mptcp", self._kernel_cc, None)
        network, user = self._namespaces
        before = [
            sys.executable,
            "-P",
            "-m",
            "mptune.linux.sandbox.enter",
            str(os.getpid()),
            network,
            user or "-",
        ]
        words = [*before, *(os.fspath(word) for word in command)]
        # Of a group of its own: Ctrl-C is for the tests, which then end it.
        child = subprocess.Popen(words, env=own | {leftovers.VARIABLE: self._run}, process_group=0, **options)
        self.children.append(child)
        return child

    def run(
        self, command: Sequence[str | os.PathLike[str]], *, timeout: float | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there to its end; its output is captured as text, and a failure is an error.

        Raises
        ------
        subprocess.CalledProcessError : it fails.
        subprocess.TimeoutExpired : it takes longer than `timeout` seconds; it is ended then.
        """
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        child = self.popen(command, **{**pipes, **options})
        try:
            output, errors = child.communicate(timeout=timeout)
        except BaseException:
            child.kill()
            raise
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, list(command), output, errors)
        return subprocess.CompletedProcess(list(command), child.returncode, output, errors)

    def counters(self) -> dict[str, int]:
        """The kernel's counters of MPTCP there (`MPTcpExt` of /proc/net/netstat), such as MPJoinAckRx."""
        lines = self.run(["cat", "/proc/self/net/netstat"], mptcp=False).stdout.splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("MPTcpExt:"))
        return dict(zip(names, map(int, values), strict=True))


class Network:
    """A network that stands; `standing` makes it.

    Attributes
    ----------
    client, server : its ends; the client's is the topology's sender.
    paths : labels of its paths.
    """

    def __init__(self, topology: Topology, client: Host, server: Host, venue: Any) -> None:
        self.topology: Topology = topology
        self.client: Host = client
        self.server: Host = server
        self.paths: tuple[str, ...] = tuple(path.label for path in topology.paths)
        self._venue = venue

    def down(self, path: str) -> None:
        """Cut a path: nothing passes any more, and nobody is told.

        Raises
        ------
        InputError : there is no such path.
        """
        self._cut("down", path)

    def up(self, path: str) -> None:
        """Restore it; errors as `down`."""
        self._cut("up", path)

    def _cut(self, action: str, path: str) -> None:
        self.topology.path(path, "path")
        self._venue.cut(action, self.paths.index(path))


@contextmanager
def standing(
    described: Described, *, pm: str = "fullmesh", cc: str = "cubic", seed: int = 1
) -> Iterator[Network]:
    """A network inside a `with` block; nothing is left of it, however the block ends.

    Parameters
    ----------
    pm, cc : path manager of the client's connections, and their congestion control.
    seed : of everything random on the network.

    Raises
    ------
    InputError : the description is wrong, or there is no such path manager or congestion control.
    MptuneError : this machine cannot (`obstacle`), or something of the network has died.
    """
    from mptune.linux import addresses, assignment, bpf
    from mptune.linux.namespace_venue import NamespaceVenue
    from mptune.linux.sandbox import leftovers
    from mptune.testbeds import _kernel_plan
    from mptune.testbeds.namespaces import check_network

    topology = described_by(described)
    check_network(topology)
    if (reason := obstacle()) is not None:
        raise MptuneError(reason)
    # A trial of any programs: what is measured of them is not asked for.
    nothing = Programs(client=("true",), server=("true",), deadline_ns=_UNUSED_NS)
    trial = Trial(
        topology=topology, pm=pm, cc=cc, buffer_bytes=_BUFFER_BYTES, buffer_mode="auto", seed=seed,
        workload=nothing, size_known=False,
    )  # fmt: skip
    leftovers.end_strays()
    named, run = addresses.interfaces(trial.topology), leftovers.new_run()
    with ExitStack() as stack:
        kernel_cc = stack.enter_context(bpf.told(trial.cc, _kernel_plan.told(trial, named)))
        plan = _kernel_plan.plan(trial, kernel_cc, named)
        venue = stack.enter_context(NamespaceVenue(_kernel_plan.links(trial, named, initial=plan.initial)))
        managers = [stack.enter_context(venue.start("paths", side)) for side in addresses.SIDES]
        venue.prepare()
        venue.lay_out()
        managers[0].tell({"side": "sender", "assignment": assignment.document(plan.assignment)})
        managers[1].tell({"side": "receiver"})
        for manager in managers:
            manager.expect("ready", _READY_S)
        venue.begin(())
        ends = zip(addresses.SIDES, plan.initial, strict=True)
        client, server = (
            Host(
                venue.namespaces(side),
                run,
                (tuple(end.ipv4 for end in named[side]), tuple(end.ipv6 for end in named[side])),
                address,
                kernel_cc,
            )
            for side, address in ends
        )
        stack.callback(_end, run, (client, server))
        yield Network(trial.topology, client, server, venue)


def obstacle() -> str | None:
    """Why no such network can be here, with what to do; None if it can."""
    if sys.platform != "linux":
        return "needs Linux"
    from mptune.linux import doctor

    return doctor.obstacle()


def described_by(described: Described) -> Topology:
    """The topology that is meant.

    Raises
    ------
    InputError : there is none, or it is wrong.
    """
    if isinstance(described, Topology):
        return described
    if isinstance(described, str | Path):
        return load(described)
    if not 0 < len(described) <= len(_LETTERS):
        raise InputError("paths", "", f"expected 1 to {len(_LETTERS)} paths, found {len(described)}")
    interfaces = [
        {"isp": f"Path {letter}", "abbr": letter, **_interface(entry, f"paths[{number}]")}
        for number, (letter, entry) in enumerate(zip(_LETTERS, described, strict=False))
    ]
    tables = {
        "name": "paths",
        "sender": "CLIENT",
        "receiver": "SERVER",
        "sites": {
            "CLIENT": {"name": "Client", "interfaces": interfaces},
            "SERVER": {"name": "Server", "interfaces": [_SERVER]},
        },
        "core": {"delay": "0 ms"},
    }
    return from_tables(tables, "paths", "paths")


def _interface(entry: str | Mapping[str, object], key: str) -> dict[str, object]:
    """The keys of an interface of a topology file."""
    if not isinstance(entry, str):
        return dict(entry)
    words = entry.split()
    if len(words) not in (2, 3):
        expected = f'expected rate, delay and perhaps loss, such as "20Mbit/s 10ms 1%", found {entry!r}'
        raise InputError("paths", key, expected)
    rate, delay, *loss = words
    keys: dict[str, object] = {"up": rate, "down": rate, "delay": delay}
    return keys | ({"loss": loss[0]} if loss else {})


def _end(run: str, hosts: Iterable[Host]) -> None:
    """End all that was started on the hosts, children of children too, and close its pipes."""
    from mptune.linux.sandbox import leftovers

    leftovers.end_run(run)
    for host in hosts:
        for child in host.children:
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
