"""The answer of the main job in sentences: for the JSON document, the report and `--details`.

It formats and computes nothing. What `optimise` prints without `--details` is in `screen`.
"""

import math
from collections.abc import Iterator, Sequence

from mptune._text import digits, over, plain_tcp
from mptune.decision.confirmation import Confirmation
from mptune.decision.model_error import gain
from mptune.decision.uncertainty import Uncertainty
from mptune.optimisation import cost
from mptune.optimisation.by_objective import Figure, ObjectiveResult
from mptune.optimisation.by_size import SizeAnswer, SizesResult, Times
from mptune.optimisation.failover import Failover, Standstill
from mptune.optimisation.main_job import Result
from mptune.optimisation.reached import Reached, percent_certain
from mptune.optimisation.rounds import Round
from mptune.result.variation import nearly_always
from mptune.statistics import Summary
from mptune.strategy import ROOM
from mptune.trial import AUTO, PLAIN_TCP, Combination, Configuration
from mptune.trial.stacks import DECLARED
from mptune.units import MIB, format_size

_HOUR_NS = 3600 * 10**9

#: Fate of the prediction, by its word in a step.
PREDICTION = {
    "followed": "The simulator's prediction for the topology agrees with what was measured.",
    "dropped": "Measurements contradict the simulator's prediction for the topology, so it was dropped.",
    "learnt, followed": "The prediction learnt from random networks agrees with what was simulated.",
    "learnt, dropped": "Trials contradict the prediction learnt from random networks, so it was dropped.",
}

#: From this many seconds on a duration is given in minutes.
_MINUTES_S = 300

#: Combinations named in the sentence about who wins.
_NAMED = 4


def answer(result: Result) -> list[str]:
    """The configuration, the expected throughput, the comparisons with default and TCP, and the certainty."""
    comparisons = _comparison(result.confirmation), _against_tcp(result.confirmation)
    return [
        _sentence(result),
        _expectation(result),
        *_on_kernel(result),
        *_measured_on_kernel(result),
        *filter(None, comparisons),
        *(found.words for found in nearly_always(result)),
        *_costs(result),
        *_sureness(result),
        *_over_time(result.rounds),
    ]


def _costs(result: Result) -> Iterator[str]:
    """Cost of a confirmed answer, where the topology has prices."""
    confirmation = result.confirmation
    if confirmation is not None and result.topology is not None:
        yield from cost.sentences(result.topology, confirmation.records[: confirmation.runs])


def sizes_answer(result: SizesResult) -> list[str]:
    """For each size what to set, and what to expect beside the default."""
    return [
        text
        for size_answer in result.answers
        for text in (_size_sentence(result, size_answer), _size_evidence(size_answer))
    ]


def objective_answer(result: ObjectiveResult) -> list[str]:
    """Settings, expected values beside the default, cost, and effect of an outage."""
    first, *others = result.figures
    sentences = [
        instruction(
            f"{result.name}, {result.workload.phrase}",
            result.chosen.combination.pm,
            result.chosen.combination.cc,
            result.chosen.buffer_bytes,
            result.subflows,
            result.recommended.standby_order,
            stack=result.stack,
            mode=result.buffer_mode,
            receive_bytes=result.receive_bytes,
            family=result.family,
            initial_path=result.chosen.combination.initial_path,
        ),
        f"{_figure(first, plain=_settings(result.default))}{_better(first)}",
        *([" ".join(_figure(other) for other in others)] if others else []),
        f"{_figure(result.throughput, title='A saturated sender')}",
    ]
    if result.reached is not None and result.reached.steps:
        sentences += _searched(result.reached)
    sentences += [*(_figure(figure) for figure in result.harm), *result.costs]
    if result.outage is not None:
        path, outage = result.outage
        sentences.append(_figure(outage, title=f"If {path} fails for good, the {outage.name} is"))
    if result.failover is not None:
        sentences += failover_sentences(result.failover)
    return sentences


