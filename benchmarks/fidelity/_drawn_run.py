"""The drawn set of `fidelity.py`: drawn, measured where it was not yet, simulated, and reported.

Not a benchmark.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.fidelity import _drawn_divergences, _drawn_error, _drawn_kernel, _drawn_report, _drawn_tables
from benchmarks.fidelity._drawn import Case, networks
from benchmarks.fidelity._drawn_kernel import Environment, Results, Run
from benchmarks.fidelity._drawn_report import Judged, Runs, numbers
from benchmarks.shared.docs import replace
from benchmarks.shared.measure import RESULTS, machine, write
from mptune.decision import model_error
from mptune.decision.model_error import ModelError
from mptune.errors import InputError
from mptune.runner.progress import Reporter
from mptune.testbeds import create as testbed
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.testbeds.virtual import VirtualTestbed
from mptune.trial import Bulk, Transfer, Trial
from mptune.units import format_size

#: Committed: a fresh machine has no target/.
KEPT = Path(__file__).parent / "kernel"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fidelity.md"
IMAGES = Path(__file__).parents[2] / "docs" / "images"

#: Runs of each configuration, on the kernel and in the simulator.
RUNS, SIMULATED_RUNS = 5, 20

#: A case with its trials.
Wanted = list[tuple[Case, Sequence[Trial]]]


def run(asked: argparse.Namespace) -> None:
    """Draw, measure, simulate, report."""
    purpose = "working" if asked.report_seed is None else "report"
    seed: int = asked.seed if asked.report_seed is None else asked.report_seed
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    results = Results(KEPT / f"drawn-{seed}{_ending(asked.testbed)}.jsonl", seed, purpose)
    drawn = list(
        networks(
            seed,
            asked.random,
            asked.configurations,
            round(asked.duration * 1e9),
            RESULTS / f"drawn-{seed}",
            asked.senders,
        )
    )
    cases = [case for network in drawn for case in network.cases if _asked(case, asked.only)]
    if not cases:
        raise SystemExit(f"--only: expected networks or configurations such as {drawn[0].cases[0].name}")
    runs = asked.runs or RUNS
    on_kernel: Wanted = [(case, case.runs(seed, runs)) for case in cases]
    reporter = Reporter()
    environment = _measured(results, on_kernel, reporter, asked.testbed, measure=not asked.kept)
    everything = [results.runs(case, environment, trials) for case, trials in on_kernel]
    measured = [_runs(runs) for runs in everything]
    with_kernel = [case for case, kernel in zip(cases, measured, strict=True) if kernel]
    print(f"{len(with_kernel)} of {len(cases)} configurations have results of {environment.kernel}.")
    number = asked.simulated_runs or SIMULATED_RUNS
    simulated = _drawn_kernel.simulate(
        testbed("simulated"),
        [(case, case.simulated_runs(seed, number, environment.kernel)) for case in with_kernel],
        reporter,
    )
    sides = [
        (_throughputs(simulation), _throughputs(other))
        for simulation, other in zip(simulated, [runs for runs in measured if runs], strict=True)
    ]
    if asked.learn_error or asked.write_error:
        error = _learn(asked, with_kernel, sides, environment.kernel, seed, purpose)
    else:
        error = model_error.shipped()
    judged = [_judged(case, *both, error) for case, both in zip(with_kernel, sides, strict=True)]
    report = _drawn_report.report(judged)
    again = f"--random {asked.random} {'--seed' if purpose == 'working' else '--report-seed'} {seed}"
    _drawn_tables.show(report, judged, again)
    _say_troubles([run for runs_ in everything for run in runs_ if run is not None])
    _write(asked, report, judged, purpose, seed, environment)
    if asked.divergences:
        _diverging(asked, judged, {case.name: case for case in cases}, seed, environment.kernel, reporter)


def _diverging(
    asked: argparse.Namespace,
    judged: Sequence[Judged],
    cases: Mapping[str, Case],
    seed: int,
    kernel: str,
    reporter: Reporter,
) -> None:
    """Divergences in the missed configurations, on the terminal and in the docs."""
    missed = _drawn_divergences.missed(judged)
    keep = RESULTS / f"drawn-{seed}" / f"divergences{_ending(asked.testbed)}.jsonl"
    sentences = _drawn_divergences.compare(missed, cases, seed, keep, reporter, asked.testbed, kernel)
    table = list(_drawn_divergences.rows(missed, sentences))
    for name, about, kernel, simulated, what in table:
        print(f"{name} ({about}): kernel {kernel} Mbit/s, simulated {simulated}\n    {what}")
    if asked.write_docs:
        replace(PAGE, "divergences", _drawn_divergences.markdown(table))


def _asked(case: Case, only: Sequence[str] | None) -> bool:
    """True if a case, or its network, is named; by default all are."""
    return not only or case.name in only or case.network in only


def _ending(testbed_name: str) -> str:
    """Of names of files: nothing for this machine's kernel."""
    return "" if testbed_name == NamespacesTestbed.name else f"-{testbed_name.replace(':', '-')}"


