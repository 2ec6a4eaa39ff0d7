"""Documents of a run directory, read and checked: any fault in one is a one-line error with its place.

`reading` reads a whole run with these; who needs the answer alone reads that.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.result.answer import Answer, ObjectiveAnswer, SizesAnswer, settings_of
from mptune.store.directory import RESULT

T = TypeVar("T")

#: In place of the content of a file that is not there; a file may have a null in it.
_ABSENT = object()


def read_document(directory: Path, name: str, kind: type[T], where: str = "") -> T | None:
    """A JSON document; None if there is no such file.

    Parameters
    ----------
    where : the place that an error names; empty for the directory.

    Raises
    ------
    InputError : it cannot be read, or is not what this version writes.
    """
    content = _read(directory, name, where)
    return None if content is _ABSENT else _converted(content, name, kind, where or str(directory))


def read_answer(directory: Path, where: str = "", *, by_size: str = "") -> Answer:
    """The answer of a run; of one by an objective what it sets.

    Parameters
    ----------
    where : as in `read_document`.
    by_size : what to do where there is an answer for each size of transfer.

    Raises
    ------
    InputError : as `read_document`, or there is no answer, or not a single one.
    """
    place = where or str(directory)
    content = _read(directory, RESULT, where)
    if content is _ABSENT:
        raise InputError(place, "", f"expected a run with an answer, found no {RESULT} in it")
    if isinstance(content, dict) and "sizes" in content:
        advice = f": {by_size}" if by_size else ""
        raise InputError(place, RESULT, f"expected one answer, found one for each size of transfer{advice}")
    if isinstance(content, dict) and "objective" in content:
        return settings_of(_converted(content, RESULT, ObjectiveAnswer, place))
    return _converted(content, RESULT, Answer, place)


def read_result(directory: Path) -> Answer | ObjectiveAnswer | SizesAnswer | None:
    """The answer of a run, whatever it is about; None if there was no question.

    Raises
    ------
    InputError : as `read_document`.
    """
    content = _read(directory, RESULT, "")
    return None if content is _ABSENT else converted(content, str(directory))


def converted(content: object, where: str) -> Answer | ObjectiveAnswer | SizesAnswer:
    """The answer in the content of a result, whatever it is about.

    Raises
    ------
    InputError : it is not what this version writes.
    """
    kind: type[Answer | ObjectiveAnswer | SizesAnswer] = Answer
    if isinstance(content, dict) and "sizes" in content:
        kind = SizesAnswer
    elif isinstance(content, dict) and "objective" in content:
        kind = ObjectiveAnswer
    return _converted(content, RESULT, kind, where)


def _read(directory: Path, name: str, where: str) -> Any:
    """Content of the file, unchecked; `_ABSENT` if there is none."""
    try:
        return read_json(directory / name)
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    except (OSError, ValueError) as error:
        expected = f"expected a readable JSON file: {reason(error)}"
        raise InputError(where or str(directory), name, expected) from None


def _converted(content: object, name: str, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(where, name, f"expected what this version writes: {error}") from None
