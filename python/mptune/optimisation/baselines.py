"""Baselines of an answer: the hosts' settings of today, and those that anybody would make by hand.

*Now* is a host that nobody has told anything: Linux's own path manager without endpoints, so that a
connection has its first subflow alone, with the congestion control and the limits of growing buffers that
the host has (`mptune.testbeds.Testbed.today`). *By hand* is the same with an endpoint `subflow` for every
address of the side that has more of them, and limits that allow all of these subflows: `ip mptcp limits set
subflows 8`, `ip mptcp endpoint add ... subflow` (`ip-mptcp(8)`; net/mptcp/pm_kernel.c). Each is measured with
the seeds of the confirmation, run by run. They are no part of the search, nor of its observations.
"""

from collections.abc import Sequence

import msgspec

from mptune._text import digits
from mptune.decision.robustness import REGRET
from mptune.optimisation.job import Job, failures
from mptune.runner.seeds import BASELINE
from mptune.statistics import Summary, summary_of
from mptune.topology import Path, Topology
from mptune.trial import AUTO, Combination, Configuration, Record, Workload
from mptune.trial.metrics import QUEUEING, THROUGHPUT, Metric

#: A configuration, and the subflows that it has.
_Asked = tuple[Configuration, tuple[str, ...]]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline and what it gave.

    Attributes
    ----------
    value : of the metric that was asked for; None where every run failed.
    queueing : delay under load, ms.
    gain : of the answer over it, run by run, positive where the answer is better; None without a pair.
    """

    configuration: Configuration
    subflows: tuple[str, ...]
    value: Summary | None
    queueing: Summary | None
    gain: Summary | None


class Baselines(msgspec.Struct, frozen=True, kw_only=True):
    """Baselines of an answer.

    Attributes
    ----------
    whose : settings, in words, such as "Linux 6.18's defaults".
    now, by_hand : None where trials cannot have it; by hand nothing is gained where there is one path.
    """

    whose: str = ""
    now: Measured | None = None
    by_hand: Measured | None = None
    warnings: tuple[str, ...] = ()


def measure(
    job: Job,
    ours: Sequence[Record],
    runs: int,
    *,
    metric: Metric = THROUGHPUT,
    workload: Workload | None = None,
) -> Baselines:
    """Measure the baselines beside fresh runs of an answer.

    Parameters
    ----------
    ours : the answer's, the first run first; at least as many.
    workload : None is the job's.
    """
    today, cc = job.today, job.todays_cc
    mptcp = job.mptcp
    by_hand = by_endpoints(mptcp)
    first = (mptcp.initial_path,)

    def grown(combination: Combination) -> Configuration:
        return msgspec.structs.replace(
            job.configuration(combination, today.send_bytes),
            buffer_mode=AUTO,
            receive_buffer_bytes=today.receive_bytes,
        )

    asked: dict[str, _Asked] = {"now": (grown(Combination("default", cc)), first)}
    if len(by_hand) > 1:
        everywhere = len(by_hand) == len(mptcp.paths)
        one = Combination("fullmesh", cc) if everywhere else Combination("pcdc", cc, by_hand)
        asked["by_hand"] = (grown(one), by_hand)
    configurations = [configuration for configuration, _ in asked.values()]
    if refused := job.refusal(configurations):
        return Baselines(whose=today.whose, warnings=(f"Today's settings are not measured: {refused}.",))
    records = job.measure(configurations, BASELINE, runs, "today's settings", workload=workload)
    found = {
        name: _measured(asked[name], records[place * runs : (place + 1) * runs], ours[:runs], metric)
        for place, name in enumerate(asked)
    }
    sentences = failures(records, "baseline")
    if cc != today.cc:
        sentences.append(f"Today's congestion control is {today.cc}, which trials lack: {cc} stands for it.")
    return Baselines(
        whose=today.whose,
        now=found["now"],
        by_hand=found.get("by_hand"),
        warnings=tuple(sentences),
    )


def verdict(found: Baselines, ours: Summary | None, sacrifice: float) -> list[str]:
    """Sentences where an answer is not better than what hosts do anyway; each has its advice.

    Parameters
    ----------
    ours : the answer's delay under load, ms.
    sacrifice : share of the throughput that an answer may leave to smaller buffers.
    """
    sentences, now, by_hand = [], found.now, found.by_hand
    if now is not None and now.gain is not None and now.gain.low is not None and now.gain.high is not None:
        if now.gain.high < 0:
            sentences.append(
                "It is slower than what the hosts do today: leave them as they are, or accept less of a "
                "--sacrifice."
            )
        elif now.value is not None and now.gain.mean <= REGRET * now.value.mean:
            sentences.append(
                "Today's settings give as much: leave the hosts as they are, unless delay or buffers matter."
            )
        elif now.gain.low <= 0:
            sentences.append("The gain over today may be chance: more fresh runs tell (--confirm-runs 20).")
    gain = None if by_hand is None else by_hand.gain
    if by_hand is None or by_hand.value is None or gain is None:
        return sentences
    allowed, is_sure = sacrifice * by_hand.value.mean, gain.high is not None
    if (gain.high if gain.high is not None else gain.mean + REGRET * by_hand.value.mean) >= -allowed:
        return sentences
    delay = ""
    if ours is not None and by_hand.queueing is not None:
        delay = f", at {by_hand.queueing.mean:.0f} ms of delay under load instead of {ours.mean:.0f}"
    advice = (
        "take those where only throughput counts (ip mptcp endpoint add)"
        if is_sure
        else "one run is too few to judge, ask again with a longer --budget"
    )
    given = f"{'give' if is_sure else 'gave'} {digits(by_hand.value.mean)} Mbit/s{delay}"
    sentences.append(f"Endpoints by hand with buffers that grow {given}: {advice}.")
    return sentences


def by_endpoints(topology: Topology) -> tuple[str, ...]:
    """Labels of the subflows that the kernel opens for endpoints on every address of one side.

    Each goes to the other address of the first subflow. The side is the one for which there are more of
    them, as a client with several uplinks opens its connections; else the sender of the data.
    """
    begun = topology.path(topology.initial_path, "initial path")

    def sharing(index: str) -> tuple[str, ...]:
        return tuple(
            path.label
            for path in topology.paths
            if getattr(path, index) == getattr(begun, index) and _is_alike(path, begun)
        )

    return max(sharing("remote_index"), sharing("local_index"), key=len)


def _is_alike(path: Path, other: Path) -> bool:
    return path.family == other.family


def _measured(
    asked: _Asked,
    theirs: Sequence[Record],
    ours: Sequence[Record],
    metric: Metric,
) -> Measured:
    return Measured(
        configuration=asked[0],
        subflows=asked[1],
        value=metric.summary(metric.values(theirs)),
        queueing=summary_of(QUEUEING.values(theirs)),
        gain=metric.summary(metric.gains(ours, theirs)),
    )
