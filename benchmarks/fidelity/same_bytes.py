"""One digest per trial of the simulator, over all of its options: a change of its bytes shows.

Not a measurement. A seed gives the same trials on every machine: networks as in `_drawn.py`, with TCP
connections of others on some, and every congestion control, path manager, scheduler, accounting and buffer
mode, both families, MPTCP and plain TCP, saturated senders and transfers, scripts, trials that end early, and
recorded ones, whose packets and samples count too. Write the digests before a change and compare after it:

    python -m benchmarks.fidelity.same_bytes --out before.json
    python -m benchmarks.fidelity.same_bytes --against before.json

A trial goes by what was drawn, in words. Where the lists of algorithms have changed, other trials are drawn
from there on; they are reported as not compared. Exit status 1 if any digest differs, or none was compared.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.fidelity._drawn import networks, shuffled
from benchmarks.shared.measure import RESULTS
from benchmarks.shared.random_networks import Draw
from mptune import _core
from mptune.testbeds.simulated import SimulatedTestbed
from mptune.topology import TcpBackground, Topology
from mptune.trial import FAMILIES, MSS, PLAIN_TCP, Bulk, ScriptedAction, Transfer, Trial, Workload
from mptune.units import format_size

COUNT, SEED = 2_000, 1

#: Trials of each network.
PER_NETWORK = 5

#: Whole tenths of a second of a saturated sender; an early end needs more.
SATURATED_TENTHS, EARLY_TENTHS = (5, 100), (60, 200)
#: Bytes of a transfer, of a buffer, and of a segment where it is not the usual one.
TRANSFER_BYTES, BUFFER_BYTES, MSS_BYTES = (1_000, 50_000_000), (12_000, 16_000_000), (100, 8_960)
#: A transfer that takes longer has failed, ns.
DEADLINE_NS = 60_000_000_000

#: Changes of a path, each with its inverse; plain TCP has only the first.
CHANGES = (("down", "up"), ("remove", "add"), ("standby", "active"))

#: Per cent of the trials: plain TCP, transfers, scripts, early ends of the rest, recorded ones of those that
#: do not end early; and of the networks, those with TCP connections of others.
TCP, TRANSFERS, SCRIPTS, EARLY, RECORDED, BUSY = 12, 40, 20, 15, 8, 25

_TENTH_NS = 10**8


class Sent(NamedTuple):
    """The workload of a trial, its description, and its permission to end early."""

    workload: Workload
    words: str
    early: bool


class Drawn(NamedTuple):
    """A trial, whether its packets are recorded, and what it is in words."""

    trial: Trial
    recorded: bool
    words: str


def drawn_trials(count: int, seed: int, folder: Path) -> Iterator[Drawn]:
    """So many trials; their topology files and traces are written into a folder."""
    number = 0
    for network in networks(seed, -(-count // PER_NETWORK), 0, 0, folder):
        draw = Draw(_digest(f"{seed}/{network.topology.name}"))
        topology = _shared(network.topology, draw)
        for _ in range(min(PER_NETWORK, count - number)):
            yield _drawn(number, topology, Draw(_digest(f"{seed}/trial {number}")))
            number += 1


def _shared(topology: Topology, draw: Draw) -> Topology:
    """The network, some with one to three TCP connections of others."""
    if draw.below(100) >= BUSY:
        return topology
    others = tuple(
        TcpBackground(
            path=topology.paths[draw.below(len(topology.paths))].label,
            cc=_one(_core.congestion_controls(), draw),
            start_ns=(start := draw.below(20)) * _TENTH_NS,
            stop_ns=(start + 1 + draw.below(20)) * _TENTH_NS,
        )
        for _ in range(1 + draw.below(3))
    )
    return msgspec.structs.replace(topology, background=(*topology.background, *others))


def _drawn(number: int, topology: Topology, draw: Draw) -> Drawn:
    """Draw what a trial is."""
    labels = [path.label for path in topology.paths]
    tcp = draw.below(100) < TCP
    script = _script(labels, draw, tcp=tcp)
    sent = _sent(draw, may_end_early=not script)
    settings: dict[str, Any] = {
        "protocol": PLAIN_TCP if tcp else "mptcp",
        "family": _one(FAMILIES, draw),
        "pm": "default" if tcp else _one(_core.path_managers(), draw),
        "cc": _one(_core.congestion_controls(), draw),
        "scheduler": _one(_core.schedulers(), draw),
        "accounting": _one(_core.accountings(), draw),
        "buffer_mode": _one(_core.buffer_modes(), draw),
    }
    switches: dict[str, Any] = {
        name: draw.below(2) == 1 for name in ("opportunistic", "tso", "ecn", "size_known")
    }
    trial = Trial(
        topology=topology,
        buffer_bytes=int(draw.uniform(*BUFFER_BYTES)),
        mss=int(draw.uniform(*MSS_BYTES)) if draw.below(4) == 0 else MSS,
        seed=number,
        initial_path=_one(labels, draw) if draw.below(2) else None,
        pm_options=_options(settings["pm"], labels, draw),
        script=script,
        **settings,
        **switches,
        workload=sent.workload,
    )
    recorded = not sent.early and draw.below(100) < RECORDED
    words = [f"{number:05d}", topology.name, *settings.values(), format_size(trial.buffer_bytes)]
    words += [*(name for name, on in switches.items() if on), sent.words]
    words += ["script"] * bool(script) + ["recorded"] * recorded
    return Drawn(trial, recorded, " ".join(words))


def _sent(draw: Draw, *, may_end_early: bool) -> Sent:
    """Draw what a trial sends."""
    if draw.below(100) < TRANSFERS:
        size = int(draw.uniform(*TRANSFER_BYTES))
        return Sent(Transfer(bytes=size, deadline_ns=DEADLINE_NS), f"transfer of {size} B", False)
    early = may_end_early and draw.below(100) < EARLY
    shortest, longest = EARLY_TENTHS if early else SATURATED_TENTHS
    tenths = shortest + draw.below(longest - shortest + 1)
    words = f"{tenths / 10} s or less" if early else f"{tenths / 10} s"
    return Sent(Bulk(duration_ns=tenths * _TENTH_NS, ends_early=early), words, early)


def _script(labels: list[str], draw: Draw, *, tcp: bool) -> tuple[ScriptedAction, ...]:
    """Up to three changes of paths, most of them undone later."""
    if draw.below(100) >= SCRIPTS:
        return ()
    script = []
    for _ in range(1 + draw.below(3)):
        gone, back = CHANGES[0 if tcp else draw.below(len(CHANGES))]
        path, at = _one(labels, draw), draw.below(25)
        script.append(ScriptedAction(at_ns=at * _TENTH_NS, path=path, action=gone))  # type: ignore[arg-type]
        if draw.below(10):
            later = (at + 1 + draw.below(25)) * _TENTH_NS
            script.append(ScriptedAction(at_ns=later, path=path, action=back))  # type: ignore[arg-type]
    return tuple(script)


def _options(pm: str, labels: list[str], draw: Draw) -> dict[str, Any]:
    """Options of a path manager, where it has any worth drawing."""
    if pm == "ndiffports":
        return {"ndiffports": 1 + draw.below(4)}
    if pm == "pcdc" and draw.below(2):
        order, active = shuffled(labels, draw), 1 + draw.below(len(labels))
        return {"active": order[:active], "standby_order": order[active:]}
    return {}


def _one(options: Any, draw: Draw) -> str:
    return str(options[draw.below(len(options))])


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")


def digest(drawn: Drawn) -> str:
    """Everything that the trial gave, as 16 hexadecimal digits."""
    testbed, hashed = SimulatedTestbed(), blake2b(digest_size=8)
    if drawn.recorded:
        observation, run = testbed.record(drawn.trial)
        hashed.update(run.packets.tobytes())
        hashed.update(run.samples.tobytes())
    else:
        observation = testbed.run(drawn.trial)
    document = msgspec.to_builtins(observation)
    for subflow in document["subflows"]:
        del subflow["rto_ns"]  # of digests of earlier versions it is no part
    hashed.update(msgspec.json.encode(document, order="sorted"))
    return hashed.hexdigest()


def digests(count: int, seed: int, folder: Path, workers: int) -> dict[str, str]:
    """Trial, in words -> digest."""
    drawn = list(drawn_trials(count, seed, folder))
    with ThreadPoolExecutor(workers) as pool:
        return dict(zip((trial.words for trial in drawn), pool.map(digest, drawn), strict=True))


def compare(made: dict[str, str], before: dict[str, str]) -> bool:
    """Report the trials that differ; whether all that are in both are the same, and there are any."""
    common = [words for words in made if words in before]
    differing = [words for words in common if made[words] != before[words]]
    for words in differing:
        print(f"differs: {words}")
    print(f"{len(common) - len(differing)} of {len(common)} digests equal")
    if left := len(made) + len(before) - 2 * len(common):
        print(f"{left} trials are in one of the two only, and were not compared")
    return bool(common) and not differing


def main() -> None:
    """Draw, run, write or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=COUNT, help=f"number of trials ({COUNT})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the draw ({SEED})")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads (all processors)")
    parser.add_argument(
        "--out", type=Path, default=RESULTS / "same_bytes.json", help="file of the digests (%(default)s)"
    )
    parser.add_argument("--against", type=Path, help="an earlier file, to compare with")
    asked = parser.parse_args()
    made = digests(asked.trials, asked.seed, RESULTS / f"same_bytes-{asked.seed}", asked.workers)
    before = json.loads(asked.against.read_text(encoding="utf-8")) if asked.against else None
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{len(made)} digests written to {asked.out}")
    if before is not None:
        sys.exit(not compare(made, before))


if __name__ == "__main__":
    main()
