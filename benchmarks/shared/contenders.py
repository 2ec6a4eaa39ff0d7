"""Path managers of a trial between namespaces: mptune's, the kernel's, or mptcpd.

Not a benchmark. The network, the meter and all settings are those of the testbed `namespaces`; only the path
management at the two sites differs. mptcpd is Debian's package, unpacked into a folder and run inside the
sender's namespace; the receiver's kernel manages the paths there, with limits that leave it room.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from mptune.errors import TrialError
from mptune.linux import addresses, awake, bpf, kernel_trial
from mptune.linux.namespace_venue import Links, NamespaceVenue
from mptune.linux.processor_load import Gate, Load
from mptune.testbeds import _kernel_observation, _kernel_plan
from mptune.topology import Topology
from mptune.trial import Observation, Trial
from tests.plugins.netlink import inside

PACKAGES = ("mptcpd", "mptcpd-plugins", "libmptcpd3", "libell0")
KERNELS = {"net.mptcp.path_manager": "kernel", "net.mptcp.pm_type": "0"}
#: As many as the kernel allows.
_LIMITS = ("limits", "set", "subflows", "8", "add_addr_accepted", "8")
#: Seconds until mptcpd must have done a step, and between two looks whether it has.
_PATIENCE_S = 10
_LOOK_S = 0.02


class Missing(Exception):
    """A contender cannot take part on this machine, for the reason in the message."""


def fetched(folder: Path) -> Path:
    """Debian's mptcpd, unpacked below a folder.

    Raises
    ------
    Missing : it cannot be had.
    """
    root = folder / "root"
    if not (root / "usr/libexec/mptcpd").exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True, capture_output=True)
            for package in sorted(folder.glob("*.deb")):
                subprocess.run(["dpkg", "-x", package.name, "root"], cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"mptcpd: apt-get download {' '.join(PACKAGES)}: {error}") from None
    return root


class _Venue(NamespaceVenue):
    """Paths that mptune does not manage: `open` sets up who does, `end` ends it."""

    def __init__(self, links: Links, contender: "Contender", topology: Topology) -> None:
        super().__init__(msgspec.structs.replace(links, settings={**links.settings, **KERNELS}))
        self._contender, self._topology = contender, topology

    def open(self) -> None:
        self._contender.set_up(self._sites.local, self._sites.remote, self._topology)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.about["contender"] = self._contender.end()
        finally:
            super().__exit__(kind, error, trace)


def _ip(namespace: str, *words: str) -> str:
    command = ["nsenter", f"--net={namespace}", "ip", "mptcp", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TrialError(f"ip mptcp {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def limit(namespace: str) -> None:
    """Let the kernel's path manager open and accept as many subflows as it can."""
    _ip(namespace, *_LIMITS)


def add_endpoint(namespace: str, address: str, *words: str) -> None:
    """Make an endpoint of the kernel's path manager."""
    _ip(namespace, "endpoint", "add", address, *words)


def ended(process: subprocess.Popen[Any], patience_s: float) -> None:
    """End a process in order, and at once if that takes too long."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Contender:
    """The kernel's own path manager as it is without any configuration; others set up more.

    An object serves one trial.
    """

    def set_up(self, local: str, remote: str, topology: Topology) -> None:
        """Set up what manages the paths, before the connection begins; the sites' namespaces are given."""

    def end(self) -> str:
        """End it; returns its output."""
        return ""


class KernelFullmesh(Contender):
    """The kernel's own with an endpoint for each of the sender's interfaces, to all of the receiver's."""

    def set_up(self, local: str, remote: str, topology: Topology) -> None:
        """As in `Contender`."""
        limit(local)
        for interface in addresses.interfaces(topology)["local"]:
            _ip(local, "endpoint", "add", interface.ipv4, "dev", interface.device, "subflow", "fullmesh")
        self.open_receiver(remote, topology)

    @staticmethod
    def open_receiver(remote: str, topology: Topology) -> None:
        """Let the receiver announce its other addresses, and accept what is opened."""
        limit(remote)
        initial = topology.path(topology.initial_path, "initial path").remote_index
        for interface in addresses.interfaces(topology)["remote"]:
            if interface.index != initial:
                _ip(remote, "endpoint", "add", interface.ipv4, "dev", interface.device, "signal")


