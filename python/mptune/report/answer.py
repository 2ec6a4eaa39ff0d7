"""HTML of the answer: what to set, what to expect from it, and the slider for the other choices.

For a sweep, which has no answer, it names the best of what was observed.
"""

from collections.abc import Sequence

from mptune._text import digits, escaped
from mptune.report.choices import Choices
from mptune.report.markup import prose, scrolled
from mptune.result.answer import Answer
from mptune.result.run_data import RunData, TrialRow
from mptune.result.screen import in_sentences
from mptune.result.values import Baseline, Interval, TcpBaseline
from mptune.result.wording import ends
from mptune.trial import Combination
from mptune.trial.workloads import TIMED

#: The section shown beside the answer.
BESIDE = "trade-off"


def answer(run: RunData, choices_: Choices, beside: str) -> str:
    """Return the answer in sentences with its slider, and the trade-off beside it.

    Parameters
    ----------
    beside : HTML of the trade-off's section; empty if there is none.
    """
    several = run.by_size or run.by_objective
    if several is not None:
        text = _several(several.answer, alternating=run.by_size is not None)
        return f'<section id="answer" class="answer"><div class="text"><h2>Answer</h2>{text}</div></section>'
    if run.answer is None:
        text = f'<p class="sentence">{escaped(observed(run))}</p>'
        return f'<section id="answer" class="answer"><h2>Observations</h2>{text}</section>'
    more = run.answer.answer[1:]
    evidence = "".join(f"<p>{escaped(sentence)}</p>" for sentence in more)
    text = (
        f'<div class="text"><h2>Answer</h2>{_sentences(run, choices_)}{_gains(run.answer)}{_slider(choices_)}'
        f'<p id="prediction" hidden></p><div id="evidence">{_confirmed(run.answer)}{evidence}</div></div>'
    )
    figure = f'<div class="beside" id="{BESIDE}">{beside}</div>' if beside else ""
    return f'<section id="answer" class="answer">{text}{figure}</section>'


def _several(sentences: Sequence[str], *, alternating: bool) -> str:
    """Settings, and below them the expected gains; `alternating` for one of each in turn."""
    return "".join(
        f"<p{'' if (number % 2 if alternating else number) else ' class=sentence'}>{escaped(sentence)}</p>"
        for number, sentence in enumerate(sentences)
    )


def _sentences(run: RunData, choices_: Choices) -> str:
    """Stack the sentences of all choices: the place is as high as the longest one, so nothing jumps."""
    other = ' class="other"'
    labels = () if run.topology is None else [path.label for path in run.topology.paths]
    sentences = "".join(
        f"<p{'' if index == choices_.answer else other}>{prose(name.sentence, labels)}</p>"
        for index, name in enumerate(choices_.all)
    )
    return f'<div id="sentence" class="sentence" aria-live="polite">{sentences}</div>'


def _gains(answer: Answer) -> str:
    """Gains of the recommended choice and their reasons, as in the terminal."""
    gives, why = (escaped(sentences) for sentences in in_sentences(answer))
    return f'<div id="gains"><p class="gains">{gives}</p>{f"<p>{why}</p>" if why else ""}</div>'


def observed(run: RunData) -> str:
    """Summary of a sweep, which makes no recommendation."""
    done = len(run.trials) - len(run.failures)
    stacks = dict.fromkeys(row.stack for row in run.trials)
    modes = dict.fromkeys(f"{name.buffer_mode} buffers" for name in run.trials)
    with_ = f"{' and '.join(stacks)} and {' and '.join(modes)}"
    text = f"{run.name}, with {with_}: {done} observations; a sweep makes no recommendation."
    if run.delayed:
        return f"{text}{_quickest(run)}"
    if not run.shown:
        return f"{text}{_fastest(run)}"
    name = run.shown[0]
    rates = [trial.throughput_mbps or 0.0 for trial in run.shown]
    return (
        f"{text} Largest mean throughput: {digits(sum(rates) / len(rates))} Mbit/s ({len(rates)} runs, "
        f"{ends(min(rates), max(rates))}) with {_configuration(name)}."
    )


def _configuration(trial: TrialRow) -> str:
    path = "" if trial.initial_path is None else f" and initial path {trial.initial_path}"
    return f"{trial.manager}, {trial.cc}, {trial.buffer_mib:.4g} MiB{path}"


