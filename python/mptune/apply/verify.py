"""Settings that have to show what they are worth: ordinary programs are measured before and after.

    n transfers -> settings are made -> n transfers -> they stay, or everything is as before

What is measured is not a trial: a program that sets nothing gets the machines' own path manager, congestion
control and buffers (`mptune.apply._transfers`; of an answer by an objective the run's workload,
`mptune.apply._workloads`). The rule is `judged`'s alone. Whatever happens in between
(Ctrl-C, a machine that is gone, a transfer that fails), the settings go again; a machine that cannot be
reached puts them back by itself, as nobody confirms.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Literal

import msgspec

from mptune._text import digits
from mptune.apply import apply as applying
from mptune.apply._transfers import Course, Got, transfer
from mptune.apply._workloads import Sent, by_workload, sent
from mptune.apply.apply import Orders, Place, Refused, Target, Wanted
from mptune.apply.plan import Outline
from mptune.apply.records import Applied
from mptune.errors import InputError, MptuneError
from mptune.statistics import Difference, Summary, difference, summarise
from mptune.topology import BOTH, Interface
from mptune.trial import DEFAULT_FAMILY, PLAIN_TCP
from mptune.trial.metrics import THROUGHPUT, Metric
from mptune.units import LIMIT, format_time

#: Least share of the run's promised gain over the state before.
NEEDED = 0.5
#: Seconds of a transfer beside its duration: roles, handshake, leave.
_SET_UP_S = 2.0
#: Seconds beside the transfers until the settings go by themselves: making them, and a host that is slow.
_SLACK_S = 60.0
#: Seconds during which a machine that is still at work is asked again to roll back.
_BUSY_S = 20.0
_PAUSE_S = 0.5
#: Bytes on the wire per byte of payload with retransmissions, as `mptune.testbeds.hosts` reckons them.
_WIRE = 1.1 * 1500 / 1408


#: Seconds of a transfer, unless others are asked for.
SECONDS = 5


class How(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the measurement.

    Attributes
    ----------
    runs : transfers before, and as many after.
    seconds : of each; None is `SECONDS`, and of a workload as long as in the run.
    max_data_bytes : payload of all of them together; None is no limit.
    """

    runs: int = 5
    seconds: int | None = None
    max_data_bytes: int | None = None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Results of programs, before or after.

    Attributes
    ----------
    mbps : of the transfers, Mbit/s.
    values : of the objective, in its unit; unset where that is throughput.
    summary : of what is compared.
    last : the last of them: its protocol, congestion control and subflows.
    """

    mbps: tuple[float, ...]
    values: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET
    summary: Summary
    last: Got

    @property
    def compared(self) -> tuple[float, ...]:
        """The results that decide."""
        return self.mbps if isinstance(self.values, msgspec.UnsetType) else self.values


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision whether the gain is confirmed.

    Attributes
    ----------
    objective, unit : what is compared; unset where that is throughput, in Mbit/s.
    gain : after minus before, or where less is better before minus after; `least` is the one-sided bound that
        decides.
    share : its mean as a share of what programs got before; None if they got nothing.
    promised : what the run promises over that.
    needed : what the bound has to exceed.
    text : all of it in a sentence.
    """

    objective: str | msgspec.UnsetType = msgspec.UNSET
    unit: str | msgspec.UnsetType = msgspec.UNSET
    before: Side
    after: Side
    gain: Difference
    share: float | None
    promised: float
    needed: float
    kept: bool
    text: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome; without the gain `rolled_back` lists the settings put back on each machine."""

    applied: dict[str, Applied]
    verdict: Verdict
    rolled_back: tuple[str, ...] = ()


Phase = Literal["before", "after"]
#: Called with the phase, the transfers done, and how many there are.
Progress = Callable[[Phase, int, int], None]


def judged(before: Side, after: Side, expected: float, metric: Metric = THROUGHPUT) -> Verdict:
    """Judge whether the settings may stay.

    They may if the gain is more than `NEEDED` of the promised one, with 95 % confidence (one-sided, Welch);
    where nothing is promised over what programs got before, if it is more than nothing.

    Parameters
    ----------
    expected : what the run promises, in the metric's unit.
    metric : of the run's objective.
    """
    worse, better = (before, after) if metric.more_is_better else (after, before)
    gain = difference(worse.compared, better.compared)
    promised = metric.cost(before.summary.mean) - metric.cost(expected)
    needed = max(0.0, NEEDED * promised)
    confirmed = gain.least > needed
    share = gain.mean / before.summary.mean if before.summary.mean else None
    is_throughput = metric is THROUGHPUT
    return Verdict(
        objective=msgspec.UNSET if is_throughput else metric.name,
        unit=msgspec.UNSET if is_throughput else metric.unit,
        before=before,
        after=after,
        gain=gain,
        share=share,
        promised=promised,
        needed=needed,
        kept=confirmed,
        text=_text(gain, share, metric, expected, promised, needed),
    )


def _text(
    gain: Difference, share: float | None, metric: Metric, expected: float, promised: float, needed: float
) -> str:
    percent = "" if share is None else f", {100 * share:+.1f} %"
    of = "" if metric is THROUGHPUT else f" in {metric.name}"
    mean, low, high, least, more, half = (
        digits(value, 3, "+") for value in (gain.mean, gain.low, gain.high, gain.least, promised, needed)
    )
    text = (
        f"The gain{of} is {mean} {metric.unit} (95 %: {low} to {high}){percent}; with 95 % confidence at "
        f"least {least}. The run promises {digits(expected)} {metric.unit}"
    )
    if promised > 0:
        return f"{text}, {more}; more than {half}, half of that, is needed."
    return f"{text}, no {'more' if metric.more_is_better else 'less'} than before; any gain is enough."


def promise(outline: Outline) -> float:
    """Promise of a run in the unit of its objective.

    Confirmed by fresh trials, otherwise of throughput predicted by its model.
    """
    by_objective = outline.answered.run.by_objective
    if by_objective is not None:
        mean = by_objective.figures[0].recommended.mean
        assert mean is not None
        return mean
    answer = outline.answered.answer
    return answer.otp_mbps if answer.confirmed.mean is None else answer.confirmed.mean


def check(outline: Outline, hosts: Sequence[str], how: How, confirm_within_s: int | None) -> None:
    """Refuse what cannot be measured, before anything is.

    Parameters
    ----------
    hosts : the only machines that the user wants; none means both.

    Raises
    ------
    InputError : naming the option or the key.
    """
    topology = outline.answered.topology
    sending = _sending(outline, how)
    if all(host.ssh is None for host in outline.hosts):
        emulated = outline.answered.testbed not in ("", "hosts")
        measured = (
            f"; what the {outline.answered.testbed} testbed gave is the run's promise" if emulated else ""
        )
        expected = f'expected "user@host" of one side at least: --verify measures between machines{measured}'
        raise InputError(topology.file, f"sites.{outline.hosts[0].site}.ssh", expected)
    if hosts:
        raise InputError("--verify", "", "expected both machines of the run, found --host")
    if confirm_within_s is not None and confirm_within_s < (least := after_s(sending, how)):
        expected = (
            f"expected at least {format_time(round(least) * 10**9)}, which measuring afterwards may take, "
            f"found {format_time(confirm_within_s * 10**9)}"
        )
        raise InputError("--confirm-within", "", expected)
    _reached(outline)


def _sending(outline: Outline, how: How) -> Sent | None:
    """Traffic of programs of an answer by an objective, before and after."""
    return sent(outline, 2 * how.runs, how.seconds, how.max_data_bytes)


def _metric(sending: Sent | None) -> Metric:
    """The metric that decides."""
    return THROUGHPUT if sending is None else sending.metric


def after_s(sending: Sent | None, how: How) -> float:
    """Seconds that measuring takes at most once the settings are made."""
    each_s = how.seconds or SECONDS if sending is None else sending.workload.limit_ns / 1e9
    return how.runs * (each_s + _SET_UP_S) + _SLACK_S


def notice(outline: Outline, how: How) -> str:
    """The data to be sent, as a sentence."""
    sender, receiver = outline.answered.topology.sender.name, outline.answered.topology.receiver.name
    sending = _sending(outline, how)
    if sending is not None:
        lasts = format_time(sending.workload.lasts_ns)
        return (
            f"Programs use {sending.workload.phrase} between {sender} and {receiver}, {2 * how.runs} times "
            f"for {lasts}: {how.runs} times before the settings are made, {how.runs} times after."
        )
    most = _most_bytes(outline, how)
    limit = "" if most is None else f", {most * 2 * how.runs / 1e6:.3g} MB of payload in all at most"
    return (
        f"{sender} sends to {receiver} as programs do, {2 * how.runs} times for {how.seconds or SECONDS} s: "
        f"{how.runs} times before the settings are made, {how.runs} times after{limit}."
    )


def apply(
    outline: Outline,
    requests: Sequence[Wanted],
    how: How,
    *,
    run: str,
    confirm_within_s: int | None = None,
    despite: Sequence[str] = (),
    force: bool = False,
    progress: Progress = lambda phase, done, total: None,
) -> Verified:
    """Make settings on both machines of a run, and let them stay if programs gain by them.

    Parameters
    ----------
    outline : the plan that `requests` is made from.
    run, confirm_within_s, despite, force : as in `mptune.apply.apply.apply`.

    Raises
    ------
    InputError : settings of mptune are there already, or what is wanted cannot be had (`check` comes first).
    MptuneError : a machine or a transfer failed; everything is as before, or the message lists what is not.
    KeyboardInterrupt : Ctrl-C; the same, in its notes.
    """
    with applying.use([target.target for target in requests]) as places:
        _refuse_earlier(places)
        orders = applying.ready(requests, places, despite)
        sending = _sending(outline, how)
        measured = _measuring(outline, places, how, sending, progress)
        before = measured("before")
        targets = [target.target for target in requests]
        with _undone(places, targets) as made:
            # A machine that cannot be reached any more has to go back by itself.
            within_s = round(after_s(sending, how)) if confirm_within_s is None else confirm_within_s
            applied = dict(_make(orders, run, within_s, despite, force=force))
            made.append(applied)
            after = measured("after")
            verdict = judged(before, after, promise(outline), _metric(sending))
            if verdict.kept and confirm_within_s is None:
                for place in places:
                    applying.confirm_on(place)
            if verdict.kept:
                return Verified(applied=_unwaited(applied, confirm_within_s), verdict=verdict)
        lines = _roll_back(places, targets)
        return Verified(applied=applied, verdict=verdict, rolled_back=tuple(lines))


def _make(
    orders: Orders, run: str, within_s: int, despite: Sequence[str], *, force: bool
) -> list[tuple[str, Applied]]:
    return applying.make(orders, run=run, confirm_within_s=within_s, despite=despite, force=force)


def _unwaited(applied: dict[str, Applied], confirm_within_s: int | None) -> dict[str, Applied]:
    """Nobody waits for a confirmation that was given."""
    if confirm_within_s is not None:
        return applied
    return {name: msgspec.structs.replace(target, confirm=None) for name, target in applied.items()}


def _refuse_earlier(places: Sequence[Place]) -> None:
    """Refuse machines that have settings of mptune: the throughput without them is unknown."""
    for place in places:
        status = applying.status_of(place)
        if status.settings:
            expected = (
                f"expected machines without settings of mptune, found those of {status.run} on {place.name}: "
                "mptune rollback first"
            )
            raise InputError("--verify", "", expected)


# Measuring.


def _course(outline: Outline, places: Sequence[Place]) -> Course:
    """The two ends of a connection: the machines are in the order of the plan, the sender first."""
    sender, receiver = places
    address = _reached(outline)
    if outline.answered.answer.family == BOTH and ip_address(address).version == 4:
        # Subflows of both families need a socket of IPv6, which reaches IPv4 addresses by mapped ones.
        address = f"::ffff:{address}"
    opener_sends = outline.opener == "sender"
    return Course(
        opener=sender if opener_sends else receiver,
        other=receiver if opener_sends else sender,
        address=address,
        version=ip_address(address).version,
        opener_sends=opener_sends,
        mptcp=outline.answered.answer.protocol != PLAIN_TCP,
    )


def _reached(outline: Outline) -> str:
    """The address to which programs connect: that of the other side on the path where connections begin.

    Raises
    ------
    InputError : the file does not contain it.
    """
    answered = outline.answered
    topology = answered.topology
    path = topology.path(outline.initial, "initial path")
    family = path.family or answered.answer.family or DEFAULT_FAMILY
    ends: tuple[Interface, Interface] = (path.local, path.remote)
    site, end = (topology.receiver, ends[1]) if outline.opener == "sender" else (topology.sender, ends[0])
    address = end.address(family)
    if address is None:
        key = f"sites.{site.abbr}.interfaces.{end.abbr}.{family}"
        expected = "expected the address to which programs connect; `mptune probe` writes it"
        raise InputError(topology.file, key, expected)
    return address


def _most_bytes(outline: Outline, how: How) -> int | None:
    """Payload of a transfer at most, that no limit of the user's is exceeded; None if there is none."""
    topology = outline.answered.topology
    limits = [
        int(interface.max_data_bytes / _WIRE)
        for site in (topology.sender, topology.receiver)
        for interface in site.interfaces
        if interface.max_data_bytes is not None
    ]
    if how.max_data_bytes is not None:
        limits.append(how.max_data_bytes)
    return max(1, min(limits) // (2 * how.runs)) if limits else None


def _measuring(
    outline: Outline, places: Sequence[Place], how: How, sending: Sent | None, progress: Progress
) -> Callable[[Phase], Side]:
    """How to measure a phase: a few transfers, one after the other."""
    course = _course(outline, places)
    most, metric = _most_bytes(outline, how), _metric(sending)

    def once(number: int) -> tuple[Got, float]:
        if sending is not None:
            return by_workload(sending, outline, course, number, applying.hurrying)
        seconds, most_bytes = how.seconds or SECONDS, LIMIT if most is None else most
        got = transfer(course, seconds, most_bytes, applying.hurrying)
        return got, got.mbps

    def measured(phase: Phase) -> Side:
        results = []
        for number in range(how.runs):
            results.append(once(number))
            progress(phase, number + 1, how.runs)
        values = tuple(value for _, value in results)
        return Side(
            mbps=tuple(got.mbps for got, _ in results),
            values=msgspec.UNSET if metric is THROUGHPUT else values,
            summary=summarise(values),
            last=results[-1][0],
        )

    return measured


# Going back.


@contextmanager
def _undone(places: Sequence[Place], targets: Sequence[Target]) -> Iterator[list[object]]:
    """Whatever ends the block early, everything is put back, and the error reports it.

    The block adds to the list once everything is made.
    """
    made: list[object] = []
    try:
        yield made
    except MptuneError as error:
        if isinstance(error, Refused) and not made:
            raise  # nothing was made, or it was taken back
        error.args = (f"{error}; {'; '.join(_roll_back(places, targets))}",)
        raise
    except KeyboardInterrupt as error:
        # Whoever is silent now is not called again.
        for sentence in _roll_back(places, [None for _ in places]):
            error.add_note(sentence)
        raise


def _roll_back(places: Sequence[Place], targets: Sequence[Target | None]) -> list[str]:
    """Put everything back on machines in use; a sentence about each.

    Parameters
    ----------
    targets : how to reach one again whose session is over; None lets it be.
    """
    both = reversed(list(zip(places, targets, strict=True)))
    return [_rolled_back(place, target) for place, target in both]


def _rolled_back(place: Place, target: Target | None) -> str:
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            left = applying.roll_back_on(place).kept
        except Refused as error:
            # An order that was begun is carried out first.
            if error.because == "busy" and time.monotonic() < end:
                time.sleep(_PAUSE_S)
                continue
            return f"{place.name} could not be rolled back: {error}"
        except MptuneError as error:
            if target is not None:
                return _called_again(place, target)
            return f"{place.name} was not reached: {error}; it rolls back automatically, as nobody confirms"
        if left:
            return f"{place.name} was rolled back but for {', '.join(name.name for name in left)}"
        return f"{place.name} was rolled back"


def _called_again(place: Place, target: Target) -> str:
    """Put everything back by a new session."""
    try:
        with applying.use([target]) as (restarted,):
            return _rolled_back(restarted, None)
    except MptuneError as error:
        return f"{place.name} was not reached: {error}; it rolls back automatically, as nobody confirms"
