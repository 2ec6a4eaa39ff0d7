"""What a campaign keeps of each trial: throughput and subflows, without the time series.

A failed trial keeps its reason and has no throughput: a number would find its way into a mean.
"""

from collections.abc import Sequence

import msgspec

from mptune.testbeds import Observation, Trial


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial and its place in the campaign.

    Attributes
    ----------
    purpose, run : what its seed was derived from (`mptune.campaign.seeds`).
    round : of a campaign that is repeated over time.
    withdrawn : path whose subflow is put to standby half way, for an impact factor.
    """

    purpose: str
    run: int
    round: int = 0
    trial: Trial
    withdrawn: str | None = None


class SubflowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One subflow of one trial: its share of the delivered payload, and its state at the end.

    Attributes
    ----------
    rtt_ms : last smoothed RTT; None when it never measured one.
    """

    path: str
    active: bool
    throughput_mbps: float
    rtt_ms: float | None
    retransmitted: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a campaign.

    Attributes
    ----------
    throughput_mbps : over the whole trial, handshake and slow start included; None when it failed.
    omega : impact factor of the withdrawn subflow, where one was withdrawn.
    failed : the reason, when it failed.
    """

    purpose: str
    pm: str
    cc: str
    buffer_bytes: int
    run: int
    seed: int
    withdrawn: str | None
    throughput_mbps: float | None
    failed: str | None
    subflows: tuple[SubflowRecord, ...]
    omega: float | None = None


def record(planned: PlannedTrial, observation: Observation) -> Record:
    """Condense one observation."""
    trial = planned.trial
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
        subflows=tuple(
            SubflowRecord(
                path=subflow.path,
                active=subflow.active,
                throughput_mbps=subflow.bytes * 8e3 / max(observation.duration_ns, 1),
                rtt_ms=subflow.srtt_ns / 1e6 if subflow.srtt_ns else None,
                retransmitted=subflow.retransmitted,
            )
            for subflow in observation.subflows
        ),
    )


def throughputs(records: Sequence[Record]) -> list[float]:
    """Throughputs of the trials that did not fail, Mbit/s."""
    return [one.throughput_mbps for one in records if one.throughput_mbps is not None]
