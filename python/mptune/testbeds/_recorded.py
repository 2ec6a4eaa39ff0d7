"""A recorded run from what the core or the processes on the kernel hand over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mptune.capture import Run, empty_samples

if TYPE_CHECKING:
    from mptune.trial import Observation, Trial

#: Most packets of a run, acknowledgements included: two minutes at 100 Mbit/s, 176 MB of memory.
MOST_PACKETS = 2_000_000
#: Time between two samples of the senders, nanoseconds.
SPACING_NS = 5_000_000

#: Columns that both sides report by the same name.
_SAME = ("cwnd", "unacked", "sacked", "lost", "state", "backoff", "subflow")


def run_of(
    trial: Trial,
    observation: Observation,
    packets: bytes,
    samples: Iterable[Mapping[str, Any]],
    paths: Mapping[Any, int],
    unrecorded: int,
) -> Run:
    """Make a run.

    Parameters
    ----------
    packets : records (`crates/mptune-core/src/recording.rs`).
    paths : number of the path by what a sample has under `path`; samples of others are left out.
    """
    import numpy as np

    from mptune.capture import packet_type

    known = [sample for sample in samples if sample["path"] in paths]
    table = empty_samples(len(known))
    for row, entry in zip(table, known, strict=True):
        row["t"], row["srtt"], row["path"] = entry["t_ns"], entry["srtt_ns"], paths[entry["path"]]
        row["ssthresh"] = math.nan if entry["ssthresh"] is None else entry["ssthresh"]
        for name in _SAME:
            row[name] = entry[name]
    return Run(
        packets=np.frombuffer(packets, packet_type()),
        samples=table,
        seed=trial.seed,
        duration_ns=observation.duration_ns,
        in_order_bytes=observation.in_order_bytes,
        unrecorded=unrecorded,
    )