def _searched(reached: Reached) -> Iterator[str]:
    """Course of the search, and what became of a prediction."""
    last = reached.steps[-1]
    over = ", until the budget's share for it was over" if reached.ended == "budget" else ""
    yield (
        f"The search took {last.trials} trials of {last.among} candidates and {lasting(reached.spent_s)} on "
        f"the testbed{over}."
    )
    if last.prior:
        yield PREDICTION[last.prior]


def failover_sentences(failover: Failover) -> list[str]:
    """Cost of a dead path with the timeouts tried."""
    told = ", ".join(f"{DECLARED[name].sysctl} = {value}" for name, value in failover.members.items())
    with_what = f"With {told} on both hosts a" if told else "A"
    ours, default = _standstill(failover.ours), _standstill(failover.default)
    return [f"{with_what} dead path costs {ours} in 95 % of the cases; the default: {default}."]


def _standstill(standstill: Standstill) -> str:
    if not math.isfinite(standstill.ms):
        return f"the connection ({standstill.path})"
    return f"at most {digits(standstill.ms)} ms ({standstill.path})"


def _settings(default: Configuration) -> str:
    return f"{default.pm}, {default.cc} and {default.buffer_bytes / MIB:g} MiB"


def _figure(figure: Figure, *, title: str = "", plain: str = "the default") -> str:
    """A metric of both, with intervals: "Delay p99: 96.3 ms (94 to 98); the default: 238 ms."."""
    name = title or f"{figure.name[0].upper()}{figure.name[1:]}"
    colon = "" if title.endswith(" is") else ":"
    return f"{name}{colon} {_value(figure, figure.ours)}; {plain}: {_value(figure, figure.default)}."


def _value(figure: Figure, summary: Summary | None) -> str:
    return "none" if summary is None else f"{digits(summary.mean)} {figure.unit}{interval(summary)}"


def _better(figure: Figure) -> str:
    """The gain run by run, and its share of the default's mean."""
    gain, default = figure.gain, figure.default
    if gain is None or default is None:
        return ""
    share = f", {100 * gain.mean / default.mean:+.1f} %" if default.mean else ""
    return f" Better by {digits(gain.mean, 3)} {figure.unit}{interval(gain, 3)}{share}, {_new(gain.n)}."


def _size_sentence(result: SizesResult, size_answer: SizeAnswer) -> str:
    """Instruction for one size."""
    chosen = size_answer.chosen
    return instruction(
        f"{result.name}, transfers of {format_size(size_answer.transfer_bytes)}",
        chosen.combination.pm,
        chosen.combination.cc,
        chosen.buffer_bytes,
        size_answer.subflows,
        size_answer.recommended.standby_order,
        stack=result.stack,
        mode=result.buffer_mode,
        receive_bytes=result.receive_bytes,
        family=result.family,
        initial_path=chosen.combination.initial_path,
    )


def _size_evidence(name: SizeAnswer) -> str:
    """Completion times from new seeds, beside the default's, and the gain."""
    default, gain, baseline = name.default, name.gain, name.baseline.summary
    plain = f"{default.pm}, {default.cc} and {default.buffer_bytes / MIB:g} MiB"
    sentence = f"Expect {_took(name.confirmed)}; {plain}: {_took(name.baseline)}."
    if gain is None or baseline is None:
        return sentence
    share = f", {100 * gain.mean / baseline.mean:+.1f} %" if baseline.mean else ""
    return f"{sentence} Time saved: {digits(gain.mean, 3, '+')} s{interval(gain, 3, '+')}{share}."


def _new(runs: int) -> str:
    """A number of fresh runs."""
    return f"{runs} new run{'s' if runs > 1 else ''}"


def _took(times: Times) -> str:
    """Completion times as a phrase."""
    if times.summary is None or times.percentile is None:
        return "no fresh run completed"
    mean = f"{digits(times.summary.mean)} s{interval(times.summary)}"
    return f"{mean}, 95th percentile {digits(times.percentile)} s, {_new(times.summary.n)}"


