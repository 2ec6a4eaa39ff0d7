"""A script as an option: what is done to paths while a trial runs, written as TIME:ACTION:PATH.

What an action does is the testbeds' business (`mptune.trial.ScriptedAction`).
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from mptune import units
from mptune._text import quoted
from mptune.errors import one_of
from mptune.options._declared import Option
from mptune.options._kinds import Kind, several
from mptune.trial import ACTIONS, ScriptedAction


def _parse(text: str) -> ScriptedAction:
    at, _, rest = text.strip().partition(":")
    action, _, path = rest.partition(":")
    if not path:
        raise ValueError(f'expected TIME:ACTION:PATH such as "5s:down:U-C", found {quoted(text.strip())}')
    if action not in ACTIONS:
        raise ValueError(one_of(ACTIONS, action))
    built = {"at_ns": units.parse_time(at), "action": action, "path": path}
    return msgspec.convert(built, ScriptedAction)


def _show(action: ScriptedAction) -> str:
    at = units.format_time(action.at_ns).replace(" ", "") if action.at_ns else "0s"
    return f"{at}:{action.action}:{action.path}"


def _check(action: ScriptedAction) -> None:
    if action.action not in ACTIONS:
        raise ValueError(one_of(ACTIONS, action.action))


_ACTION = Kind[ScriptedAction]("TIME:ACTION:PATH", _parse, _show, _check, labels=True)

Script = Annotated[
    tuple[ScriptedAction, ...],
    Option(
        several(_ACTION, distinct=False),
        f"Change a path during the trial ({', '.join(ACTIONS)}), e.g. 5s:down:U-C; may be repeated.",
        key="trials.script",
        flag="--at",
    ),
]


def wrong_times(script: Sequence[ScriptedAction], end_ns: int | None) -> Iterator[str]:
    """Errors in the times of a script, for `Options.conflicts`.

    Parameters
    ----------
    end_ns : when the trial ends; None for a transfer, whose end is not known.
    """
    for before, after in itertools.pairwise(script):
        if after.at_ns < before.at_ns:
            yield f"expected the actions in order of time, found {_show(after)} after {_show(before)}"
    for action in script:
        if end_ns is not None and action.at_ns >= end_ns:
            yield f"expected a time before the end at {units.format_time(end_ns)}, found {_show(action)}"
