"""The answer on one screen: what to use, what it changes, why, how certain it is, what to mind, what next.

From the document alone (`mptune.result.answer`), so that a run can show it again. It has at most `LINES`
lines of `COLUMNS` columns: the last reasons and warnings that do not fit are left to the report.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptune._text import digits, plain_tcp
from mptune.optimisation.reached import percent_certain
from mptune.result.answer import (
    Answer,
    Figure,
    ObjectiveAnswer,
    SizeChoice,
    SizesAnswer,
)
from mptune.result.values import (
    Baseline,
    Baselines,
    Beside,
    Front,
    FrontPoint,
    Interval,
    NearlyAlways,
    Setting,
    TcpBaseline,
)
from mptune.result.wording import ends, lasting
from mptune.units import MIB, format_size

#: Lines and columns of a screen.
LINES, COLUMNS = 24, 100

#: Subflows that are named, sizes of transfers, configurations of a front, reasons and warnings that are
#: shown, at most.
_NAMED, _SIZES, _FRONT, _REASONS, _WARNINGS = 4, 10, 8, 3, 3

#: Columns that a name or a configuration of a table may take.
_WIDEST = 38
#: Remaining letters of a configuration where a table is too wide.
_NARROWEST = 20

#: Gain from which on a single run of each shows that one is better, %.
_CLEAR_PERCENT = 10

#: Delays below it are told with a decimal, ms.
_FEW_MS = 9.95

#: A table: its head, and rows of as many cells; the first two columns are words.
_Table = tuple[Sequence[str], list[list[str]]]


@dataclass(frozen=True)
class _Parts:
    """Parts of a screen, the most important of each first.

    Attributes
    ----------
    use : what to set, and what that gives.
    certain : a sentence.
    following : the command that comes next, without the directory.
    """

    use: Sequence[str]
    table: _Table | None
    why: Sequence[str]
    certain: str
    warnings: Sequence[str]
    following: str


def lines(answer: Answer | ObjectiveAnswer | SizesAnswer, directory: str, page: str) -> list[str]:
    """The screen.

    Parameters
    ----------
    directory, page : of the run, and its report.
    """
    match answer:
        case SizesAnswer():
            parts = _of_sizes(answer)
        case ObjectiveAnswer():
            parts = _of_objective(answer)
        case _:
            parts = _of_throughput(answer)
    end = [f"Report: {page}", f"Next: {parts.following} {directory}"]
    use = [line for sentence in parts.use for line in _wrapped(sentence)]
    table = _drawn(*parts.table) if parts.table is not None else []
    certain = _wrapped(parts.certain) if parts.certain else []
    fixed = [*use, *([""] if table else []), *table, ""]
    room = LINES - len(fixed) - len(certain) - len(end)
    why, warnings = _fitting(parts.why[:_REASONS], parts.warnings, room)
    return [*fixed, *why, *certain, *warnings, *end]


def _fitting(why: Sequence[str], warnings: Sequence[str], room: int) -> tuple[list[str], list[str]]:
    """As many reasons and warnings as there is room for: warnings in full before the last reasons."""
    reasons, kept = list(why), list(warnings[:_WARNINGS])
    while True:
        left = len(warnings) - len(kept)
        rest = [f"! {left} more in the report and with --details."] if left else []
        told = _wrapped(f"Why: {' '.join(reasons)}") if reasons else []
        minded = [line for warning in kept for line in _wrapped(f"! {warning}", "  ")] + rest
        if len(told) + len(minded) <= room or not (reasons or kept):
            return told, minded
        if len(reasons) > 1 or not kept:
            reasons.pop()
        else:
            kept.pop()


# ---- throughput -------------------------------------------------------------------------------------


def in_sentences(answer: Answer) -> tuple[str, str]:
    """Gains of the answer against today, and the reasons; the second may be empty."""
    beside = answer.baselines or Baselines()
    return " ".join(_gives(answer, beside)), " ".join(list(_reasons(answer, beside))[:_REASONS])


def _of_throughput(answer: Answer) -> _Parts:
    beside = answer.baselines or Baselines()
    where = _buffer_words(answer.obs_bytes, answer.receive_bytes, fixed=answer.is_fixed)
    what = f"{answer.manager} with {answer.occ}{_sending(answer)}, {where}"
    whose = f" ({answer.stack})" if answer.stack else ""
    use = [f"{_name(answer.topology)}use {what}{whose}.", *_gives(answer, beside)]
    if answer.rounds:
        changed = sum(bool(row.changes) for row in answer.rounds)
        use.append(f"The answer of the last of {len(answer.rounds)} rounds; it changed in {changed} of them.")
    return _Parts(
        use=use,
        table=_throughputs(answer) if answer.confirmed.runs else None,
        why=list(_reasons(answer, beside)),
        certain=_certainty(answer),
        warnings=answer.heed,
        following="mptune advise" if answer.topology else "mptune report",
    )


def _name(topology: str | None) -> str:
    return f"{topology}: " if topology else ""


def _sending(answer: Answer) -> str:
    """The subflows that carry data, and where connections begin; of plain TCP the name has its path."""
    if answer.is_tcp:
        return ""
    begin = f" from {answer.initial_path}" if answer.initial_path else ""
    standby = f" (standby: {_listed(answer.standby)})" if answer.standby else ""
    return f"{begin} on {_listed(answer.subflows)}{standby}" if answer.subflows else begin


def _listed(labels: Sequence[str]) -> str:
    """Labels as a list in a sentence, the last of many left out."""
    if len(labels) > _NAMED:
        return f"{', '.join(labels[: _NAMED - 1])} and {len(labels) - _NAMED + 1} others"
    return " and ".join([*([", ".join(labels[:-1])] if labels[1:] else []), *labels[-1:]])


def _buffer_words(buffer_bytes: int, receive_bytes: int | None, *, fixed: bool) -> str:
    size = format_size(buffer_bytes, 3)
    if receive_bytes is not None:
        receive = format_size(receive_bytes, 3)
        return f"a send buffer of up to {size} (tcp_wmem) and a receive buffer of up to {receive} (tcp_rmem)"
    return f"buffers of {size}" if fixed else f"buffers that grow up to {size} (tcp_rmem, tcp_wmem)"


def _gives(answer: Answer, beside: Baselines) -> Iterator[str]:
    """The headline: throughput and delay against now, or throughput against the default without one."""
    ours, default, now = answer.confirmed, answer.default, beside.now
    if ours.mean is None:
        unsure = "not measured again" if default is None else "no fresh run succeeded"
        yield f"{digits(answer.otp_mbps)} Mbit/s expected; {unsure}."
        return
    given = f"{digits(ours.mean)} Mbit/s{_between(ours)}"
    if now is None or now.mean is None:
        theirs = None if default is None else default.mean
        yield f"{given}." if theirs is None else f"{given}; the papers' default {digits(theirs)}."
        return
    yield f"{given} instead of {digits(now.mean)} today{_by(now)}."
    queued, before = beside.queueing.get("recommended"), now.queueing
    if queued is not None and queued.mean is not None and before.mean is not None:
        yield f"Delay under load: {_whole(queued.mean)} ms instead of {_whole(before.mean)}."
    if isinstance(answer.nearly_always, NearlyAlways):
        yield answer.nearly_always.words


def _by(now: Beside) -> str:
    """The gain over a baseline, as a share with its interval."""
    gain = now.gain
    if gain.mean is None or not now.mean:
        return ""
    share = f": {100 * gain.mean / now.mean:+z.0f} %"
    if gain.low is None or gain.high is None:
        return share
    return f"{share} ({100 * gain.low / now.mean:+z.0f} to {100 * gain.high / now.mean:+z.0f} %)"


def _between(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({ends(interval.low, interval.high)})"


def _throughputs(answer: Answer) -> _Table:
    """The compared configurations, ours last; a kernel's results below it where one was asked."""
    head = ["", "configuration", "Mbit/s", "95 % interval", "delay (ms)", "buffer"]
    rows = [
        [name, configured(pair), *_cells(pair), _delay(queueing), buffer_of(pair)]
        for name, pair, queueing in answer.shown()
    ]
    measured = answer.confirmed_on_kernel
    if measured is not None:
        ours = [f"on {measured.kernel}", "the recommended, in a guest", *_cells(measured.confirmed), "", ""]
        rows.append(ours)
    return head, rows


