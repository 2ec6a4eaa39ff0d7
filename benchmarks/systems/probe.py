"""Accuracy of `mptune probe` on known networks: drawn ones, between two namespaces.

Each network has two to four interfaces in all, with access links that paths share; rates, delays, losses and
queues are drawn. Printed is one line each: the largest error of the rates of its paths and of their links, of
the round-trip times, of the queues that overflowed, the losses found, the time and the data. A loss of which
fewer than ten packets were to be expected is not judged by a factor, but by whether the interval holds it.

    python -m benchmarks.systems.probe [--networks 20] [--only 8] [--seed 1] [--seconds 60] [--json FILE]
"""

import argparse
import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path as File
from statistics import median
from typing import Any

from benchmarks.shared.random_networks import Draw
from mptune.linux import addresses
from mptune.linux.awake import Awake
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.machines.namespace import NamespaceMachine
from mptune.probe import course
from mptune.probe.ends import End
from mptune.probe.estimates import Loss
from mptune.probe.preparation import Wish
from mptune.probe.result import PathFound, Probed
from mptune.topology import CoreSegment, Interface, Path, Site, Topology

#: Interfaces of sender and receiver.
SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 2))
RATE_BPS = (3_000_000, 150_000_000)
RTT_NS = (6_000_000, 160_000_000)
#: 0.02 % to 0.2 %, on half of the paths.
LOSS_PPB = (200_000, 2_000_000)
QUEUE_BDPS = (Decimal("0.5"), Decimal(4))
LEAST_QUEUE = 15_000
#: Lost packets that are expected for a factor of 2 to be asked for.
JUDGED = 10

RATE, RTT, LOSS, QUEUE = 0.1, 0.05, 2.0, 0.25


def drawn(seed: int) -> Topology:
    """A network."""
    draw = Draw(seed)
    near, far = SHAPES[draw.below(len(SHAPES))]
    rtts = {(i, j): int(draw.uniform(*RTT_NS)) for i in range(near) for j in range(far)}
    mean = sum(rtts.values()) // len(rtts)
    sender = _site("S", "ABC"[:near], draw, mean)
    receiver = _site("R", "XYZ"[:far], draw, mean)
    paths = []
    for (i, j), rtt in rtts.items():
        loss = int(draw.uniform(*LOSS_PPB)) if draw.below(2) else 0
        label = f"{sender.interfaces[i].abbr}-{receiver.interfaces[j].abbr}"
        core = CoreSegment(
            forward_ns=rtt // 2, reverse_ns=rtt - rtt // 2, jitter_ns=rtt // 400, loss_ppb=loss
        )
        paths.append(
            Path(
                label=label,
                local_index=i,
                remote_index=j,
                local=sender.interfaces[i],
                remote=receiver.interfaces[j],
                core=core,
            )
        )
    return Topology(
        name=f"drawn-{seed}",
        description="",
        sender=sender,
        receiver=receiver,
        paths=tuple(paths),
        initial_path=paths[0].label,
        lsrr_honoured=False,
        provenance={},
        file="",
    )


def _site(abbr: str, letters: str, draw: Draw, rtt_ns: int) -> Site:
    interfaces = []
    for letter in letters:
        rates = [int(draw.uniform(*RATE_BPS)) for _ in range(2)]
        queues = [
            max(int(draw.uniform(*QUEUE_BDPS) * rate * rtt_ns / (8 * 10**9)), LEAST_QUEUE) for rate in rates
        ]
        interfaces.append(
            Interface(
                isp=letter,
                abbr=letter,
                up_bps=rates[0],
                down_bps=rates[1],
                delay_ns=0,
                queue_up_bytes=queues[0],
                queue_down_bytes=queues[1],
                loss_ppb=0,
            )
        )
    return Site(abbr=abbr, name=abbr, location="", interfaces=tuple(interfaces))


@contextmanager
def emulated(network: Topology, seed: int = 1) -> Iterator[dict[End, NamespaceMachine]]:
    """Two machines with the network between them."""
    with ExitStack() as stack:
        sites = stack.enter_context(Sites())
        emulator = stack.enter_context(sites.start_emulator())
        named = addresses.interfaces(network)
        emulator.tell({"network": network.network(), "seed": seed, "interfaces": sites.devices(named)})
        emulator.expect("ready", STEP_S)
        sites.configure(named)
        emulator.tell({"action": "start"})
        yield {"sender": NamespaceMachine(sites, "local"), "receiver": NamespaceMachine(sites, "remote")}


