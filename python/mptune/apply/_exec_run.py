"""The answer of a run for a single program: protocol, congestion control, buffer.

The rest of an answer (path manager, subflows) concerns the machine, not a program.
"""

from pathlib import Path

import msgspec

from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.result.answer import Answer
from mptune.store.directory import CONFIG, RESULT, is_unfinished

_OPTION = "--run"


def read_answer(directory: Path) -> Answer:
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
        content = read_json(directory / RESULT)
    except FileNotFoundError:
        raise InputError(where, "", f"expected a run with an answer, found no {RESULT} in it") from None
    except (OSError, ValueError) as error:
        raise InputError(where, RESULT, f"expected a readable JSON file: {reason(error)}") from None
    if isinstance(content, dict) and "sizes" in content:
        expected = "expected one answer, found one for each size of transfer: choose with --cc and --buffer"
        raise InputError(where, RESULT, expected)
    try:
        return msgspec.convert(content, Answer)
    except msgspec.ValidationError as error:
        raise InputError(where, RESULT, f"expected what this version writes: {error}") from None
