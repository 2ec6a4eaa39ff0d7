"""The loss from measuring less: strategies replayed on networks whose grids are known.

Dense grids of trials (`_corpus.py`) stand for the testbed: every network x FullMesh, the best sets of
subflows and plain TCP x six congestion controls x 16 buffers x 8 runs of 20 s (up to 64 where runs scatter);
with --kernel, grids that were measured on this kernel (`_kernel_grids.py`). A strategy asks, the grid answers
with one of its runs, in an order drawn anew for every replay, and time counts as on a real testbed: what a
trial lasts, and 1 s to set it up. What would be recommended is noted at a series of times. It is judged by
the means of the grid: its regret is the share by which its throughput misses what the sacrifice allows, and
its buffer is compared with the smallest that does it.

The budget is 1 % of MPCOA's measurements (1944 s); 1650 s of it are the strategy's, the rest is for impact
factors and confirmation. Beside the adaptive strategy without a prior, with one, and with one that is wrong
on purpose there are

- the oracle: the adaptive strategy about the two best arms of the truth alone, known beforehand;
- the sweep of the papers with the same time (as many runs and buffers as fit, evenly), trials drawn at
  random, and successive halving;
- optimisers that others wrote (`_peers.py`), which are skipped where they are not installed.

Those without an answer of their own (all but the adaptive strategy and the oracle) answer by the means of
what they saw. --reading belief reads the answer by the belief that the adaptive strategy would have, had it
seen the same: on the development networks that was better for the throughput, and worse for the buffer and in
all. The sweep and halving have to know their time in advance, and are replayed for every one.

The prior is the grid's means times errors like those of the simulator against kernels (`misjudged`), the
stated one the same with its error known, the wrong one the same with the ranks of the arms reversed. The
learnt prior is what `mptune optimise --learnt-prior` has (`learning.py` makes it), and its wrong one
likewise. With *ending early* the first trial of each configuration ends early, as there. --small replays on
grids of a sixteenth of the trials, for more networks; there marks end at 780 s.

--claims replays the adaptive strategy alone, with each prior, without a limit until it is certain, and counts
how often it is wrong; and compares how much longer it expected to need, after 780 s, with what it needed.

Finished replays are kept under target/benchmarks/economy until the strategy changes, so that an interrupted
run continues. Prints tables, writes JSON and a figure, and with --write-docs puts them into
docs/explanation/adaptive.md, but for those of --claims.
"""

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.decision import _peers, _replay
from benchmarks.decision._cases import (
    CONTESTANTS,
    EARLY,
    MAIN,
    MARKS,
    PATIENCE_S,
    Case,
    Network,
    sources,
    stored_case,
)
from benchmarks.decision._corpus import SMALL, WHOLE, Grid, is_kept
from benchmarks.decision._figure import draw
from benchmarks.decision._replay import LARGER, ROOM
from benchmarks.shared import docs
from benchmarks.shared.measure import RESULTS, machine, write
from benchmarks.shared.random_networks import random_network
from mptune.decision.selection import SACRIFICE
from mptune.topology import load, shipped

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "adaptive.md"
FIGURE = PAGE.parents[1] / "images" / "economy.svg"

#: A regret up to this is none to speak of; up to that it is bearable.
GOOD, FAIR = ROOM, 0.05

#: Factor of the oracle's regret where runs scatter so much that `GOOD` is out of reach.
SCATTER = 1.5

#: Rivals that the adaptive strategy must beat in speed.
RIVALS = tuple(name for name in CONTESTANTS if not name.startswith(("adaptive", "oracle")))


