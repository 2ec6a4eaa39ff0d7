"""Paths that MPTCP could use and has no subflow on: path manager, limits or endpoints of either end."""

from collections.abc import Iterator

from mptune.diagnosis.causes.finding import Finding, Gaps, mbps
from mptune.diagnosis.evidence import Evidence


def find(evidence: Evidence, gaps: Gaps) -> Iterator[Finding]:
    """With a path manager that opens one on each path the subflow comes up, or even then it does not."""
    together, every = evidence.together(), evidence.together(subflows="all")
    if together is None:
        return
    stripped = {path.label for path in evidence.paths if path.stripped}
    for label, missing in gaps.absent.items():
        if label in stripped or together.fallback:
            continue
        up = every is not None and label in every.carrying
        because = f"no subflow on {label}, which gives {mbps(missing)} alone ({len(together.carrying)} of "
        because += f"{len(evidence.paths)} paths carry data under {evidence.settings.pm})"
        if every is not None:
            because += "; opened by hand it carries data" if up else "; opened by hand it does not come up"
        yield Finding(
            kind="subflows",
            part=f"absent {label}",
            mbps=missing,
            paths=(label,),
            because=because,
            remedy=evidence.settings.opened_by or _OPEN if up or every is None else _OTHER_END,
            always=True,
        )


_OPEN = "--pm fullmesh; or the lines of mptune doctor --hosts: limits, and an endpoint per address"
_OTHER_END = (
    "limits and firewall of the other end: ip mptcp limits show, and endpoint show, there (mptune doctor)"
)
