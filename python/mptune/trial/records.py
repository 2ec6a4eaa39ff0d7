"""A campaign's record of each trial: throughput and subflows, without the time series.

A failed trial has a reason and no throughput, so that no mean can include it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from mptune.statistics import quantile
from mptune.trial import workloads
from mptune.trial._observation import Observation, PartObservation
from mptune.trial._trial import Trial
from mptune.trial.kept import PartRecord, Record, SubflowRecord, is_tcp
from mptune.trial.mixes import fairness, judged
from mptune.trial.stacks import MEMBERS, VERSION_0_1, describe, of_mptcp
from mptune.trial.workloads import Bulk

#: Fields of a trial that have their own fields in a record, and the topology.
COLUMNS = frozenset({"topology", "pm", "cc", "buffer_bytes", "seed"})


#: Fewest windows, such as seconds, of which a twentieth is known.
LEAST_WINDOWS = 20
_SECOND_NS = 1_000_000_000


class Ran(NamedTuple):
    """Time in which a trial ran, without what came before and after: seconds since 1970."""

    started: float
    finished: float

    @property
    def took_s(self) -> float:
        """Its length, to the millisecond, as records have it."""
        return round(self.finished - self.started, 3)


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial and its place in the campaign.

    Attributes
    ----------
    purpose, run : its seed is derived from them (`mptune.runner.seeds`).
    round : of a campaign that is repeated over time.
    withdrawn : path whose subflow is put on standby halfway, for an impact factor in MPCOA's design.
    """

    purpose: str
    run: int
    round: int = 0
    trial: Trial
    withdrawn: str | None = None


def settings_of(trial: Trial, leave_out: Collection[str]) -> dict[str, Any]:
    """Fields of a trial that differ from the defaults of version 0.1, as JSON types.

    Options of the path manager are included under their own names, in alphabetical order: version 0.1 had
    them as fields, and its trials must keep their keys.
    """
    changed: dict[str, Any] = {}
    sent = trial.workload.settings
    for name, default in _DEFAULTS.items():
        value = sent.get(name, default) if name in _WORKLOAD else getattr(trial, name)
        if name == "pm_options":
            changed.update(sorted(value.items()))
        elif name not in leave_out and value != default:
            changed[name] = value
    settings: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(changed))
    return settings


def setting(trial_record: Record, name: str) -> object:
    """Setting of a record's trial, or its default; None for an unset option of a path manager."""
    return trial_record.settings.get(name, _DEFAULTS.get(name))


def family_of(settings: Mapping[str, Any]) -> str:
    """Address family of a trial with these settings."""
    return str(settings.get("family", _DEFAULTS["family"]))


def members_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Members of the stack of a trial with these settings, by name; of plain TCP those of the same MPTCP."""
    members = {name: settings.get(name, _DEFAULTS[name]) for name in MEMBERS}
    return of_mptcp(members) if is_tcp(settings) else members


def stack_of(settings: Mapping[str, Any]) -> str:
    """The stack of a trial with these settings, in words (`mptune.trial.stacks.describe`)."""
    return describe(members_of(settings))


def record(planned: PlannedTrial, observation: Observation) -> Record:
    """Condense one observation."""
    trial = planned.trial
    settings = settings_of(trial, COLUMNS)
    return Record(
        purpose=planned.purpose,
        pm=trial.pm,
        cc=trial.cc,
        buffer_bytes=trial.buffer_bytes,
        run=planned.run,
        seed=trial.seed,
        withdrawn=planned.withdrawn,
        throughput_mbps=None if observation.failed else observation.throughput_bps / 1e6,
        failed=observation.failed,
        round=planned.round,
        duration_s=observation.duration_ns / 1e9,
        completion_s=None if observation.completion_ns is None else observation.completion_ns / 1e9,
        p5_mbps=p5_of(observation) if isinstance(judged(trial.workload), Bulk) else None,
        repeated=int(observation.metadata.get("repeated", 0)),
        settings=settings,
        delays_ms=in_ms(observation.delays_ns),
        pieces=tuple(observation.pieces),
        parts=parts_of(observation),
        others_mbps=others_of(observation) if "workload" in settings else (),
        subflows=tuple(
            SubflowRecord(
                path=subflow.path,
                active=subflow.active,
                throughput_mbps=subflow.bytes * 8e3 / max(observation.duration_ns, 1),
                rtt_ms=subflow.srtt_ns / 1e6 if subflow.srtt_ns else None,
                min_rtt_ms=subflow.min_rtt_ns / 1e6 if subflow.min_rtt_ns else None,
                retransmitted=subflow.retransmitted,
                rto_ms=subflow.rto_ns / 1e6 if subflow.rto_ns else None,
            )
            for subflow in observation.subflows
        ),
    )


def p5_of(observation: Observation) -> float | None:
    """Throughput that 95 % of the whole seconds of a trial reach, Mbit/s; None for fewer than 20 of them."""
    rates = sorted(observation.rates_mbps(_SECOND_NS))
    return None if observation.failed or len(rates) < LEAST_WINDOWS else quantile(rates, 0.05)


def others_of(observation: Observation) -> tuple[float, ...]:
    """Throughput of each TCP connection of others while it had data to send, Mbit/s."""
    return tuple(flow.bytes * 8e3 / max(flow.duration_ns, 1) for flow in observation.background)


def parts_of(observation: Observation) -> tuple[PartRecord, ...]:
    """The parts of a mix; empty for other workloads."""
    return tuple(map(_part, observation.parts))


def _part(part: PartObservation) -> PartRecord:
    rates = [connection.throughput_bps for connection in part.connections]
    done = [
        connection.completion_ns / 1e9
        for connection in part.connections
        if connection.completion_ns is not None
    ]
    index = fairness(rates) if len(rates) > 1 else None
    return PartRecord(
        throughput_mbps=sum(rates) / 1e6,
        completion_s=max(done, default=None),
        fairness=None if index is None else 100 * index,
        delays_ms=in_ms(ns for connection in part.connections for ns in connection.delays_ns),
        pieces=tuple(piece for connection in part.connections for piece in connection.pieces),
    )


def in_ms(times_ns: Iterable[int]) -> tuple[float, ...]:
    """Nanoseconds as milliseconds."""
    return tuple(ns / 1e6 for ns in times_ns)


#: Settings of the workload, and their values where it has none: those of version 0.2, and of any later kind.
_WORKLOAD = {
    "duration_ns": None,
    "transfer_bytes": None,
    "deadline_ns": workloads.DEADLINE_NS,
    "ends_early": False,
    "workload": None,
}
#: The order of version 0.2's settings in a trial's key; later ones come behind them, in their own order.
_FIRST = (
    *("topology", "pm", "cc", "buffer_bytes", "seed", "duration_ns", "transfer_bytes", "deadline_ns"),
    *("protocol", "family", "scheduler", "opportunistic", "accounting", "tso", "initial_path", "pm_options"),
    *("size_known", "buffer_mode", "mss", "ecn", "script", "ends_early"),
)


def _defaults() -> dict[str, Any]:
    """Defaults of all settings, in the order in which a trial's key has them."""
    fields = {field.name: field.default for field in msgspec.structs.fields(Trial)}
    del fields["workload"]
    fields |= _WORKLOAD | msgspec.structs.asdict(VERSION_0_1)
    return {name: fields[name] for name in (*_FIRST, *(name for name in fields if name not in _FIRST))}


#: Values of a trial whose settings lack them. These are the defaults of version 0.1, whatever a trial's
#: defaults are now: the settings, and the keys of stored trials, mean the same in every version.
_DEFAULTS = _defaults()
