"""Trials: what is tried, and what came of it. Nouns without behaviour, which every later room uses.

A *combination* is a path manager with its subflows and a congestion control. With a buffer, a stack and
whatever else a question fixes it is a *configuration*, and with a seed and a network a *trial*. A testbed
makes an *observation* of it, of which campaigns keep a *record*.
"""

from mptune.topology import FAMILIES
from mptune.trial._observation import (
    BackgroundObservation,
    Observation,
    SubflowObservation,
    bits_per_second,
    expected_bps,
)
from mptune.trial._trial import (
    ACTIONS,
    BIN_NS,
    DEFAULT_FAMILY,
    FAMILY_CHOICES,
    FIXED,
    MSS,
    PLAIN_TCP,
    PROTOCOLS,
    ScriptedAction,
    ScriptedWord,
    Trial,
)
from mptune.trial.combination import Combination
from mptune.trial.configuration import Configuration
from mptune.trial.path_parameters import PathParameters
from mptune.trial.records import PlannedTrial, Record, SubflowRecord
from mptune.trial.workloads import (
    Asking,
    Browsing,
    Bulk,
    Commands,
    Described,
    Messages,
    Page,
    Pattern,
    Programs,
    Requests,
    Timed,
    Transfer,
    Workload,
    size_of,
    time_or_size,
    workloads_of,
)

__all__ = [
    "ACTIONS",
    "BIN_NS",
    "DEFAULT_FAMILY",
    "FAMILIES",
    "FAMILY_CHOICES",
    "FIXED",
    "MSS",
    "PLAIN_TCP",
    "PROTOCOLS",
    "Asking",
    "BackgroundObservation",
    "Browsing",
    "Bulk",
    "Combination",
    "Commands",
    "Configuration",
    "Described",
    "Messages",
    "Observation",
    "Page",
    "PathParameters",
    "Pattern",
    "PlannedTrial",
    "Programs",
    "Record",
    "Requests",
    "ScriptedAction",
    "ScriptedWord",
    "SubflowObservation",
    "SubflowRecord",
    "Timed",
    "Transfer",
    "Trial",
    "Workload",
    "bits_per_second",
    "expected_bps",
    "size_of",
    "time_or_size",
    "workloads_of",
]
