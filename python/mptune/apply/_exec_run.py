"""What a run directory says to a single program: protocol, congestion control, buffer.

The rest of an answer (path manager, subflows) concerns the machine, not a program.
"""

from pathlib import Path

import msgspec

from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.store.directory import CONFIG, is_unfinished
from mptune.trial import FIXED, PLAIN_TCP

_RESULT = "result.json"
_OPTION = "--run"


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `result.json` that is used here (`mptune.campaign.documents` writes it)."""

    occ: str
    obs_bytes: int
    protocol: str = "mptcp"
    buffer_mode: str | None = None
    stack: str | None = None

    @property
    def is_tcp(self) -> bool:
        """Whether plain TCP is the answer."""
        return self.protocol == PLAIN_TCP

    @property
    def is_fixed(self) -> bool:
        """Whether the buffer is one that programs set, and not a limit of autotuning."""
        return self.buffer_mode in (None, FIXED)


def read_answer(directory: Path) -> RunAnswer:
    """Read the answer of a finished run.

    Raises
    ------
    InputError : there is no run, it is not finished, or it has no single answer.
    """
    where = f"{_OPTION} {directory}"
    if is_unfinished(directory):
        raise InputError(where, "", "expected a finished run, found one to continue (mptune campaign resume)")
    if not (directory / CONFIG).is_file():
        raise InputError(where, "", f"expected a run directory, found no {CONFIG} in it")
    try:
        content = read_json(directory / _RESULT)
    except FileNotFoundError:
        raise InputError(where, "", f"expected a run with an answer, found no {_RESULT} in it") from None
    except (OSError, ValueError) as error:
        raise InputError(where, _RESULT, f"expected a readable JSON file: {reason(error)}") from None
    if isinstance(content, dict) and "sizes" in content:
        expected = "expected one answer, found one for each size of transfer: choose with --cc and --buffer"
        raise InputError(where, _RESULT, expected)
    try:
        return msgspec.convert(content, RunAnswer)
    except msgspec.ValidationError as error:
        raise InputError(where, _RESULT, f"expected what this version writes: {error}") from None