def configured(pair: Baseline | TcpBaseline) -> str:
    """A configuration in few words: with its path where it has one subflow by nature."""
    if isinstance(pair, TcpBaseline):
        return f"{plain_tcp(pair.path)}, {pair.cc}"
    if isinstance(pair, Beside):
        count = len(pair.subflows)
        which = f"{pair.subflows[0]} alone" if count == 1 else f"endpoints: {count} subflows"
        return f"{which}, {pair.cc}"
    if pair.pm.startswith("plain TCP") or len(pair.subflows) <= _NAMED:
        return f"{pair.manager}, {pair.cc}"
    return f"{pair.pm} on {len(pair.subflows)} subflows, {pair.cc}"


def buffer_of(pair: Baseline | TcpBaseline) -> str:
    """A buffer; where those of the two ends differ, the limits of sender and receiver."""
    if isinstance(pair, Baseline) and pair.receive_mib is not None:
        return f"{format_size(round(pair.buffer_mib * MIB), 3)}, {pair.receive_mib:.3g} MiB"
    return format_size(round(pair.buffer_mib * MIB), 3)


def _cells(interval: Interval) -> list[str]:
    return [_tell(interval.mean, 4), _between(interval).strip(" ()")]


def _delay(queueing: Interval) -> str:
    return "-" if queueing.mean is None else _whole(queueing.mean)