def networks(asked: argparse.Namespace) -> list[Network]:
    """The requested networks; with --kept only those with a grid."""
    if asked.kernel:
        return [Network(load(name), "kernel") for name in asked.kernel]
    extent = SMALL if asked.small else WHOLE
    drawn = [random_network(asked.seed + number) for number in range(asked.networks)]
    scenarios = [] if asked.random_only else [load(name) for name in shipped()]
    stacks = asked.stack or ["linux"]
    every = [Network(scenario, stack, extent) for stack in stacks for scenario in scenarios]
    # Random networks are nobody's measurements: under the present stack alone.
    every += [Network(topology, stacks[0], extent) for topology in drawn]
    every = [network for network in every if not asked.only or network.topology.name in asked.only]
    return [network for network in every if not asked.kept or is_kept(*network)]


def contestants(asked: argparse.Namespace) -> Iterator[str]:
    """Strategies that can take part; prints those that cannot."""
    for name, contestant in CONTESTANTS.items():
        if asked.strategy and name not in asked.strategy:
            continue
        if asked.claims and not name.startswith("adaptive"):
            continue
        absent = _peers.missing(contestant.peer) if contestant.peer else []
        if absent:
            print(
                f"{name} is skipped: no {' and '.join(absent)} (benchmarks/decision/_peers.py)",
                file=sys.stderr,
            )
        elif contestant.prior and not _replay.has_priors():
            print(f"{name} is skipped: questions have no priors", file=sys.stderr)
        elif contestant.ending and _replay.ending() is None:
            print(f"{name} is skipped: testbeds do not end trials early", file=sys.stderr)
        else:
            yield name
    if not asked.claims:
        print("irace is skipped: nothing here drives R", file=sys.stderr)


def main() -> int:
    """Replay everything that was asked for."""
    asked = arguments()
    _peers.reachable(asked.peers)
    every, names = networks(asked), list(contestants(asked))
    if not every or not names:
        print("nothing to replay: no such network or strategy", file=sys.stderr)
        return 2
    # Measured by all cores, before the processes start.
    vague = frozenset(network.topology.name for network in every if best_known_to(network.known) > GOOD)
    console = Console(width=150)
    cases, stopped = replayed_all(every, names, asked, console)
    if cases:
        # A part of the networks is no result.
        asked.write_docs &= not stopped
        console.print(machine(), f"{len(every)} networks, {asked.replays} replays each")
        tell(cases, asked, console, vague)
        drawn = [msgspec.to_builtins(case) for case in cases]
        name = f"{asked.out}.claims" if asked.claims else asked.out
        write(name, {"totals": totals(cases, asked), "cases": drawn})
    return 130 if stopped else 0


def replayed_all(
    every: Sequence[Network], names: Sequence[str], asked: argparse.Namespace, console: Console
) -> tuple[list[Case], bool]:
    """All cases in order, and whether the user interrupted."""
    # The longest first, so that the last process does not work alone.
    order = sorted(names, key=lambda name: not CONTESTANTS[name].slow)
    cases: dict[tuple[int, int], Case] = {}
    stopped, by = False, sources()
    with ProcessPoolExecutor(asked.jobs or os.cpu_count(), initializer=quietly) as pool:
        tasks = {
            pool.submit(stored_case, network, name, asked, by): (number, names.index(name))
            for name in order
            for number, network in enumerate(every)
        }
        try:
            for task in track(as_completed(tasks), "replays", total=len(tasks), console=Console(stderr=True)):
                cases[tasks[task]] = task.result()
        except KeyboardInterrupt:
            stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            print("interrupted: run it again to continue", file=sys.stderr)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [cases[place] for place in sorted(cases)], stopped


