"""What happens to the programs of path policies while connections use them; see `soak.py`.

Not a benchmark. Each disturbance is drawn; what must follow from it, such as that a name is free, is waited
for, and noted if it does not happen.
"""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.systems._daemon_load import CLIENT
from mptune.linux import bpf
from mptune.linux.congestion import available
from mptune.linux.sandbox.processes import Child
from tests.plugins.congestion_role import congestion_role

FIRST, *OTHERS = PAIRS = ("cubic+hold", "cubic+quick", "cubic+weight", "cubic+cap", "cubic+prefer")
#: Connections that a disturbance replaces.
REOPENED = 100
#: What is bound to happen must, within this time: a name is forgotten, an object goes, an answer comes, s.
PATIENCE_S = 30.0
#: Caps, bit/s; a burst of 64 KiB at less would take so long that its wait were no stall.
CAPS_BPS = (1_000_000, 20_000_000)
#: In the environment of every process that the benchmark starts, however indirectly.
MARK = "MPTUNE_SOAK"


class Policies:
    """The pairs that are loaded, and which of them new connections have."""

    def __init__(self, traffic: Child, draw: random.Random) -> None:
        self._traffic, self._draw, self._loads = traffic, draw, 0
        #: The number of its last load, by pair.
        self._generations: dict[str, int] = {}
        self.current = FIRST
        self.faults: list[str] = []

    def load(self, cc: str) -> None:
        """Load it, told something of the paths if it goes by that; or tell the loaded one."""
        bpf.load(cc, self._parameters(cc))
        if cc not in self._generations:
            self._count(cc)

    def unload(self, cc: str) -> None:
        """Unload it, and see its name go."""
        bpf.unload(cc)
        self._generations.pop(cc, None)
        self._await_free(cc)

    def use(self, cc: str) -> None:
        """Give it to new connections."""
        self.current = cc
        order = {"cc": bpf.registered_name(cc), "generation": self._generations[cc]}
        self._traffic.tell({"action": "use", **order})

    def end(self) -> None:
        """Unload all."""
        for cc in PAIRS:
            if bpf.is_loaded(cc):
                self.unload(cc)

    def disturb(self) -> str:
        """One disturbance; its description."""
        if not bpf.is_loaded(self.current):  # after `unload`
            self.load(self.current)
            self.use(self.current)
        choices = (self._reload, self._switch, self._tell, self._unload, self._kill, self._reopen)
        return self._draw.choice(choices)()

    def _reload(self) -> str:
        # At once, while the kernel may still be taking the first one back.
        bpf.unload(self.current)
        self._generations.pop(self.current)
        self.load(self.current)
        self.use(self.current)
        self._replace(REOPENED // 10)
        return f"reload {self.current}"

    def _switch(self) -> str:
        last, cc = self.current, FIRST if self.current != FIRST else self._draw.choice(OTHERS)
        self.load(cc)
        self.use(cc)
        self._replace(REOPENED // 2)
        if self._draw.random() < 0.5:
            self.unload(last)
        return f"switch to {cc}"

    def _tell(self) -> str:
        cc = self._draw.choice([pair for pair in PAIRS if self._parameters(pair) is not None])
        self.load(cc)
        return f"tell {cc}"

    def _unload(self) -> str:
        self.end()
        self._replace(REOPENED // 10)
        return "unload"

    def _kill(self) -> str:
        cc = self.current
        self.unload(cc)
        killed, act = self._draw.choice((("holder", self._kill_holder), ("load", self._kill_load)))
        act(cc)
        if not bpf.is_loaded(cc):
            self._await_free(cc)
        self.load(cc)
        self.use(cc)
        return f"kill {killed} of {cc}"

    def _kill_holder(self, cc: str) -> None:
        """A process has registered it, new connections use it, and the process is killed."""
        content = (bpf.OBJECTS / f"{cc}.bpf.o").read_bytes()
        with congestion_role(bpf.registered_name(cc), content) as role:
            self._count(cc)
            self.use(cc)
            self._replace(REOPENED // 5)
            time.sleep(self._draw.uniform(1, 3))
            role.process.kill()
        self._generations.pop(cc)

    def _kill_load(self, cc: str) -> None:
        """`mptune cc load` is killed; its agent notices, perhaps with the program pinned already."""
        command = [sys.executable, "-m", "mptune", "cc", "load", cc]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as process:
            time.sleep(self._draw.uniform(0, 1))
            process.kill()
        if not within(PATIENCE_S, lambda: not marked("congestion")):
            self.faults.append("the agent of `mptune cc load` outlives it")

    def _reopen(self) -> str:
        self._replace(REOPENED)
        return "reopen"

    def _replace(self, count: int) -> None:
        """The oldest connections end, and as many begin."""
        self._traffic.tell({"action": "reopen", "count": count})

    def _count(self, cc: str) -> None:
        self._loads += 1
        self._generations[cc] = self._loads

    def _await_free(self, cc: str) -> None:
        if not within(PATIENCE_S, lambda: bpf.registered_name(cc) not in available()):
            self.faults.append(f"{cc} is still registered {PATIENCE_S:g} s after it was unloaded")

    def _parameters(self, cc: str) -> list[dict[str, Any]] | None:
        """What it is told of the paths, drawn; None if it goes by nothing."""
        ranks = self._draw.sample(range(len(CLIENT)), len(CLIENT))
        drawn: dict[str, Callable[[int], dict[str, int]]] = {
            "cap": lambda _: {"cap_bps": self._draw.randint(*CAPS_BPS)},
            "weight": lambda _: {"weight": self._draw.randint(1, 5)},
            "prefer": lambda path: {"rank": ranks[path]},
        }
        draw = drawn.get(cc.partition("+")[2])
        if draw is None:
            return None
        return [{"local": address, **draw(path)} for path, address in enumerate(CLIENT)]


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """True as soon as it holds; False if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def marked(word: str = "") -> Sequence[str]:
    """Command lines of the processes that this program started and that are alive, with a word in them."""
    mark, found = f"{MARK}={os.getpid()}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in found if word in command]