def _whole(ms: float) -> str:
    """Milliseconds, of which parts matter to nobody unless there are few."""
    return f"{ms:.0f}" if ms >= _FEW_MS else f"{ms:.1f}"


def _tell(value: float | None, count: int) -> str:
    return "-" if value is None else digits(value, count)


def _reasons(answer: Answer, beside: Baselines) -> Iterator[str]:
    """Evidence about the paths, the queues, and plain TCP."""
    carried = {path: mbps for path, mbps in beside.carried.items() if mbps > 0}
    if answer.is_tcp:
        yield from _reasons_of_tcp(answer)
    elif len(carried) > 1:
        most = sorted(carried, key=lambda path: -carried[path])
        shares = [f"{path} carries {digits(carried[path], 2)}" for path in most[:2]]
        others = sum(carried[path] for path in most[2:])
        more = f", {len(most) - 2} others {digits(others, 2)}" if others else ""
        alone = ""
        if beside.now is not None and len(beside.now.subflows) == 1:
            alone = f"; today {beside.now.subflows[0]} carries all there is"
        yield f"{' and '.join(shares)} Mbit/s{more}{alone}."
    elif (
        carried
        and answer.default is not None
        and (answer.default.mean or 0.0) < (answer.confirmed.mean or 0.0)
    ):
        yield f"{next(iter(carried))} is best alone: with other paths, data in order wait for the slower one."
    yield from _reason_of_buffer(answer, beside)
    against = answer.against_tcp
    outlives = len(carried) > 1 or bool(answer.standby)
    if not answer.is_tcp and against is not None and against.gain.share is not None:
        share, path = 100 * against.gain.share, against.tcp.path
        single = against.gain.low is None
        if share > _CLEAR_PERCENT if single else (against.gain.low or 0.0) > 0:
            survives = ", and survives a dead path" if outlives else ""
            once = ", in one run of each" if single else ""
            gain = f"It gives {share:.0f} % more than TCP on the best path ({path}) with the same buffer"
            yield f"{gain}{once}{survives}."
        else:
            survives = "; MPTCP survives a dead path" if outlives else ""
            tied = f"TCP on {path} gives about as much with the same buffer"
            yield f"{tied} ({share:+z.0f} % for MPTCP){survives}."


def _is_less(one: Interval | None, other: Interval) -> bool:
    return one is not None and one.mean is not None and other.mean is not None and one.mean < other.mean