def quietly() -> None:
    """A process that Ctrl-C ends without output; the first process prints the message."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def best_known_to(known: Grid) -> float:
    """Standard error of the highest mean of a grid, as a share: what is less than that nobody can judge."""
    means = known.mbps.mean(axis=2)
    best = np.unravel_index(int(means.argmax()), means.shape)
    runs = known.mbps[best]
    return float(runs.std(ddof=1) / math.sqrt(len(runs)) / means[best])


def tell(cases: Sequence[Case], asked: argparse.Namespace, console: Console, vague: frozenset[str]) -> None:
    """Tables and the figure, and the page if it was asked for; `vague` as in `targets`."""
    if asked.claims:
        console.print(table(CLAIMS, claim_rows(cases)))
        return
    console.print(table(COLUMNS, rows(cases, asked.mark)))
    console.print(table(*sooner(cases, asked.mark)))
    console.print(table(*targets(cases, asked.mark, vague)))
    aside = "kernel" if asked.kernel else "small" if asked.small else ""
    figure = FIGURE if asked.write_docs and not aside else RESULTS / f"{asked.out}.svg"
    figure.write_text(draw(points(cases)), encoding="utf-8")
    print(f"written to {figure}")
    if asked.write_docs:
        # Of another stack, only what is compared.
        other = "" if asked.stack in (None, ["linux"]) else f" {asked.stack[0]}"
        if not other:
            docs.replace(PAGE, aside or "economy", markdown(COLUMNS, rows(cases, asked.mark)))
        if asked.small:
            docs.replace(PAGE, f"small{other}, sooner", markdown(*sooner(cases, asked.mark)))
        if not asked.kernel:
            section = f"small{other}, targets" if asked.small else "targets"
            docs.replace(PAGE, section, markdown(*targets(cases, asked.mark, vague)))
        print(f"written to {PAGE}")


def by_contestant(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases of each."""
    return {
        name: [case for case in cases if case.contestant == name]
        for name in dict.fromkeys(case.contestant for case in cases)
    }


