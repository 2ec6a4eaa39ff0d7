"""The N x M paths of a topology file: interface pairs, each with the segments that it crosses.

`_interfaces` reads the sites, `_shared` the segments that paths share, `_segment_values` the values of each.
"""

from __future__ import annotations

from pathlib import Path as Folder

from mptune._text import quoted
from mptune.topology._document import Document
from mptune.topology._families import MAX_PATHS, pairs
from mptune.topology._segment_values import CoreReader
from mptune.topology._shared import read_shared
from mptune.topology._sites import Path, Site, around_ns


def read_paths(sender: Site, receiver: Site, written: Document, folder: Folder) -> tuple[Path, ...]:
    """All paths, local interface by local interface.

    Parameters
    ----------
    written : the tables of the file.
    folder : where relative names of trace files start.

    Raises
    ------
    InputError : too many pairs, or anything in `[core]` that is not as expected.
    """
    count = len(sender.interfaces) * len(receiver.interfaces)
    if count > MAX_PATHS:
        expected = f"expected at most {MAX_PATHS} interface pairs, found {count}"
        raise written.file.refuse("sites", expected)
    labels = [pair.label for pair in pairs(sender, receiver, both=False)]
    _check_labels(written, labels)
    shared = read_shared(written, labels, folder)
    paths = []
    for pair in pairs(sender, receiver, both=False):
        crossed = tuple(segment for segment, over in shared if pair.label in over)
        reader = CoreReader(pair.label, written.segments.get(pair.label), written.core, folder)
        segment = reader.core(around_ns(pair.local, pair.remote, crossed))
        paths.append(Path(label=pair.label, core=segment, shared=crossed, **pair._asdict()))
    return tuple(paths)


def _check_labels(written: Document, labels: list[str]) -> None:
    for number, label in enumerate(written.segments):
        if label not in labels:
            expected = f"expected an interface pair of the two sites ({', '.join(labels)})"
            raise written.core.refuse(f"segments[{number}].path", f"{expected}, found {quoted(label)}")
