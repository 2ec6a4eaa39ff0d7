"""Cost of watching many connections: processor time and memory of the agent's role `watch`.

Connections of two subflows each over the loopback device of a namespace, both ends of which the role reports:
first idle, then with some of them sending, then with some of them ending and others beginning. Printed is the
role's share of one core at a report every second. With `--picture FILE` instead: the screen of `mptune watch`
as an SVG, while two namespaces exchange data over three paths of unlike rates.

    python -m benchmarks.systems.watch [CONNECTIONS ...] [--seconds 20] [--json FILE]
    python -m benchmarks.systems.watch --picture docs/images/watch.svg
"""

import argparse
import asyncio
import json
import os
import platform
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyroute2

from benchmarks.systems.agent import Load, loopback_up, processor_s
from mptune.linux import agent as program
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child
from tests.plugins.netlink import inside

INTERVAL_NS = 1_000_000_000
#: Of the picture: seconds of the transfer before it is taken, and the rates of its paths, Mbit/s.
PICTURE_S = 45
RATES_MBPS = (60, 25, 10)
MBIT = 1_000_000


def share(child: Child, seconds: float, act: Callable[[], object]) -> float:
    """The role's share of a core while its reports are read and something is done once a second, percent."""
    child.take()
    began, before = time.monotonic(), processor_s(child)
    while time.monotonic() - began < seconds:
        act()
        child.expect("connections", STEP_S)
    return 100 * (processor_s(child) - before) / (time.monotonic() - began)


def endpoints(*addresses: str, standby: str | None = None) -> None:
    """Let the kernel's own path manager open a subflow from each of these addresses."""
    Path("/proc/sys/net/mptcp/path_manager").write_text("kernel", encoding="ascii")
    for address in addresses:
        ip("mptcp", "endpoint", "add", address, "subflow", *(["backup"] if address == standby else []))


def ip(*words: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *words], check=True)


def measure(connections: int, seconds: float) -> dict[str, Any]:
    """One row of the table."""
    # The role first: select(2), which waits for it, knows only the first thousand descriptors.
    with Sites() as sites, sites.start_agent("watch", "local") as child:
        inside(sites.local, loopback_up)
        inside(sites.local, lambda: endpoints("127.0.0.2"))
        load = Load(sites.local)
        load.open(connections)
        child.tell({"interval_ns": INTERVAL_NS})
        first = child.expect("connections", STEP_S)["connections"]
        first_ms = 1000 * processor_s(child)
        row = {
            "connections": len(first),
            "subflows": sum(len(connection["subflows"]) for connection in first),
            "first_ms": first_ms,
            "idle_percent": share(child, seconds, lambda: None),
            "sending_percent": share(child, seconds, load.send),
            "replacing_percent": share(child, seconds, load.replace),
            "memory_mib": memory_mib(child),
        }
        load.close()
    return row


def memory_mib(child: Child) -> float:
    """Its largest resident memory so far."""
    status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def print_table(counts: list[int], seconds: float, file: Path | None) -> None:
    """Measure and print."""
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, mptune-agent {program.version()}"
    print(machine)
    titles = ("connections", "subflows", "first ms", "idle %", "sending %", "replacing %", "MiB")
    print("".join(title.rjust(13) for title in titles))
    rows = []
    for count in counts:
        rows.append(measure(count, seconds))
        first, second, *others = rows[-1].values()
        print(f"{first:>13}{second:>13}" + "".join(f"{value:>13.2f}" for value in others))
    if file is not None:
        file.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2), encoding="utf-8")


@contextmanager
def joined() -> Iterator[Sites]:
    """Two namespaces with pairs of devices, the sender's of unlike rates; the last is standby."""
    with Sites() as sites:
        for number, rate in enumerate(RATES_MBPS):
            inside(sites.local, partial(join, sites, number, rate))
            inside(sites.remote, partial(address, number, "2"))
        own = [f"10.0.{number}.1" for number in range(1, len(RATES_MBPS))]
        inside(sites.local, lambda: endpoints(*own, standby=own[-1]))
        inside(sites.remote, endpoints)
        yield sites


def join(sites: Sites, number: int, rate_mbps: int) -> None:
    """A device here and one there."""
    descriptor = os.open(sites.remote, os.O_RDONLY)
    with pyroute2.IPRoute() as routes:
        peer = {"ifname": f"eth{number}", "net_ns_fd": descriptor}
        routes.link("add", ifname=f"eth{number}", kind="veth", peer=peer)
    os.close(descriptor)
    address(number, "1")
    with pyroute2.IPRoute() as routes:
        index = routes.link_lookup(ifname=f"eth{number}")[0]
        table = 100 + number  # what has this address leaves by this device
        routes.rule("add", src=f"10.0.{number}.1", table=table)
        routes.route("add", dst="10.0.0.0/24", oif=index, table=table)
        routes.tc("add", "tbf", index, 0x10000, rate=rate_mbps * MBIT // 8, burst=16_000, limit=150_000)


def address(number: int, host: str) -> None:
    """Bring a device up with its address."""
    with pyroute2.IPRoute() as routes:
        index = routes.link_lookup(ifname=f"eth{number}")[0]
        routes.addr("add", index=index, address=f"10.0.{number}.{host}", prefixlen=24)
        routes.link("set", index=index, state="up")


def take_picture(file: Path) -> None:
    """Let connections work, and keep what the screen shows."""
    from benchmarks.systems._picture import transfers
    from mptune.monitor.figures import Machine
    from mptune.monitor.screen import WatchApp
    from mptune.monitor.shape import census

    with ExitStack() as stack:
        sites = stack.enter_context(joined())
        stack.enter_context(transfers(sites))
        child = stack.enter_context(sites.start_agent("watch", "local"))
        child.tell({"interval_ns": INTERVAL_NS})
        machine = Machine()
        # Four connections have three subflows each, and one fell back.
        end = time.monotonic() + STEP_S
        while sum(len(connection.subflows) for connection in machine.connections) < 4 * len(RATES_MBPS) + 1:
            if time.monotonic() > end:
                raise SystemExit("a subflow could not join: try again")
            machine.update(census(child.expect("connections", STEP_S)))
        app = WatchApp({"": child}, {"": machine})
        file.write_text(asyncio.run(screenshot(app)), encoding="utf-8")
    print(f"written to {file}")


async def screenshot(app: Any) -> str:
    """The screen after a while, the connections opened."""
    async with app.run_test(size=(132, 25)) as pilot:
        await pilot.press("e", "down")
        await asyncio.sleep(PICTURE_S)
        await pilot.pause()
        picture: str = app.export_screenshot(title="mptune watch")
        # Nothing is loaded from elsewhere: without the font it names, a page uses its own.
        return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)


def main() -> None:
    """Measure and print, or take the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("connections", nargs="*", type=int, default=[100, 500, 1000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.picture is not None:
        take_picture(options.picture)
    else:
        print_table(options.connections, options.seconds, options.json)


if __name__ == "__main__":
    main()