def points(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The figure's data: over all replays of all networks, in per cent."""
    return [
        {
            "strategy": name,
            "minutes": mark / 60,
            **{key: 100 * total[key] for key in ("median", "q90", "both")},
        }
        for name, ones in by_contestant(cases).items()
        for mark in MARKS
        if any(case.at(mark) for case in ones) and (total := summary(ones, mark))
    ]


def share(value: float, digits: int = 0) -> str:
    """For tables."""
    return f"{100 * value:.{digits}f} %"


def sufficient(every: Sequence[tuple[float, float]]) -> float:
    """Share with no regret to speak of and a buffer that is hardly larger than needed."""
    return float(np.mean([regret <= GOOD and larger <= LARGER for regret, larger in every]))


COLUMNS = (
    *("strategy", "replays", "time", "regret: median", "90 %", f"<= {share(GOOD)}", f"<= {share(FAIR)}"),
    *(f"buffer <= {LARGER:g} x", "both", "certain", "of it wrong", "thinking a trial"),
)


def rows(cases: Sequence[Case], mark: float) -> list[list[str]]:
    """A line per strategy."""
    lines = []
    for name, ones in by_contestant(cases).items():
        total = summary(ones, mark)
        lines.append(
            [
                name,
                str(total["replays"]),
                f"{total['seconds']:.0f} s",
                *(share(total[key], 1) for key in ("median", "q90")),
                *(share(total[key]) for key in ("good", "fair", "small", "both")),
                str(total["claims"]) if name.startswith("adaptive") else "-",
                "-" if total["wrong"] is None else share(total["wrong"], 1),
                f"{total['thinking_ms']:.0f} ms",
            ]
        )
    return lines


def summary(ones: Sequence[Case], mark: float) -> dict[str, Any]:
    """Shares of the replays at a time; of the claims the share that is wrong."""
    pairs = [pair for case in ones for pair in case.at(mark)]
    regrets, larger = np.array(pairs).T
    claims = [right for case in ones for right, room in claimed(case, mark) if room <= GOOD]
    trials = sum(sum(case.trials) for case in ones)
    return {
        "replays": len(pairs),
        "seconds": float(np.mean([min(mark, spent) for case in ones for spent in case.spent_s])),
        "median": float(np.median(regrets)),
        "q90": float(np.quantile(regrets, 0.9)),
        "good": float((regrets <= GOOD).mean()),
        "fair": float((regrets <= FAIR).mean()),
        "small": float((larger <= LARGER).mean()),
        "both": sufficient(pairs),
        "claims": len(claims),
        "wrong": 1 - float(np.mean(claims)) if claims else None,
        "thinking_ms": 1e3 * sum(sum(case.thinking_s) for case in ones) / max(1, trials),
    }


def claimed(case: Case, mark: float) -> list[tuple[bool, float]]:
    """The claims at a mark: whether they are right, and by how much they allow the answer to miss."""
    if mark not in case.marks:
        return []
    index = case.marks.index(mark)
    pairs = ((right[index], room[index]) for right, room in zip(case.claims, case.rooms, strict=True))
    return [(right, room) for right, room in pairs if right is not None and room is not None]


def targets(
    replayed: Sequence[Case], mark: float, vague: frozenset[str]
) -> tuple[list[str], list[list[str]]]:
    """Targets beside the results of the adaptive strategy, with each prior and ending.

    Parameters
    ----------
    vague : names of networks whose truth is known too badly to judge claims by.
    """
    cases = by_contestant(replayed)
    names = [name for name in cases if name.startswith("adaptive")]

    def line(words: str, reached: Callable[[Sequence[Case]], str]) -> list[str]:
        return [words, *(reached(cases[name]) for name in names)]

    def within(limit: float) -> Callable[[Sequence[Case]], str]:
        return lambda ones: share(networks_within(ones, cases.get("oracle", []), limit, mark))

    def percent(key: str) -> Callable[[Sequence[Case]], str]:
        return lambda ones: "-" if (value := summary(ones, mark)[key]) is None else share(value, 1)

    def wrong(ones: Sequence[Case]) -> str:
        claims = [right for case in ones for right, _ in claimed(case, mark)]
        return share(1 - float(np.mean(claims)), 1) if claims else "-"

    def wrong_where_known(ones: Sequence[Case]) -> str:
        return wrong([case for case in ones if case.network not in vague])

    def faster(ones: Sequence[Case]) -> str:
        return best_rival(ones, cases, mark)

    excused = f"or {SCATTER:g} x the oracle's"
    return ["target", *names], [
        line(f"regret <= {share(GOOD)}, {excused}, in 95 % of the networks", within(GOOD)),
        line(f"regret <= {share(FAIR)}, {excused}, in 99 % of the networks", within(FAIR)),
        line(f"buffer <= {LARGER:g} x the smallest in 80 % of the replays", percent("small")),
        line(f"claims of {share(GOOD)} and 95 % wrong in at most 5 %", percent("wrong")),
        line("all claims of 95 %, whatever room they state", wrong),
        line(f"the same, where the best mean is known to {share(GOOD)}", wrong_where_known),
        line(
            "times faster than the best rival at equal loss, median over networks: 2, with a prior 3", faster
        ),
        line("thinking: under 100 ms a trial", lambda ones: f"{summary(ones, mark)['thinking_ms']:.0f} ms"),
    ]


def networks_within(ones: Sequence[Case], oracles: Sequence[Case], limit: float, mark: float = MAIN) -> float:
    """Share of the networks whose mean regret is within a limit, or what the oracle's excuses."""
    excused = {(oracle.network, oracle.stack): SCATTER * mean_regret(oracle, mark) for oracle in oracles}
    return float(
        np.mean(
            [
                mean_regret(case, mark) <= max(limit, excused.get((case.network, case.stack), 0.0))
                for case in ones
            ]
        )
    )


def mean_regret(case: Case, mark: float) -> float:
    """Over the replays."""
    return float(np.mean([regret for regret, _ in case.at(mark)]))


def speeds(ones: Sequence[Case], rivals: Sequence[Case], mark: float = MAIN) -> dict[str, float]:
    """Time of each rival for the same loss, relative, as the median over networks.

    The loss wanted is that at this mark, but at least `GOOD`. Slow rivals were given less time: who does not
    get there within what both had counts with all of it. They were also replayed less often, and are compared
    over the replays that both have: the mean of many is rarely as good as a lucky one.
    """
    own = {(case.network, case.stack): case for case in ones}
    medians = {}
    for name, others in by_contestant(rivals).items():
        ratios = []
        for other in others:
            known = own.get((other.network, other.stack))
            if known is not None:
                known, other = among(known, other)
                bound, marks = max(GOOD, loss(known, mark)), sorted({*known.marks} & {*other.marks})
                ratios.append(reached(other, bound, marks) / reached(known, bound, marks))
        if ratios:
            medians[name] = float(np.median(ratios))
    return medians


def best_rival(ones: Sequence[Case], cases: Mapping[str, Sequence[Case]], mark: float) -> str:
    """How many times faster than the rival to which the least is gained."""
    gains = speeds(ones, [case for name in RIVALS for case in cases.get(name, [])], mark)
    name = min(gains, key=lambda rival: gains[rival], default="")
    return f"{gains[name]:.1f} ({name})" if gains else "-"


def among(*ones: Case) -> list[Case]:
    """The replays that all have."""
    both = min(len(case.regrets) for case in ones)
    return [
        msgspec.structs.replace(case, regrets=case.regrets[:both], larger=case.larger[:both]) for case in ones
    ]


def reached(case: Case, bound: float, marks: Sequence[float]) -> float:
    """The first time from which on the mean loss stays within what is wanted; else the last."""
    first = marks[-1]
    for mark in reversed(marks):
        if loss(case, mark) > bound:
            break
        first = mark
    return first


def loss(case: Case, mark: float) -> float:
    """The mean over replays of the regret, and 2 % for every factor of 1.25 by which the buffer is too large.

    By the regret alone who always takes the largest buffer would be the best.
    """
    return float(
        np.mean(
            [
                min(1.0, regret + GOOD * max(0.0, math.log(larger) / math.log(LARGER)))
                for regret, larger in case.at(mark)
            ]
        )
    )


#: Marks of the loss over time: after so many trials the answers differ most.
SOON = (84, 126, 168, 231, 300, 450, 600, 780)


def sooner(cases: Sequence[Case], mark: float) -> tuple[list[str], list[list[str]]]:
    """Mean loss at early marks, networks with less and more than without a prior, the speed, and the end."""
    by = by_contestant(cases)
    without = {case.network: case for case in by.get("adaptive", [])}
    lines = []
    for name, ones in by.items():
        losses = [share(float(np.mean([loss(case, mark) for case in ones])), 1) for mark in SOON]
        pairs = [(case, without[case.network]) for case in ones if case.network in without]
        gaps = [[loss(one, mark) - loss(other, mark) for one, other in pairs] for mark in COMPARED]
        counts = [
            f"{sum(gap < -TELLING for gap in some)} : {sum(gap > TELLING for gap in some)}" for some in gaps
        ]
        ends = f"{np.median([seconds for case in ones for seconds in case.spent_s]):.0f} s"
        compared = counts if name != "adaptive" else ["-"] * len(counts)
        speed = "-" if name in RIVALS else best_rival(ones, by, mark)
        lines.append([name, *losses, *compared, speed, ends])
    heads = ["strategy", *(f"{mark} s" for mark in SOON), *(f"better : worse, {mark} s" for mark in COMPARED)]
    return [*heads, "times faster", "ends after"], lines


#: Marks at which networks are compared one by one, and the difference of the loss that counts.
COMPARED, TELLING = (126, 300), 0.001


CLAIMS = (
    *("strategy", "replays", "claims", "wrong", f"of <= {share(GOOD)}", "wrong"),
    *("time: median", "90 %", "regret: 90 %", "foretold / needed: median", "10 to 90 %"),
)


def claim_rows(cases: Sequence[Case]) -> list[list[str]]:
    """Calibration, of each prior and in all: of all claims, and of those of 2 % or less."""
    lines = []
    groups = by_contestant(cases)
    for name, ones in (groups | {"all": list(cases)}).items():
        claims = [pair for case in ones for pair in claimed(case, PATIENCE_S)]
        spent = [seconds for case in ones for seconds in case.spent_s]
        regrets = [regret for case in ones for regret, _ in case.at(PATIENCE_S)]
        counts = []
        for some in (claims, [pair for pair in claims if pair[1] <= GOOD]):
            wrong = sum(not right for right, _ in some)
            counts += [str(len(some)), f"{wrong} ({share(wrong / len(some), 1)})" if some else "-"]
        lines.append(
            [
                name,
                str(len(spent)),
                *counts,
                f"{np.median(spent):.0f} s",
                f"{np.quantile(spent, 0.9):.0f} s",
                share(float(np.quantile(regrets, 0.9)), 1),
                *foretold(ones),
            ]
        )
    return lines


def foretold(ones: Sequence[Case]) -> tuple[str, str]:
    """Ratio of the announced remaining time to the actual, of replays not certain by then."""
    ratios = [
        stated[0] / (spent - EARLY)
        for case in ones
        if case.marks[0] == EARLY
        for stated, right, spent in zip(case.more_s, case.claims, case.spent_s, strict=True)
        if stated[0] and right[-1] is not None and spent > EARLY
    ]
    if not ratios:
        return "-", "-"
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return f"{middle:.1f}", f"{low:.1f} to {high:.1f}"


def totals(replayed: Sequence[Case], asked: argparse.Namespace) -> dict[str, Any]:
    """For the JSON file."""
    if asked.claims:
        return {line[0]: line[1:] for line in claim_rows(replayed)}
    cases = by_contestant(replayed)
    rivals = [case for name in RIVALS for case in cases.get(name, [])]
    return {
        name: {
            "speed": speeds(ones, rivals, asked.mark) if name not in RIVALS else {},
            **{str(mark): summary(ones, mark) for mark in MARKS if all(case.at(mark) for case in ones)},
        }
        for name, ones in cases.items()
    }


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """For the terminal."""
    drawn = Table(*heads)
    for line in lines:
        drawn.add_row(*line)
    return drawn


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """For the page."""
    rules = [["---"] * len(heads)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, *rules, *lines))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", action="append", help="of the shipped scenarios; repeat (default: linux)")
    parser.add_argument("--networks", type=int, default=30, help="number of random networks")
    parser.add_argument("--seed", type=int, default=501, help="seed of the first random network")
    parser.add_argument("--random-only", action="store_true", help="no shipped scenarios")
    parser.add_argument("--small", action="store_true", help="grids of a sixteenth of the trials, of 10 s")
    parser.add_argument("--only", action="append", help="only networks with this name; repeat")
    parser.add_argument("--kept", action="store_true", help="only networks whose grids are there")
    parser.add_argument("--kernel", action="append", metavar="NETWORK", help="a grid of this kernel; repeat")
    parser.add_argument("--strategy", action="append", choices=list(CONTESTANTS), help="repeat")
    parser.add_argument("--reading", choices=("means", "belief"), default="means", help="of the peers")
    parser.add_argument("--replays", type=int, default=10, help="of each strategy in each network")
    parser.add_argument("--slow-replays", type=int, default=2, help="of the slow peers")
    parser.add_argument("--claims", action="store_true", help="only the adaptive strategy, until certain")
    parser.add_argument(
        "--mark", type=int, choices=MARKS, default=MAIN, help="seconds at which the tables compare"
    )
    parser.add_argument("--short", type=float, default=1.0, help="share of a trial that a short one lasts")
    parser.add_argument("--sacrifice", type=float, default=SACRIFICE)
    parser.add_argument(
        "--peers", action="append", type=Path, default=[], help="folder with packages; repeat"
    )
    parser.add_argument("--jobs", type=int, help="networks in parallel; one per core")
    parser.add_argument("--write-docs", action="store_true", help="put tables and figure into the docs too")
    parser.add_argument("--out", default="economy", help="name of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
