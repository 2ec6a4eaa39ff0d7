"""A calibrated network as a topology file: what was inferred with its interval, everything else as it was."""

from collections.abc import Iterator
from pathlib import Path

from mptune.calibration.parameters import TCP, following, in_words
from mptune.calibration.result import Calibration, Inferred, off
from mptune.errors import InputError
from mptune.files import write
from mptune.topology import Change, place, rewritten


def new_file(out: str, *, force: bool) -> Path:
    """The file to write.

    Raises
    ------
    InputError : it exists already, or is no possible file.
    """
    target = Path(out)
    if target.suffix != ".toml":
        raise InputError("--out", "", f"expected a name that ends in .toml, found {out}")
    if not target.parent.is_dir():
        raise InputError("--out", "", f"expected a file in an existing folder, found {out}")
    if target.exists() and not force:
        raise InputError("--out", "", f"expected a new file, or --force, found {out}")
    return target


def write_calibrated(target: Path, calibration: Calibration, source: str) -> None:
    """Write the calibrated topology file, under the file's name.

    Parameters
    ----------
    source : as of `calibrated_text`.

    Raises
    ------
    InputError : it cannot be written.
    """
    name = target.name.removesuffix(".toml")
    write_file(target, calibrated_text(calibration, source, name=name, folder=target.parent))


def write_file(target: Path, text: str) -> None:
    """Write a topology file.

    Raises
    ------
    InputError : it cannot be written.
    """
    try:
        write(target, text)
    except OSError as error:
        raise InputError("--out", "", f"expected a writable file: {error.strerror}") from None


def calibrated_text(calibration: Calibration, source: str, *, name: str, folder: Path = Path()) -> str:
    """Text of the calibrated topology file.

    Parameters
    ----------
    source : the file that was calibrated, or the name of a shipped scenario.
    name : of the calibrated topology.
    folder : where the text is going to be.

    Raises
    ------
    InputError : no such file.
    """
    changes: dict[str, Change] = {}
    background = []
    for inferred in calibration.inferred:
        if inferred.key not in calibration.values:
            continue
        parameter, value = calibration.values[inferred.key]
        words = _origin(calibration, inferred)
        if inferred.key.startswith(TCP):
            flow = {
                "kind": "tcp",
                "path": parameter.path,
                "assumed": f"{words}, on {inferred.key[len(TCP) :]}",
            }
            background += [flow] * value
            continue
        changes[inferred.key] = Change(inferred.value, "assumed", words)
        beside = following(parameter)
        where = None if beside is None else place(calibration.topology, beside)
        if beside is not None and where is not None and beside not in calibration.values:
            same = "as before at another rate or RTT: the time of the queue, or the jitter; 0.1 s in the core"
            changes[beside] = Change(in_words(where.value, where.kind), "assumed", same)
    return rewritten(
        source,
        changes,
        name=name,
        background=background,
        comments=list(_comments(calibration)),
        folder=folder,
    )


def _origin(calibration: Calibration, inferred: Inferred) -> str:
    """Origin of a value: the data, and its interval."""
    interval = f"{inferred.low} to {inferred.high} with 80 %"
    doubt = {"well": "", "weakly": ", weakly determined", "not": ", not determined alone"}
    return f"inferred from {calibration.data}: {interval}{doubt[inferred.determined]}"


def _comments(calibration: Calibration) -> Iterator[str]:
    rows = sum(len(row.rows) for row in calibration.fitted)
    yield f"{calibration.name}, calibrated by mptune calibrate from {rows} rows of {calibration.data}:"
    error, before = off(calibration.error), off(calibration.nominal_error)
    yield f"{error} mean error of the simulated throughput, {before} before."
