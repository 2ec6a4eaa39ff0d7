"""Fate of MPTCP on every path: at the handshake, with data, and as a joined subflow.

`joins` tries to join, `verdicts` judges a path; here is which paths are tried, and why none is.
"""

from __future__ import annotations

from collections.abc import Sequence

from mptune.errors import TrialError
from mptune.probe import joins
from mptune.probe.connections import Connections
from mptune.probe.ends import ENDS
from mptune.probe.preparation import Prepared
from mptune.probe.verdicts import Verdict, verdict


def judge(prepared: Prepared, connections: Connections) -> tuple[dict[int, Verdict], list[str]]:
    """Try to join on each path, if there are several and both machines allow it.

    Returns
    -------
    tuple
        A verdict for every path, and notes for the user.
    """
    whole = [path for path, (mptcp, _) in connections.tried.items() if mptcp.near and mptcp.far]
    families, joined = _by_family(prepared, whole), dict[int, bool]()
    reason = _no_joins(prepared, connections, families)
    if reason is None:
        try:
            for members in families:
                # The first two of each family: of the others it is known what becomes of MPTCP there.
                for first in members[:2]:
                    if others := set(members) - {first} - set(joined):
                        joined |= joins.try_joins(
                            prepared.machines, prepared.ends, prepared.paths, first, others
                        )
        except TrialError as error:
            reason = str(error)
    notes = []
    if reason is not None:
        notes.append(f"joins were not tried: {reason}")
    elif len(families) > 1:
        notes.append("joins were not tried between IPv4 and IPv6")
    verdicts = {
        path: verdict(mptcp, plain, joined.get(path), connections.no_mptcp)
        for path, (mptcp, plain) in connections.tried.items()
    }
    for path in set(range(len(prepared.paths))) - set(prepared.possible):
        verdicts[path] = Verdict(kind="unreachable", because=prepared.nothing_in_common(path))
    return verdicts, notes


def _by_family(prepared: Prepared, paths: Sequence[int]) -> list[list[int]]:
    """Paths with IPv4 and those with IPv6, where there are any; together if connections may have both."""
    if prepared.wish.both_families:
        return [list(paths)] if paths else []
    found = ([path for path in paths if prepared.family(path) == family] for family in (4, 6))
    return [members for members in found if members]


def _no_joins(prepared: Prepared, connections: Connections, families: Sequence[Sequence[int]]) -> str | None:
    """Why no join is tried; None if some are."""
    if connections.no_mptcp is not None:
        return connections.no_mptcp
    if not families:
        return "no connection stays MPTCP"
    if len(prepared.possible) == 1:
        return "there is only one path"
    if sum(map(len, families)) == 1:
        return "connections stay MPTCP on one path alone"
    if all(len(members) == 1 for members in families):
        return "one path has IPv4 and one IPv6, and joins are tried within a family"
    for end in ENDS:
        name, facts = prepared.machines[end].name, prepared.facts[end]
        if not facts.get("net_admin"):
            return f"{name}: needs root (or sudo without a password)"
        if (missing := facts.get("path_manager")) is not None:
            return f"{name}: {missing}"
    return None
