"""Capabilities of a run's kernels that not all have, read where they could bring a plan nearer."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from mptune.apply._settings import Present
from mptune.apply.machine import Seen, look
from mptune.apply.plan import ANY, Kernels, Outline, Part, outline
from mptune.linux.path_manager import End


def planned(run: Path, *, daemon: bool = False) -> Outline:
    """As `mptune.apply.plan.outline`, for the kernels that the machines have.

    They are asked only if the plan is not the answer's set of subflows.
    """
    outlined = outline(run, daemon=daemon)
    if not outlined.more:
        return outlined
    presents = {
        host.part: seen
        for host in outlined.hosts
        if (seen := look(host.intent.site, host.intent.file, _present)) is not None
    }
    kernels = kernels_of(presents, outlined.opener)
    return outlined if kernels == ANY else outline(run, daemon=daemon, kernels=kernels)


def kernels_of(presents: Mapping[Part, Present], opener: Part) -> Kernels:
    """Capabilities of both; by default those of all kernels, if one was not read."""
    ends = {part: present.end for part, present in presents.items() if present.end is not None}
    if len(ends) < 2:
        return ANY
    return Kernels(most=_most(ends.values()), laminar=ends[opener].has_laminar)


def _most(ends: Iterable[End]) -> int:
    return min(min(end.most_subflows, end.most_endpoints) for end in ends)


def _present(seen: Seen) -> Present | None:
    return seen.present