class Mptcpd(Contender):
    """mptcpd with some of its plug-ins in the sender's namespace.

    Parameters
    ----------
    root : where it is unpacked.
    userspace : connections are mptcpd's (net.mptcp.path_manager=userspace); otherwise the kernel's own path
        manager has them, and mptcpd gives it endpoints.
    """

    def __init__(self, root: Path, plugins: Sequence[str], *, userspace: bool) -> None:
        self._root, self._plugins, self._userspace = root, plugins, userspace
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object

    def set_up(self, local: str, remote: str, topology: Topology) -> None:
        """As in `Contender`."""
        KernelFullmesh.open_receiver(remote, topology)
        self.begin(local, [interface.ipv4 for interface in addresses.interfaces(topology)["local"]])

    def begin(self, local: str, own: Sequence[str]) -> int:
        """Start it in a namespace with these addresses of its own; the number of the process."""
        limit(local)
        if self._userspace:
            inside(local, self._choose_userspace)
        libraries = next((self._root / "usr/lib").glob("*/libmptcpd.so.3")).parent
        command = [
            *("nsenter", f"--net={local}", str(self._root / "usr/libexec/mptcpd"), "--debug", "--log=stderr"),
            *(f"--plugin-dir={libraries / 'mptcpd'}", f"--load-plugins={','.join(self._plugins)}"),
            *(f"--path-manager={self._plugins[0]}", "--addr-flags=subflow"),
            "--notify-flags=existing,skip_link_local,skip_loopback",
        ]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        self._wait("path manager initialized")
        if "addr_adv" in self._plugins:
            for address in own:
                self._wait_for_endpoint(local, address)
        return self._process.pid

    def _wait_for_endpoint(self, namespace: str, address: str) -> None:
        end = time.monotonic() + _PATIENCE_S
        while f"{address} " not in _ip(namespace, "endpoint", "show"):
            self._check(f"mptcpd made no endpoint of {address}", end)

    def _wait(self, words: str) -> None:
        end = time.monotonic() + _PATIENCE_S
        while words not in self._said():
            self._check(f"mptcpd did not say {words!r}", end)

    def _check(self, missing: str, end: float) -> None:
        if time.monotonic() > end or (self._process is not None and self._process.poll() is not None):
            raise TrialError(f"{missing}: {self._said()[-300:]}")
        time.sleep(_LOOK_S)

    def _said(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    @staticmethod
    def _choose_userspace() -> None:
        for name, value in (("path_manager", "userspace"), ("pm_type", "1")):
            setting = Path("/proc/sys/net/mptcp", name)
            if setting.exists():
                setting.write_text(value, encoding="ascii")
                return

    def end(self) -> str:
        """As in `Contender`."""
        if self._process is not None:
            ended(self._process, _PATIENCE_S)
        return self._said()


class Bench:
    """Runs trials between namespaces under any contender, as many at once as the processors can take."""

    def __init__(self) -> None:
        self._gate, self.awake = Gate(), awake.Awake()

    def run(self, trial: Trial, contender: Callable[[], Contender] | None = None) -> Observation:
        """One trial, under mptune's path manager `trial.pm` without a contender; an overloaded one again."""
        rate_bps = sum(path.rate_bps for path in trial.topology.paths)
        for alone in (False, True, True):
            with self._gate.admitted(rate_bps, alone=alone):
                observation = self._measure(trial, contender, rate_bps)
            if "overloaded" not in observation.metadata:
                break
        return observation

    def close(self) -> None:
        """Break off what is running; nothing more begins."""
        self._gate.close()

    def _measure(self, trial: Trial, contender: Callable[[], Contender] | None, rate_bps: int) -> Observation:
        with bpf.loaded([trial.cc]) as kernel_names:
            named = addresses.interfaces(trial.topology)
            plan = _kernel_plan.plan(trial, kernel_names[trial.cc], named)
            links = _kernel_plan.links(trial, named)
            if contender is None:
                venue = NamespaceVenue(links)
            else:
                plan = msgspec.structs.replace(plan, managed=False)
                venue = _Venue(links, contender(), trial.topology)
            before = Load.now(self.awake.pid)
            outcome = kernel_trial.run(plan, venue, lambda: self._gate.closed)
            busy = before.share_until(Load.now(self.awake.pid))
        self._gate.learn(rate_bps, sum(_kernel_observation.processor_shares(outcome).values()))
        return _kernel_observation.observe(trial, plan, outcome, busy)
