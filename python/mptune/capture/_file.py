"""Files of recordings: a line with its name, a line of JSON, and the compressed arrays of all runs."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from mptune import files
from mptune.capture._model import About, Recording, Run, packet_type, sample_type
from mptune.errors import InputError, MptuneError

_FIRST_LINE = b"mptune recording 1\n"
#: Fast; the arrays shrink to a fifth.
_LEVEL = 1
#: Most bytes of a file, and of what is in it when it is unpacked.
_LARGEST = 2**30


class _RunHead(msgspec.Struct, kw_only=True):
    """A run without its arrays; their compressed bytes follow in this order."""

    seed: int
    duration_ns: int
    in_order_bytes: int
    unrecorded: int
    packets: int
    samples: int


class _Head(msgspec.Struct, kw_only=True):
    about: About
    runs: list[_RunHead]


def write(recording: Recording, path: Path) -> None:
    """Write a file completely or not at all.

    Raises
    ------
    MptuneError : it cannot be written.
    """
    heads, parts = [], []
    for run in recording.runs:
        arrays = [zlib.compress(array.tobytes(), _LEVEL) for array in (run.packets, run.samples)]
        heads.append(
            _RunHead(
                seed=run.seed,
                duration_ns=run.duration_ns,
                in_order_bytes=run.in_order_bytes,
                unrecorded=run.unrecorded,
                packets=len(arrays[0]),
                samples=len(arrays[1]),
            )
        )
        parts += arrays
    head = msgspec.json.encode(_Head(about=recording.about, runs=heads))
    try:
        with files.writing(path) as file:
            file.writelines([_FIRST_LINE, head, b"\n", *parts])
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None


def read(path: Path) -> Recording:
    """Read a file.

    Raises
    ------
    InputError : it is not readable, or not a recording.
    """
    try:
        content = files.read_bytes(path, limit=_LARGEST)
    except OSError as error:
        raise InputError(str(path), "", f"expected a readable file: {error.strerror}") from None
    if not content.startswith(_FIRST_LINE):
        raise InputError(str(path), "", "expected a recording of `mptune diverge --record`")
    head_end = content.find(b"\n", len(_FIRST_LINE))
    try:
        head = msgspec.json.decode(content[len(_FIRST_LINE) : head_end], type=_Head)
        runs, at = [], head_end + 1
        for run in head.runs:
            packets = _array(content[at : at + run.packets], packet_type())
            at += run.packets
            samples = _array(content[at : at + run.samples], sample_type())
            at += run.samples
            runs.append(
                Run(
                    packets=packets,
                    samples=samples,
                    seed=run.seed,
                    duration_ns=run.duration_ns,
                    in_order_bytes=run.in_order_bytes,
                    unrecorded=run.unrecorded,
                )
            )
    except (msgspec.DecodeError, ValueError, zlib.error) as error:
        raise InputError(str(path), "", f"expected a whole recording: {error}") from None
    return Recording(about=head.about, runs=runs)


def _array(content: bytes, kind: Any) -> Any:
    import numpy as np

    return np.frombuffer(zlib.decompress(content), kind)