def _measured(
    results: Results, planned: Wanted, reporter: Reporter, testbed_name: str, *, measure: bool
) -> Environment:
    """Measure what is missing here, or take what was measured last, here or elsewhere."""
    if not measure:
        if not results.environments:
            raise SystemExit("--kept: expected results of a kernel, found none for this draw")
        return list(results.environments.values())[-1]
    bed = testbed(testbed_name)
    guest = bed.kernel.version if isinstance(bed, VirtualTestbed) else None
    environment = Environment.here() if guest is None else Environment.of_guest(guest)
    able, refused = [], Counter[str]()
    for case, trials in planned:
        try:
            bed.check(trials[0])
            able.append((case, trials))
        except InputError as error:
            refused[str(error)] += 1
    for reason, number in refused.items():
        print(f"{number} configurations cannot be measured here: {reason}")
    left = _drawn_kernel.measure(bed, results, environment, able, reporter)
    if left:
        print(f"{left} trials were overloaded or died each time; run it again to measure them.")
    return environment


def _runs(runs: Sequence[Run | None]) -> list[Run]:
    """Existing results that are about the kernel."""
    return [run for run in runs if run is not None and run.failed in (None, "stalled")]


def _learn(
    asked: argparse.Namespace,
    cases: Sequence[Case],
    sides: Sequence[tuple[Runs, Runs]],
    kernel: str,
    seed: int,
    purpose: str,
) -> ModelError:
    """Learn the simulator's error from this draw, print what it is worth, and ship it if asked to."""
    if purpose == "report" or asked.only:
        raise SystemExit("--learn-error and --write-error: expected a whole working draw")
    both = [(numbers(simulated), numbers(other)) for simulated, other in sides]
    errors = _drawn_error.errors_of(cases, both)
    with Reporter().phase("error, each network left out") as progress:
        learnt = _drawn_error.learn(errors, progress)
    numbered = sorted(len(kernel) for _, kernel in both if kernel)
    model = _drawn_error.document(
        learnt,
        [case for case, pair in zip(cases, both, strict=True) if all(pair)],
        kernel=kernel,
        seed=seed,
        runs=numbered[len(numbered) // 2],
        duration_ns=round(asked.duration * 1e9),
    )
    _drawn_tables.show_error(model, learnt)
    if asked.write_error:
        model_error.SHIPPED.write_bytes(_drawn_error.written(model))
        print(f"written to {model_error.SHIPPED}", file=sys.stderr)
    return model


def _throughputs(runs: Sequence[Run]) -> Runs:
    """Mbit/s of the valid runs; None of those that stalled."""
    return tuple(run.mbps for run in runs if run.failed in (None, "stalled"))


def _judged(case: Case, simulated: Runs, kernel: Runs, error: ModelError) -> Judged:
    # For as many runs as there are here.
    asked = msgspec.structs.replace(error, runs=max(1, len(numbers(kernel))))
    expected = asked.expected(case.trial, numbers(simulated))
    within = None
    if expected.low_mbps is not None and expected.high_mbps is not None:
        within = expected.low_mbps, expected.high_mbps
    return Judged(
        name=case.name,
        network=case.network,
        saturated=isinstance(case.trial.workload, Bulk),
        about=about(case.trial),
        factors=case.factors,
        simulated=simulated,
        kernel=kernel,
        expected=within,
    )


def about(trial: Trial) -> str:
    """A configuration in words."""
    words = [trial.pm, *(f"{name}={_words(value)}" for name, value in sorted(trial.pm_options.items()))]
    if trial.initial_path:
        words.append(f"on {trial.initial_path}")
    words += [trial.cc, format_size(trial.buffer_bytes), trial.sized]
    if isinstance(trial.workload, Transfer):
        words.append(f"sends {format_size(trial.workload.bytes, 3)}")
    return " ".join(words)


def _words(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _say_troubles(runs: Sequence[Run]) -> None:
    """Runs that failed otherwise than by a stall, and the time waited for a quiet machine."""
    failed = Counter(run.failed for run in runs if run.failed not in (None, "stalled"))
    for kind, number in failed.items():
        print(f"{number} of {len(runs)} runs on the kernel are left out: {kind}.")
    waited = [run.waited_s for run in runs if run.waited_s]
    if waited:
        print(
            f"Before {len(waited)} of {len(runs)} runs on the kernel the machine was not quiet; "
            f"{sum(waited):.0f} s were waited in all."
        )


def _write(
    asked: argparse.Namespace,
    report: _drawn_report.Report,
    judged: Sequence[Judged],
    purpose: str,
    seed: int,
    environment: Environment,
) -> None:
    """JSON and figure; with --write-docs into the docs, unless that is meant for the divergences."""
    if asked.only:
        return
    document = {
        "seed": seed,
        "purpose": purpose,
        "kernel": environment.kernel,
        "report": msgspec.to_builtins(report),
        "configurations": msgspec.to_builtins(judged),
    }
    ending = _ending(asked.testbed)
    write(f"fidelity-drawn-{seed}{ending}", document)
    from benchmarks.fidelity._drawn_figure import draw

    figure = RESULTS / f"fidelity-drawn-{seed}{ending}.svg"
    figure.write_text(draw(judged, report), encoding="utf-8")
    print(f"written to {figure}")
    if asked.write_docs and not asked.divergences and not ending:
        sentence = (
            f"Draw {seed}, {len({judgement.network for judgement in judged})} networks, "
            f"{len(judged)} configurations; Linux {environment.kernel}."
        )
        image = IMAGES / f"fidelity-{purpose}.svg"
        image.write_text(draw(judged, report), encoding="utf-8")
        picture = f"![Simulated over measured throughput, and the bias by regime](../images/{image.name})"
        replace(PAGE, purpose, f"{sentence}\n\n{picture}\n\n{_drawn_tables.markdown(report)}")
        print(f"written into {PAGE}", file=sys.stderr)