def ends(low: float, high: float, count: int = 4, sign: str = "") -> str:
    """Ends of an interval."""
    return f"{digits(low, count, sign)} to {digits(high, count, sign)}"


def instruction(
    name: str,
    pm: str,
    cc: str,
    buffer_bytes: int,
    subflows: Sequence[str],
    standby: Sequence[str],
    *,
    stack: str = "",
    mode: str = "",
    receive_bytes: int | None = None,
    family: str = "",
    initial_path: str = "",
) -> str:
    """Instruction: the settings, as a sentence.

    Parameters
    ----------
    name : of the topology, or of the measurements.
    pm : as in `mptune.trial.Combination`: plain TCP has a word of its own.
    buffer_bytes : the buffer of the answer.
    subflows : those that carry data; empty if they are unknown.
    standby : the silent ones, in the order in which they take over.
    stack : whose MPTCP it is for; empty if it is unknown.
    mode : of the buffer; empty if it is unknown.
    receive_bytes : limit of the receiver's buffer; None where it is the same.
    family : what carries the packets; empty if it is unknown.
    initial_path : where the connection begins; empty if that was not chosen.
    """
    silent = f" (standby: {', '.join(standby)})" if standby else ""
    send = f", send on {', '.join(subflows)}{silent}," if subflows else ""
    whose = f", {'measured against' if pm == PLAIN_TCP else 'for'} {stack}{over(family)}" if stack else ""
    begin = f", begin on {initial_path}{'' if send else ','}" if initial_path else ""
    buffer = f"the buffer to {format_size(buffer_bytes)}"
    if mode == AUTO:
        which = "limits of tcp_rmem and tcp_wmem" if receive_bytes is None else "limit of tcp_wmem"
        buffer = f"the {which} to {format_size(buffer_bytes)} ({buffer_bytes} bytes)"
    if receive_bytes is not None:
        buffer += f", that of tcp_rmem to no less than {receive_bytes / MIB:.4g} MiB"
    if pm == PLAIN_TCP:
        return f"{name}{whose}: use {plain_tcp(*subflows)} with {cc}, no MPTCP, and set {buffer}."
    return f"{name}{whose}: use path manager {pm} with {cc}{begin}{send} and set {buffer}."


def _sentence(result: Result) -> str:
    """Instruction of a result."""
    optimum = result.optimum
    standby = () if result.confirmation is None else result.confirmation.recommended.standby_order
    return instruction(
        result.name,
        optimum.pm,
        optimum.cc,
        result.buffer_bytes,
        result.subflows,
        standby,
        stack=result.stack,
        mode=result.buffer_mode,
        receive_bytes=result.receive_bytes,
        family=result.family,
        initial_path=optimum.initial_path,
    )


def _expectation(result: Result) -> str:
    """The throughput to expect, from confirmation trials if there are any."""
    predicted = result.optimum.throughput_mbps
    range_ = "" if result.predicted is None else f" ({ends(*result.predicted)})"
    confirmation, model = result.confirmation, result.response.model
    measured = "the sweep gave" if result.is_swept else "the shortlist gave"
    source = f"the {model} model predicts" if result.is_predicted else measured
    if confirmation is None:
        return f"The {model} model predicts {digits(predicted)} Mbit/s{range_}; this is not confirmed."
    confirmed = confirmation.confirmed
    if confirmed is None:
        return f"{source[0].upper()}{source[1:]} {digits(predicted)} Mbit/s; no confirmation trial succeeded."
    mean = f"the mean of {_new(confirmed.n)}" if confirmed.n > 1 else "in a new run"
    return (
        f"Expect {digits(confirmed.mean)} Mbit/s{interval(confirmed)}, {mean}; "
        f"{source} {digits(predicted)}{range_}."
    )


def _on_kernel(result: Result) -> list[str]:
    """Expected throughput and gain on a kernel for a simulated answer, as sentences."""
    ours, theirs = result.on_kernel, result.default_on_kernel
    if ours is None:
        return []
    if ours.unknown or theirs is None or theirs.mean_mbps <= 0:
        return [ours.sentence]
    return [ours.sentence, gain(ours, theirs).sentence]


