"""The option that names a workload other than a saturated sender or one transfer.

A text such as "messages:200B/100ms": the kind, and what it needs (`mptune.trial.workloads`). How long it
lasts is another option.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from mptune.errors import one_of
from mptune.options._declared import Option
from mptune.options._kinds import Kind, count
from mptune.trial import (
    MOST_CONNECTIONS,
    Asked,
    Commands,
    Saturating,
    Several,
    Sized,
    on_each,
)
from mptune.trial.workloads import WRITTEN, kind_and_rest

#: Whatever can be asked for by this option.
AskedWorkload = Asked | Several | Commands

#: By the kinds that their texts begin with.
_FORMS: dict[str, type[AskedWorkload]] = {**WRITTEN, "mix": Several, "exec": Commands}
_HELP = " ".join(form.help for form in _FORMS.values())


def _parse(text: str) -> AskedWorkload:
    kind, rest = kind_and_rest(text)
    if kind not in _FORMS:
        raise ValueError(one_of(_FORMS, kind))
    return _FORMS[kind].read(text, rest)


def shown(asked: AskedWorkload) -> str:
    """The text that means a workload."""
    return asked.text


def _check(asked: AskedWorkload) -> None:
    asked.check()


WORKLOAD = Kind("WORKLOAD", _parse, shown, _check)

WorkloadOption = Annotated[
    AskedWorkload | None,
    Option(
        WORKLOAD,
        f"What the programs do instead, for the --duration. {_HELP}",
        key="trials.workload",
        unset="as much as the connection takes",
    ),
]


Connections = Annotated[
    int,
    Option(
        count(1, MOST_CONNECTIONS),
        "Connections with this workload between the same two sites, each with path manager, congestion "
        "control and buffers of its own, that share the paths. They begin within a second, at times drawn "
        "from the seed. Shown are their sum and Jain's index of fairness.",
        flag="--connections",
        key="trials.connections",
    ),
]


def on_connections(
    asked: AskedWorkload | None, connections: int, transfer_bytes: int | None = None
) -> AskedWorkload | None:
    """The workload on so many connections, if that can be; without one, a saturated sender or a transfer."""
    if not 1 < connections <= MOST_CONNECTIONS:
        return asked
    alone = Saturating() if transfer_bytes is None else Sized(bytes=transfer_bytes)
    return asked if isinstance(asked, Commands) else on_each(asked or alone, connections)


def wrong_connections(
    asked: AskedWorkload | None, connections: int, transfers: Sequence[int] = ()
) -> Iterator[str]:
    """Errors of a number of connections with a workload or sizes of transfers, for `Options.conflicts`."""
    if connections > 1 and isinstance(asked, Commands):
        yield "expected only without programs (exec), which open connections as they like"
    elif connections > 1 and transfers:
        yield "expected with sizes of transfers in the --workload (mix:20*transfer:1MiB)"


def impossible(asked: AskedWorkload | None, duration_ns: int | None) -> Iterator[str]:
    """Errors of a workload with a duration, for `Options.conflicts`."""
    if asked is not None and duration_ns is not None:
        yield from asked.impossible(duration_ns)
