"""Types of the keywords, for type checkers and editors: names and kinds of values, no defaults.

Made from the options' declarations by `python -m mptune.api.keyword_types`.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

#: A value as on the command line ("4MiB", "30s"), or a number.
One = str | int | float
#: Several of them: text with commas, or a sequence.
Many = One | Sequence[One]
#: Values by the label of a path.
ByLabel = str | Mapping[str, One]


class RunKeywords(TypedDict, total=False):
    """Keywords of `mptune.run`."""

    protocol: One | None
    pm: One | None
    cc: One | None
    buffer: One | None
    receive_buffer: One | None
    buffer_mode: One | None
    family: One | None
    duration: One | None
    transfer: One | None
    workload: One | None
    connections: int | None
    size_known: bool | None
    seed: int | None
    initial_path: One | None
    at: Many | None
    stack: One | None
    scheduler: One | None
    accounting: One | None
    opportunistic: bool | None
    olia_integers: bool | None
    tso: bool | None
    mss: int | None
    ecn: bool | None
    stale_loss_cnt: int | None
    rto_min_us: int | None
    rto_max_ms: int | None
    promised_gain: int | None
    first_retry: int | None
    ndiffports: int | None
    active: Many | None
    standby_order: Many | None
    class_bytes: Many | None
    above: int | None
    after: int | None
    order: Many | None
    weights: ByLabel | None
    caps: ByLabel | None
    testbed: One | None
    reverse: bool | None


class ImpactFactorsKeywords(TypedDict, total=False):
    """Keywords of `mptune.impact_factors`."""

    impact: One | None
    runs: int | None
    duration: One | None
    buffer: One | None
    buffer_mode: One | None
    family: One | None
    settle: One | None
    zero: One | None
    seed: int | None
    cc: One | None
    testbed: One | None
    reverse: bool | None
    jobs: int | None
    executor: One | None
    dask_scheduler: One | None
    trial_timeout: One | None
    stack: One | None
    scheduler: One | None
    accounting: One | None
    opportunistic: bool | None
    olia_integers: bool | None
    tso: bool | None
    mss: int | None
    ecn: bool | None
    stale_loss_cnt: int | None
    rto_min_us: int | None
    rto_max_ms: int | None


class SweepKeywords(TypedDict, total=False):
    """Keywords of `mptune.sweep`."""

    pm: Many | None
    cc: Many | None
    buffers: Many | None
    buffer_mode: Many | None
    family: One | None
    runs: int | None
    duration: One | None
    seed: int | None
    initial_path: Many | None
    stack: Many | None
    scheduler: Many | None
    accounting: One | None
    opportunistic: bool | None
    olia_integers: bool | None
    tso: bool | None
    mss: int | None
    ecn: bool | None
    stale_loss_cnt: int | None
    rto_min_us: int | None
    rto_max_ms: int | None
    transfer: Many | None
    workload: One | None
    connections: int | None
    size_known: bool | None
    tcp_on: Many | None
    at: Many | None
    promised_gain: int | None
    first_retry: int | None
    ndiffports: int | None
    active: Many | None
    standby_order: Many | None
    class_bytes: Many | None
    above: int | None
    after: int | None
    impact: One | None
    impact_runs: int | None
    impact_duration: One | None
    settle: One | None
    zero: One | None
    every: One | None
    for_: One | None
    testbed: One | None
    reverse: bool | None
    jobs: int | None
    executor: One | None
    dask_scheduler: One | None
    trial_timeout: One | None


class OptimiseKeywords(TypedDict, total=False):
    """Keywords of `mptune.optimise`."""

    sacrifice: One | None
    selection: One | None
    model: One | None
    on_grid: bool | None
    resamples: int | None
    seed: int | None
    pm: Many | None
    cc: Many | None
    buffers: Many | None
    buffer_mode: One | None
    family: One | None
    initial_path: Many | None
    transfer: Many | None
    workload: One | None
    connections: int | None
    objective: One | None
    at_most_delay: One | None
    at_most_gap: One | None
    at_least: One | None
    at_least_p5: One | None
    at_most_failover: One | None
    beside_tcp: bool | None
    do_no_harm: bool | None
    at_most_stalled: One | None
    size_known: bool | None
    runs: int | None
    duration: One | None
    strategy: One | None
    budget: One | None
    certainty: One | None
    prior: bool | None
    learnt_prior: bool | None
    stack: One | None
    scheduler: One | None
    accounting: One | None
    opportunistic: bool | None
    olia_integers: bool | None
    tso: bool | None
    mss: int | None
    ecn: bool | None
    stale_loss_cnt: int | None
    rto_min_us: int | None
    rto_max_ms: int | None
    promised_gain: int | None
    first_retry: int | None
    ndiffports: int | None
    active: Many | None
    standby_order: Many | None
    class_bytes: Many | None
    above: int | None
    after: int | None
    impact: One | None
    impact_runs: int | None
    impact_duration: One | None
    settle: One | None
    zero: One | None
    sets: One | None
    off_by: One | None
    tcp: bool | None
    extend: bool | None
    confirm_runs: int | None
    confirm_on: One | None
    sensitivity: bool | None
    every: One | None
    for_: One | None
    testbed: One | None
    reverse: bool | None
    jobs: int | None
    executor: One | None
    dask_scheduler: One | None
    trial_timeout: One | None


class FitKeywords(TypedDict, total=False):
    """Keywords of `mptune.fit`."""

    forms: Many | None
    alpha: One | None
    ignore: Many | None
    target: One | None


class CalibrateKeywords(TypedDict, total=False):
    """Keywords of `mptune.calibrate`."""

    budget: int | None
    values: Many | None
    discrepancy: One | None
    stack: One | None
    longest: One | None
    seed: int | None
    jobs: int | None


class CompareKeywords(TypedDict, total=False):
    """Keywords of `mptune.compare`."""

    pm: Many | None
    cc: Many | None
    buffers: Many | None
    buffer_mode: One | None
    family: One | None
    runs: int | None
    duration: One | None
    transfer: One | None
    seed: int | None
    order: Many | None
    weights: ByLabel | None
    caps: ByLabel | None
    testbed: One | None
    reverse: bool | None
    jobs: int | None
