"""Causes of missing throughput: each has a file with a function of the evidence and of what is missing.

A function yields a `Finding` for each place where its cause takes something; the order of the list decides
who takes first of a part that several claim.
"""

from collections.abc import Callable, Iterator

from mptune.diagnosis.causes import (
    buffers,
    fallback,
    head_of_line,
    loss,
    policing,
    processor,
    shared_bottleneck,
    stripped,
    subflows,
)
from mptune.diagnosis.causes.finding import Finding, Gaps
from mptune.diagnosis.evidence import Evidence

#: Every cause.
CAUSES: tuple[Callable[[Evidence, Gaps], Iterator[Finding]], ...] = (
    fallback.find,
    stripped.find,
    subflows.find,
    policing.find,
    shared_bottleneck.find,
    loss.find,
    head_of_line.find,
    buffers.find,
    processor.find,
)