def _measured_on_kernel(result: Result) -> list[str]:
    """Results of a kernel with a simulated answer, and finalists that only a kernel can decide."""
    sentences = []
    if (measured := result.measured_on_kernel) is not None:
        found, rival = measured.confirmation, measured.runner_up
        text = f"On {measured.kernel} (guest, {_runs(found.runs)}): {_mbps(found.confirmed)}"
        text += f", {_plain(found.baseline)} with the default"
        if rival is not None:
            combination = rival.combination
            text += f", {_plain(rival.throughput)} with {combination.manager} and {combination.cc}"
        sentences.append(f"{text}.")
        if measured.finalists:
            sentences.append(f"{measured.kernel} decided between {len(measured.finalists)} finalists.")
    if result.undecided:
        names = [f"{near.combination.manager} with {near.combination.cc}" for near in result.undecided]
        more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
        sentences.append(
            f"On a kernel {', '.join(names[:_NAMED])}{more} may be as good, which the simulator cannot tell: "
            "--confirm-on virtual decides it there."
        )
    return sentences


def _runs(runs: int) -> str:
    return f"{runs} run{'s' if runs > 1 else ''}"


def _mbps(summary: Summary | None) -> str:
    return "no run succeeded" if summary is None else f"{digits(summary.mean)} Mbit/s{interval(summary)}"


def _plain(summary: Summary | None) -> str:
    return "none" if summary is None else f"{digits(summary.mean)}{interval(summary)}"


def _comparison(confirmation: Confirmation | None) -> str:
    """Gain over the default, as a sentence; empty where there is none."""
    if confirmation is None:
        return ""
    gain, baseline, default = confirmation.gain, confirmation.baseline, confirmation.default
    if gain is None or baseline is None:
        return ""
    percent = f", {100 * gain.mean / baseline.mean:+.1f} %" if baseline.mean else ""
    smaller = confirmation.recommended.buffer_bytes / default.buffer_bytes
    return (
        f"Compared with {default.pm}, {default.cc} and {default.buffer_bytes / MIB:g} MiB: "
        f"{digits(gain.mean, 3, '+')} Mbit/s{interval(gain, 3, '+')}{percent}, "
        f"with {digits(100 * smaller, 3)} % of the buffer."
    )


def _against_tcp(confirmation: Confirmation | None) -> str:
    """Gain of MPTCP over plain TCP, as a sentence; empty where they were not compared."""
    if confirmation is None or confirmation.against_tcp is None:
        return ""
    against = confirmation.against_tcp
    if against.gain is None or against.with_tcp is None:
        return ""
    gain, mean = against.gain, against.with_tcp.mean
    percent = f", {100 * gain.mean / mean:+.1f} %" if mean else ""
    who = "MPTCP"
    if against.mptcp != confirmation.recommended:
        who = f"The best MPTCP ({against.mptcp.manager}, {against.mptcp.cc})"
    base = f"{against.tcp.initial_path}, {against.tcp.cc}: {digits(mean)} Mbit/s"
    verb, over = ("loses:", "against") if gain.mean < 0 else ("gains", "over")
    return (
        f"{who} {verb} {digits(gain.mean, 3, '+')} Mbit/s{interval(gain, 3, '+')}{percent}, {over} the best "
        f"plain TCP with the same buffer ({base})."
    )


def _sureness(result: Result) -> list[str]:
    """Dependence of the choice on chance, as sentences."""
    uncertainty, reached = result.decision.uncertainty, result.reached
    if uncertainty is None:
        return []
    if reached is not None:
        sure = _certain(reached, result.decision.options.sacrifice)
        return [
            sure,
            *_open(reached, result.decision.optimum.combination),
            f"95 % intervals: {_intervals(uncertainty)}.",
        ]
    wins = [f"{win.manager} with {win.cc} {100 * share:.0f} %" for win, share in uncertainty.wins.items()]
    more = f", {len(wins) - _NAMED} others" if len(wins) > _NAMED else ""
    of = "residuals" if uncertainty.single_runs else "runs"
    return [
        f"95 % intervals from {uncertainty.resamples} resamples of the {of}: {_intervals(uncertainty)}.",
        f"Chosen in the resamples: {', '.join(wins[:_NAMED])}{more}.",
    ]