def _reasons_of_tcp(answer: Answer) -> Iterator[str]:
    against = answer.against_tcp
    if against is not None and against.mptcp.mean is not None:
        yield (
            f"The best MPTCP ({against.mptcp.manager}, {against.mptcp.cc}) gives "
            f"{digits(against.mptcp.mean)} Mbit/s: the other paths take more than they add."
        )
    yield "A connection ends when its only path dies."


def _reason_of_buffer(answer: Answer, beside: Baselines) -> Iterator[str]:
    """Effect of larger buffers: throughput, and queues."""
    default, queued = answer.default, beside.queueing
    ours, theirs = queued.get("recommended"), queued.get("default")
    if default is None or default.mean is None or answer.confirmed.mean is None:
        return
    if ours is None or theirs is None or ours.mean is None or theirs.mean is None:
        return
    size, gain = f"{default.buffer_mib:.3g} MiB", 100 * (default.mean / answer.confirmed.mean - 1)
    than = "less" if gain < 0 else "more"
    if theirs.mean > ours.mean:
        waits = f"{_whole(theirs.mean)} ms in queues instead of {_whole(ours.mean)}"
        yield f"With {size} packets wait {waits}, for {abs(gain):.0f} % {than} throughput."
    elif gain < 0:
        yield f"With {size} it is {abs(gain):.0f} % less."


def _certainty(answer: Answer) -> str:
    reached, uncertainty = answer.reached, answer.uncertainty
    if reached is not None and reached.steps:
        last = reached.steps[-1]
        return (
            f"Certainty: {percent_certain(last.certainty)}, within {100 * last.room:.2g} %, of the smallest "
            f"buffer for {100 - 100 * answer.sacrifice:g} % of the best ({last.trials} trials, "
            f"{lasting(reached.spent_s)})."
        )
    if uncertainty is not None and uncertainty.wins:
        win = uncertainty.wins[0]
        return (
            f"Certainty: {win.name[0]} with {win.cc} is chosen in {win.share:.0%} of {uncertainty.resamples} "
            f"resamples; buffer {ends(uncertainty.obs_mib.low, uncertainty.obs_mib.high, 3)} MiB."
        )
    return ""


# ---- an objective -----------------------------------------------------------------------------------


def _of_objective(answer: ObjectiveAnswer) -> _Parts:
    first, *others = answer.figures
    ours, beside = answer.recommended, answer.baselines or Baselines()
    on = "" if ours.protocol == "tcp" or not ours.subflows else f" on {_listed(ours.subflows)}"
    standby = f" (standby: {_listed(ours.standby)})" if ours.standby else ""
    told = ", ".join(f"{name} = {value}" for name, value in ours.sysctls.items())
    fixed = answer.buffer_mode in (None, "fixed")
    buffer = _buffer_words(ours.buffer_bytes, answer.receive_bytes, fixed=fixed)
    use = f"{answer.sent}: use {ours.manager} with {ours.cc}{on}{standby}, {buffer}"
    front = answer.front
    return _Parts(
        use=[f"{_name(answer.topology)}{use}{f', {told}' if told else ''}.", _objective(first, beside)],
        table=_objectives(answer, first, beside) if front is None else _of_front(answer, front),
        why=list(_costs(answer, others)),
        certain=_certainty_of(answer),
        warnings=answer.warnings,
        following="mptune advise",
    )


def _certainty_of(answer: ObjectiveAnswer) -> str:
    """How much better another configuration may be, and how many may be as good."""
    alike = f"{answer.alike} of {answer.compared} configurations may be as good"
    if answer.room is None:
        return f"Certainty: {alike}; this one has the smallest buffer of them."
    room, ours = f"{digits(answer.room, 2)} {answer.unit}", answer.figures[0].recommended.mean
    share = f" ({100 * answer.room / abs(ours):.2g} %)" if ours else ""
    among, certainty = "those compared", 0.95
    if answer.reached is not None and answer.reached.steps:
        last, certainty = answer.reached.steps[-1], answer.reached.certainty_asked
        among = f"{last.among} candidates ({last.trials} trials, {lasting(answer.reached.spent_s)})"
    return (
        f"Certainty: with {100 * certainty:g} % none of {among} is better by more than {room}{share}. "
        f"{alike}; this one has the smallest buffer of them."
    )