def _fastest(run: RunData) -> str:
    """For transfers: what completed the largest one fastest, on average."""
    groups: dict[str, list[float]] = {}
    done = [
        trial
        for trial in run.trials
        if trial.transfer_bytes and trial.completion_s is not None and not trial.failed
    ]
    largest = max((trial.transfer_bytes or 0 for trial in done), default=0)
    for trial in done:
        if trial.transfer_bytes == largest and trial.completion_s is not None:
            groups.setdefault(_configuration(trial), []).append(trial.completion_s)
    if not groups:
        return ""
    name, times = min(groups.items(), key=lambda row: sum(row[1]) / len(row[1]))
    return (
        f" Shortest mean completion time of {largest / 1024:.4g} KiB: {digits(sum(times) / len(times))} s "
        f"({len(times)} runs, {ends(min(times), max(times))}) with {name}."
    )


def _quickest(run: RunData) -> str:
    """For messages or requests: what had the smallest 99th percentile, on average."""
    first = run.delayed[0]
    what = TIMED[(first.workload or {})["kind"]].judged_by.by_word["p99"].name
    best = [trial for trial in run.delayed if _configuration(trial) == _configuration(first)]
    delays = [trial.p99_ms for trial in best if trial.p99_ms is not None]
    return (
        f" Smallest mean {what}: {digits(sum(delays) / len(delays))} ms ({len(delays)} runs, "
        f"{ends(min(delays), max(delays))}) with {_configuration(first)}."
    )


def _confirmed(answer: Answer) -> str:
    """The recommendation below what it is compared with, as confirmed with new seeds."""
    if answer.default is None or answer.confirmed.mean is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th>'
        f"<td>{escaped(f'{pair.manager}, {pair.cc}, {_buffer(pair)}')}</td>"
        f"<td>{_interval(pair)}</td><td>{_milliseconds(queueing)}</td></tr>"
        for name, pair, queueing in answer.shown()
    )
    whose = "" if answer.baselines is None else f"; now: {answer.baselines.whose}"
    return scrolled(
        f'<table class="confirmed"><caption>Confirmed with new seeds{escaped(whose)}</caption><thead><tr>'
        '<td></td><th scope="col">configuration</th><th scope="col">Mbit/s (95 % interval)</th>'
        '<th scope="col">delay under load (ms)</th></tr></thead>'
        f"<tbody>{rows}{_on_kernel(answer)}</tbody></table>",
        "Confirmed with new seeds",
    )


def _buffer(pair: Baseline | TcpBaseline) -> str:
    """The buffer, or the limits up to which those of both ends grow."""
    if isinstance(pair, Baseline) and pair.receive_mib is not None:
        return f"up to {pair.buffer_mib:.4g} and {pair.receive_mib:.4g} MiB"
    return f"{pair.buffer_mib:.4g} MiB"


def _milliseconds(queueing: Interval) -> str:
    return "" if queueing.mean is None else digits(queueing.mean, 3)


def _on_kernel(answer: Answer) -> str:
    """Expected throughput on a kernel; empty for a run that was measured on one."""
    expected = answer.on_kernel
    if expected is None:
        return ""
    if expected.low_mbps is None or expected.high_mbps is None:
        text = escaped(f"no estimate: {expected.unknown}")
    else:
        text = ends(expected.low_mbps, expected.high_mbps)
    return (
        '<tr class="on-kernel"><th scope="row">on a kernel</th><td>recommended</td>'
        f"<td>{text}</td><td></td></tr>"
        f"{_measured_on_kernel(answer)}"
    )


def _measured_on_kernel(answer: Answer) -> str:
    """Results on a kernel; empty where none was measured."""
    measured = answer.confirmed_on_kernel
    if measured is None:
        return ""
    rows: list[tuple[str, Interval]] = [("recommended", measured.confirmed), ("default", measured.default)]
    if (rival := measured.runner_up) is not None:
        one = Combination(rival.pm, rival.cc, rival.subflows, rival.initial_path or "")
        rows.append((f"{one.manager}, {one.cc}", rival))
    return "".join(
        f'<tr class="on-kernel"><th scope="row">{escaped(measured.kernel)}</th><td>{escaped(name)}</td>'
        f"<td>{_interval(interval)}</td><td></td></tr>"
        for name, interval in rows
    )


def _interval(interval: Interval) -> str:
    if interval.mean is None:
        return "none"
    low, high = interval.low, interval.high
    return digits(interval.mean) + ("" if low is None or high is None else f" ({ends(low, high)})")


def _slider(choices_: Choices) -> str:
    if len(choices_.all) < 2:
        return ""
    return (
        '<div class="slider"><label for="sacrifice">Throughput to give up for a smaller buffer</label>'
        f'<input id="sacrifice" type="range" min="0" max="{len(choices_.all) - 1}" step="1" '
        f'value="{choices_.answer}" data-answer="{choices_.answer}">'
        f'<output id="given-up" for="sacrifice">{escaped(choices_.all[choices_.answer].sacrifice)}</output>'
        '<button type="button" id="back" hidden>Back to the recommended choice</button></div>'
    )