def _intervals(uncertainty: Uncertainty) -> str:
    """Intervals of buffer and throughput as a phrase."""
    buffer, throughput = ends(*uncertainty.obs_mib, 3), ends(*uncertainty.otp_mbps)
    return f"buffer {buffer} MiB, throughput {throughput} Mbit/s"


def _certain(reached: Reached, sacrifice: float) -> str:
    """Certainty of the answer, and its cost, as a sentence."""
    last = reached.steps[-1]
    claim = (
        f"{percent_certain(last.certainty)} certain that this is within {100 * last.room:.2g} % of what the "
        f"sacrifice of {100 * sacrifice:g} % allows, after {last.trials} trials of {last.among} candidates "
        f"and {lasting(reached.spent_s)} on the testbed"
    )
    if reached.ended == "certain":
        return f"{claim}."
    if reached.ended == "budget" and reached.budget_s is not None:
        claim += f" (the rest of {lasting(reached.budget_s)} went into confirmation)"
    if reached.ended != "budget":
        why = "Every configuration that matters has all its --runs"
    elif last.room > ROOM:
        why = "Budget exhausted"
    else:
        why = "Budget exhausted before a smaller buffer was ruled out"
    return f"{why}: {claim}."


def _open(reached: Reached, chosen: Combination) -> list[str]:
    """Candidates statistically tied with the chosen one, as sentences."""
    last = reached.steps[-1]
    sentences = [PREDICTION[last.prior]] if last.prior else []
    if last.drift is not None:
        sentences.append(
            f"The network's throughput drifted by {100 * last.drift:+z.0f} % during the measurement: this "
            "answer holds for its end."
        )
    others = [
        f"{contender.manager} with {contender.cc}" for contender in last.contenders if contender != chosen
    ]
    if not others:
        return sentences
    more = f" and {len(others) - _NAMED} others" if len(others) > _NAMED else ""
    sentences.append(f"Statistically tied: {', '.join(others[:_NAMED])}{more}.")
    if reached.ended != "certain":
        low, high = (format_size(buffer_bytes, 3) for buffer_bytes in last.buffers)
        interval_ = f"The buffer lies between {low} and {high}" if low != high else ""
        longer = f"about {lasting(last.more_s)} more would settle it" if last.more_s else ""
        if text := "; ".join(filter(None, (interval_, longer))):
            sentences.append(f"{text[0].upper()}{text[1:]}.")
    return sentences


def lasting(seconds: float) -> str:
    """A duration on the testbed."""
    return f"{seconds:.0f} s" if seconds < _MINUTES_S else f"{seconds / 60:.0f} min"


def hours(time_ns: int) -> str:
    """A time of campaigns that take days."""
    return f"{time_ns / _HOUR_NS:.4g} h"


def _over_time(rounds: Sequence[Round]) -> list[str]:
    """Round of the answer, and rounds in which it changed; empty for a single round."""
    answered = [round_ for round_ in rounds if round_.answered is not None]
    if not answered:
        return []
    changed = [f"{round_.number + 1} (after {hours(round_.at_ns)})" for round_ in answered if round_.changes]
    sentence = (
        f"The answer changed in round {', '.join(changed)}." if changed else "The answer never changed."
    )
    last = answered[-1]
    return [f"This is the answer of round {last.number + 1}, {hours(last.at_ns)} after the first. {sentence}"]


def interval(summary: Summary, count: int = 4, sign: str = "") -> str:
    """95 % interval in brackets; nothing for a single run."""
    if summary.low is None or summary.high is None:
        return ""
    return f" ({ends(summary.low, summary.high, count, sign)})"