def _objective(figure: Figure, beside: Baselines) -> str:
    """The headline: the objective against now, or against the default."""
    ours, name = figure.recommended, f"{figure.name[0].upper()}{figure.name[1:]}"
    if ours.mean is None:
        return f"{name}: no fresh run has one."
    given = f"{name}: {digits(ours.mean)} {figure.unit}{_between(ours)}"
    now = beside.now
    if now is not None and now.mean is not None:
        return f"{given} instead of {digits(now.mean)} today{_better(now.gain, now.mean)}."
    if figure.default.mean is not None:
        return f"{given}; the papers' default {digits(figure.default.mean)}."
    return f"{given}."


def _better(gain: Interval, over: float) -> str:
    """The gain, positive where it is better, in percent of what it is over."""
    if gain.mean is None or not over:
        return ""
    word = "better" if gain.mean >= 0 else "worse"
    sure = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    doubt = "" if sure else ", which may be chance"
    return f": {100 * abs(gain.mean / over):.0f} % {word}{doubt}"


def _objectives(answer: ObjectiveAnswer, first: Figure, beside: Baselines) -> _Table:
    # Beside throughput the figure after it, beside other objectives throughput.
    other = answer.figures[1] if answer.is_throughput else answer.throughput
    title = other.unit if other.name == answer.throughput.name else f"{other.name} ({other.unit})"
    head = ["", "configuration", f"{first.name} ({first.unit})", "95 % interval", title, "buffer"]
    rows = [
        [name, configured(baseline), *_cells(baseline), "-", buffer_of(baseline)]
        for name, baseline in (("now", beside.now), ("by hand", beside.by_hand))
        if baseline is not None
    ]
    sides = (
        ("papers' default", answer.default, first.default, other.default),
        ("recommended", answer.recommended, first.recommended, other.recommended),
    )
    for name, setting, value, beside_it in sides:
        size = format_size(setting.buffer_bytes, 3)
        rows.append([name, in_words(setting), *_cells(value), _tell(beside_it.mean, 4), size])
    return head, rows


def _of_front(answer: ObjectiveAnswer, front: Front) -> _Table:
    """Configurations that no other one beats in both objectives, some of many."""
    names = (
        unit if name == "throughput" else f"{name} ({unit})"
        for name, unit in ((answer.objective, answer.unit), (front.second, front.second_unit))
    )
    head = ["", "configuration", next(names), _INTERVAL, next(names), _INTERVAL, "buffer"]
    points = _spread(front.points)
    rows = [
        [
            "use" if point.recommended else "",
            in_words(point),
            *_cells(point.value),
            *_cells(point.second),
            format_size(point.buffer_bytes, 3),
        ]
        for point in points
    ]
    return head, rows


