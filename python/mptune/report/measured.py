"""Measurement conditions of a run, and caveats for its reader."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from mptune._text import digits
from mptune.report.sections import Table
from mptune.report.settings import in_words
from mptune.result.run_data import RunData
from mptune.testbeds.hosts import HostsTestbed

#: Only the most frequent reasons for failures are listed.
_REASONS = 20


def warnings(run: RunData) -> list[str]:
    """Warnings, as sentences."""
    answer = run.answer or run.by_size or run.by_objective
    sentences = [] if answer is None else answer.warnings
    return [*sentences, *_failures(run), *_network(run)]


def _failures(run: RunData) -> Iterator[str]:
    failed = run.failures
    answered = run.answer or run.by_size or run.by_objective
    if failed and answered is None:  # an answer's warnings already report it
        yield f"{len(failed)} of {len(run.trials)} trials failed and are left out (reasons at the end)."
    overloaded = sum(trial.failed is not None and trial.failed.kind == "overloaded" for trial in failed)
    if overloaded:
        yield f"Trials that failed because the machine was too busy for real time: {overloaded}."
    if run.foreign:
        yield f"{run.foreign} trials of other campaigns in the store are not shown."


def _network(run: RunData) -> Iterator[str]:
    values = [] if run.topology is None else list(run.topology.provenance.values())
    assumed = sum(provenance.assumed is not None for provenance in values)
    if assumed:
        rest = (
            "trials had the real one, so only what is computed from the file depends on those values."
            if run.config.options.get("testbed") == HostsTestbed.name
            else "the results are only as good as those values."
        )
        yield (
            f"{assumed} of the {len(values)} values that describe the network are assumed, not published or "
            f"measured (The network, below); {rest}"
        )
    unknown = 0 if run.topology is None else len(run.topology.missing)
    if unknown:
        yield f"Rates and RTTs of the network that are not known: {unknown} (The network, below)."


def in_short(run: RunData) -> dict[str, object]:
    """The few facts that everyone wants: where, when, how often, with what."""
    config, trials = run.config, run.trials
    options = config.options
    facts: dict[str, object] = {"started": config.time.replace("T", " ")}
    if trials:
        facts["testbed"] = ", ".join(dict.fromkeys(trial.testbed for trial in trials))
        counts = Counter(trial.purpose for trial in trials)
        facts["trials"] = ", ".join(f"{number} {purpose}" for purpose, number in counts.items())
        facts["failed"] = len(run.failures)
    else:
        facts["measured"] = f"elsewhere: {options.get('from', 'given measurements')}"
    if "duration_ns" in options and not options.get("transfers"):
        facts["each trial"] = f"{options['duration_ns'] / 1e9:g} s"
    if "seed" in options:
        facts["base of the seeds"] = options["seed"]
    for fit in () if run.answer is None or run.answer.is_belief else run.answer.fits:
        facts[f"R-square, {fit.pm}"] = "none" if fit.r_squared is None else digits(fit.r_squared, 4)
    facts["mptune"] = config.versions.get("mptune", "unknown")
    facts["platform"] = config.platform
    return facts


def in_full(run: RunData) -> dict[str, object]:
    """Every version and option, and what the testbed reports about the first trial shown over time."""
    facts: dict[str, object] = {f"version of {name}": text for name, text in run.config.versions.items()}
    facts |= {f"option {name}": value for name, value in in_words(run.config.options).items()}
    for observation in list(run.observations.values())[:1]:
        facts |= {f"testbed: {name}": value for name, value in observation.metadata.items()}
    return facts


def reasons(run: RunData) -> Table | None:
    """Reasons why trials failed; None if none did."""
    failed = Counter((failure.purpose, str(failure.failed)) for failure in run.failures)
    rows: list[dict[str, Any]] = [
        {"trials": number, "of": purpose, "reason": reason}
        for (purpose, reason), number in failed.most_common(_REASONS)
    ]
    return Table(title="Failed trials", rows=rows) if rows else None