def judge(network: Topology, probed: Probed) -> dict[str, Any]:
    """Errors of what was found; each is the largest of the network."""
    rates, together, rtts, losses, queues, bounds = [], [], [], [], [], []
    for path, known in zip(network.paths, probed.paths, strict=True):
        near, far = path.local, path.remote
        there = (near.up_bps, near.queue_up_bytes), (far.down_bps, far.queue_down_bytes)
        back = (far.up_bps, far.queue_up_bytes), (near.down_bps, near.queue_down_bytes)
        for way, links in ((known.up, there), (known.down, back)):
            rate, queue = min(links)
            rates.append(way.rate.value / rate - 1 if way.rate is not None else -1.0)
            if way.queue is None or way.queue.at_least:
                bounds.append(0.0 if way.queue is None else way.queue.bytes / queue)
            else:
                queues.append(way.queue.bytes / queue - 1)
        rtts.append((known.base_rtt_ns or 0) / path.base_rtt_ns - 1)
        losses += _losses(path, known)
    for site, known_site in ((network.sender, probed.sender), (network.receiver, probed.receiver)):
        for real_one, known_interface in zip(site.interfaces, known_site.interfaces, strict=True):
            for rate, estimate in (
                (real_one.up_bps, known_interface.up),
                (real_one.down_bps, known_interface.down),
            ):
                if estimate is not None and not estimate.at_least:
                    together.append(estimate.value / rate - 1)
                elif estimate is not None:
                    together.append(max(0.0, estimate.value / rate - 1))
    return {
        "name": network.name,
        "shape": f"{len(network.sender.interfaces)}x{len(network.receiver.interfaces)}",
        "rates": rates,
        "links": together,
        "rtts": rtts,
        "losses": losses,
        "queues": queues,
        "queue_bounds": bounds,
        "seconds": probed.seconds,
        "bytes": probed.bytes,
        "mptcp": sorted({path.mptcp.kind for path in probed.paths if path.mptcp is not None}),
        "notes": probed.notes,
    }


def _losses(path: Path, known: PathFound) -> list[dict[str, Any]]:
    losses = []
    for loss, real in ((known.up.loss, path.core.loss_ppb / 1e9), (known.down.loss, 0.0)):
        losses.append({"real": real, "found": None} if loss is None else _loss(loss, real))
    return losses


def _loss(loss: Loss, real: float) -> dict[str, Any]:
    low, high = loss.interval
    judged = real * loss.sent >= JUDGED
    within = real / LOSS <= loss.share <= LOSS * real if judged else low <= real <= high
    return {"real": real, "found": loss.share, "sent": loss.sent, "judged": judged, "within": within}


def worst(errors: Sequence[float]) -> float:
    """The largest error, with its sign."""
    return max(errors, key=abs, default=0.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="number of the one network to measure")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=File)
    options = parser.parse_args()
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}"
    print(machine)
    head = ("network", "shape", "rate %", "link %", "RTT %", "queue %", "losses", "s", "MB", "MPTCP")
    print("{:<14}{:<6}{:>8}{:>8}{:>8}{:>9}{:>8}{:>6}{:>7}  {}".format(*head))
    rows = []
    with Awake():
        for number in range(options.networks) if options.only is None else [options.only]:
            network = drawn(1000 * options.seed + number)
            with emulated(network) as machines:
                row = judge(network, course.probe(machines, Wish(time_s=options.seconds)))
            rows.append(row)
            good = sum(bool(loss.get("within")) for loss in row["losses"])
            print(
                f"{row['name']:<14}{row['shape']:<6}{100 * worst(row['rates']):>8.1f}"
                f"{100 * worst(row['links']):>8.1f}{100 * worst(row['rtts']):>8.1f}"
                f"{100 * worst(row['queues']):>9.1f}{good:>5}/{len(row['losses'])}"
                f"{row['seconds']:>7.0f}{row['bytes'] / 1e6:>7.1f}  "
                f"{'; '.join([', '.join(row['mptcp']), *row['notes']])}",
                flush=True,
            )
    print(summary(rows))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2), encoding="utf-8")


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The summary of all networks."""
    lines = []
    for key, limit in (("rates", RATE), ("links", RATE), ("rtts", RTT), ("queues", QUEUE)):
        errors = [abs(error) for row in rows for error in row[key]]
        if errors:
            within = sum(error <= limit for error in errors)
            lines.append(
                f"{key}: {within} of {len(errors)} within {limit:.0%}, "
                f"median {median(errors):.1%}, largest {max(errors):.1%}"
            )
    bounds = [bound for row in rows for bound in row["queue_bounds"]]
    high = sum(bound > 1 + QUEUE for bound in bounds)
    unknown = sum(bound == 0 for bound in bounds)
    lines.append(
        f"queues besides: {len(bounds) - unknown} at least so large ({high} of them wrong), {unknown} unknown"
    )
    losses = [loss for row in rows for loss in row["losses"]]
    judged = [loss for loss in losses if loss.get("judged")]
    lines.append(f"losses: {sum(loss['within'] for loss in judged)} of {len(judged)} within a factor of 2")
    others = [loss for loss in losses if not loss.get("judged")]
    held = sum(bool(loss.get("within")) for loss in others)
    lines.append(f"losses too few for that: {held} of {len(others)} within their 95 % interval")
    seconds, data = (max(row[key] for row in rows) for key in ("seconds", "bytes"))
    lines.append(f"at most {seconds:.0f} s and {data / 1e6:.1f} MB")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
