"""The daemon as a contender: started in a namespace with a policy file, ended in order.

Not a benchmark. See `benchmarks.shared.contenders` for the others.
"""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.shared.contenders import KernelFullmesh, ended
from mptune.daemon.client import Client
from mptune.errors import TrialError
from mptune.linux import addresses, agent, assignment
from mptune.topology import Topology

#: Seconds until it must be at work, or have ended.
_PATIENCE_S = 20.0


class Daemon:
    """A process of `mptune-agent daemon` in a namespace, with directories of its own.

    Parameters
    ----------
    namespace : its path.
    policy : the policy file without its table `daemon`; `{folder}` in it is the daemon's folder.
    files : further files in the folder, by name.
    """

    def __init__(
        self, namespace: str, mode: str, policy: str, files: dict[str, object] | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mptune-daemon-"))
        self.socket = self.folder / "run" / "daemon.sock"
        for name, content in (files or {}).items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(json.dumps(content), encoding="utf-8")
        text = f'[daemon]\nmode = "{mode}"\nsocket = "{self.socket}"\n' + policy.replace(
            "{folder}", str(self.folder)
        )
        (self.folder / "policy.toml").write_text(text, encoding="utf-8")
        self.said: list[str] = []
        self._process = subprocess.Popen(
            [*agent.command("daemon", namespace), "--policy", str(self.folder / "policy.toml")],
            env={**os.environ, "MPTUNE_RUN_DIRECTORY": str(self.folder / "run")},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        end = time.monotonic() + _PATIENCE_S
        while not any(line.startswith("ready:") for line in self.said):
            if self._process.poll() is not None or time.monotonic() > end:
                self.end()
                raise TrialError(f"the daemon does not begin: {' '.join(self.said)}")
            time.sleep(0.02)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self.said.extend(lines)

    @property
    def pids(self) -> list[int]:
        """The daemon and its watchdog."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [self._process.pid, *map(int, children.read_text(encoding="ascii").split())]

    def status(self) -> dict[str, Any]:
        """Its status."""
        with Client(self.socket) as client:
            return client.ask("status")

    def end(self) -> str:
        """End it in order; returns its output."""
        ended(self._process, _PATIENCE_S)
        self._listener.join()
        shutil.rmtree(self.folder)
        return "".join(self.said)


class UnderDaemon(KernelFullmesh):
    """A trial's sender, which is an ordinary program here, under the daemon.

    The receiver's kernel has the path management, as with `KernelFullmesh`.

    Parameters
    ----------
    pm : a path manager by name, or pcdc with its active set, in a policy.json as a run writes it.
    """

    def __init__(
        self,
        pm: str,
        mode: str = "userspace",
        active: Sequence[str] | None = None,
        standby: Sequence[str] | None = None,
    ) -> None:
        self._pm, self._mode, self._active, self._standby = pm, mode, active, standby
        self._daemon: Daemon | None = None

    def set_up(self, local: str, remote: str, topology: Topology) -> None:
        """As in `Contender`."""
        self.open_receiver(remote, topology)
        to = 'to = ["10.65.0.0/16", "fd65::/16"]'
        policy = f'[[policy]]\nname = "trial"\n{to}\npolicy = "{self._pm}"\n'
        files: dict[str, object] = {}
        if self._active is not None:
            policy = f'[[policy]]\nname = "trial"\n{to}\nrun = "{{folder}}/answer"\n'
            files = {"answer/policy.json": self._answer(topology)}
        self._daemon = Daemon(local, self._mode, policy, files)

    def _answer(self, topology: Topology) -> dict[str, Any]:
        options: dict[str, Any] = {"active": tuple(self._active or ())}
        if self._standby is not None:
            options["standby_order"] = tuple(self._standby)
        paths = assignment.kernel_paths(topology, addresses.interfaces(topology))
        document = assignment.document(assignment.Assignment(pm=self._pm, paths=paths, pm_options=options))
        return {
            "version": 1,
            "run": "trial",
            "site": "local",
            "measured_at": None,
            "testbed": "namespaces",
            "stack": "linux",
            "pm": self._pm,
            "pm_options": msgspec.to_builtins(document["pm_options"]),
            "paths": document["paths"],
            "congestion": "cubic",
            "buffer_bytes": 1 << 20,
            "expected_mbit_s": None,
        }

    def end(self) -> str:
        """As in `Contender`."""
        return "" if self._daemon is None else self._daemon.end()