def _spread(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """As many as are shown, evenly spread, with both ends and the recommended one."""
    if len(points) <= _FRONT:
        return list(points)
    last = len(points) - 1
    places = {round(number * last / (_FRONT - 1)) for number in range(_FRONT)}
    chosen = {place for place, point in enumerate(points) if point.recommended} - places
    for place in chosen:
        places.remove(min(places - {0, last}, key=lambda other: abs(other - place)))
    return [points[place] for place in sorted(places | chosen)]


def in_words(setting: Setting) -> str:
    """A configuration in few words."""
    few = setting.pm not in ("fullmesh", "default") and setting.protocol != "tcp"
    on = f" on {_listed(setting.subflows)}" if few and setting.subflows else ""
    return f"{setting.manager}{on}, {setting.cc}"


def _costs(answer: ObjectiveAnswer, others: Sequence[Figure]) -> Iterator[str]:
    """Cost of a dead path, and other changes against the papers' default."""
    if answer.failover is not None and answer.failover.recommended is not None:
        cost = f"{digits(answer.failover.recommended, 3)} ms"
        yield f"A path that dies ({answer.failover.path} at worst) costs at most {cost} in 95 % of the cases."
    elif answer.outage is not None and answer.outage.gap.recommended.mean is not None:
        gap = answer.outage.gap
        yield f"If {answer.outage.path} dies, the {gap.name} is {_both(gap)}."
    for loss in answer.harm[:1]:
        yield f"The {loss.name} is {_both(loss)}."
    told = [f"{figure.name} {_both(figure)}" for figure in others[:3] if figure.recommended.mean is not None]
    if told:
        yield f"{told[0][0].upper()}{'; '.join(told)[1:]}."


def _both(figure: Figure) -> str:
    ours, theirs = (_tell(interval.mean, 3) for interval in (figure.recommended, figure.default))
    return f"{ours} {figure.unit} (papers' default {theirs})"


# ---- sizes of transfers -----------------------------------------------------------------------------


def _of_sizes(answer: SizesAnswer) -> _Parts:
    few = answer.sizes[:_SIZES]
    many = (
        f"the first {len(few)} of {len(answer.sizes)} sizes" if len(few) < len(answer.sizes) else "each size"
    )
    whose = f" ({answer.stack})" if answer.stack else ""
    head = ["transfer", "use", "seconds", "95 % interval", "today", "by hand", "papers' default", "buffer"]
    rows = [_of_size(choice) for choice in few]
    alike = [f"{choice.alike} of {choice.compared}" for choice in few]
    return _Parts(
        use=[
            f"{_name(answer.topology)}use for {many} of transfers the settings of its line{whose}.",
            saved(few),
        ],
        table=(head, rows),
        why=(),
        certain=(
            f"Certainty: {_listed(alike)} may be as good for each size; these have the smallest buffer."
        ),
        warnings=answer.warnings,
        following="mptune report",
    )


def _of_size(choice: SizeChoice) -> list[str]:
    beside = choice.baselines or Baselines()
    subflows = f" on {_listed(choice.active.split())}" if choice.active else ""
    begin = f" from {choice.initial_path}" if choice.initial_path else ""
    return [
        format_size(choice.transfer_bytes),
        f"{choice.pm}{subflows}{begin}, {choice.cc}",
        _tell(choice.confirmed.mean_s, 3),
        _seconds(choice),
        "-" if beside.now is None else _tell(beside.now.mean, 3),
        "-" if beside.by_hand is None else _tell(beside.by_hand.mean, 3),
        _tell(choice.default.mean_s, 3),
        format_size(choice.buffer_bytes, 3),
    ]


def _seconds(choice: SizeChoice) -> str:
    low, high = choice.confirmed.low_s, choice.confirmed.high_s
    return "" if low is None or high is None else ends(low, high, 3)


def saved(choices: Sequence[SizeChoice]) -> str:
    """The headline: what the sizes save against now."""
    shares = [
        100 * beside.now.gain.mean / beside.now.mean
        for choice in choices
        if (beside := choice.baselines) is not None
        and beside.now is not None
        and beside.now.gain.mean is not None
        and beside.now.mean
    ]
    if not shares:
        return "Seconds until the last byte, in new runs."
    low, high = min(shares), max(shares)
    how = f"{low:+z.0f} %" if round(low) == round(high) else f"{low:+z.0f} to {high:+z.0f} %"
    return f"Time saved against today: {how}."


# ---- lines ------------------------------------------------------------------------------------------


def _wrapped(sentence: str, indent: str = "") -> list[str]:
    return textwrap.wrap(sentence, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def _drawn(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table: words to the left, numbers to the right; cut to the columns of a screen."""
    cells = [[_cut(cell, _WIDEST) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - COLUMNS
    if over > 0 and widths[1] > _NARROWEST:
        widths[1] = max(_NARROWEST, widths[1] - over)
        cells = [[row[0], _cut(row[1], widths[1]), *row[2:]] for row in cells]
    numeric = [number for number, name in enumerate(head) if number > 1 and name not in ("buffer", _INTERVAL)]
    return [
        _cut(
            "  ".join(
                cell.rjust(width) if number in numeric else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip(),
            COLUMNS,
        )
        for row in cells
    ]


_INTERVAL = "95 % interval"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
