"""From a topology file to a `Topology`: every table checked, every value read, every default recorded.

Errors are `InputError`: one line with file, key and what was expected. The layout of the file is in
`_schema`; `_document` checks its tables, `_values` reads single values, `_interfaces` the sites,
`_segments` the paths, and `_background` the traffic of others.
"""

from pathlib import Path as File

from mptune._text import quoted
from mptune.tables import read_json, read_toml
from mptune.topology import _defaults as defaults
from mptune.topology._background import read_background
from mptune.topology._checked import check, from_document
from mptune.topology._defaults import Assumption
from mptune.topology._document import document
from mptune.topology._interfaces import read_site
from mptune.topology._kinds import choice
from mptune.topology._model import Topology
from mptune.topology._mptcp import NONE, begins
from mptune.topology._schema import FileTable
from mptune.topology._segments import read_paths
from mptune.topology._shipped import find
from mptune.topology._sites import Path
from mptune.topology._values import Table


def load(path: str | File) -> Topology:
    """Read a topology file.

    Parameters
    ----------
    path : the file, or the bare name of a shipped scenario ("UNIS-HiN"). A file that ends in `.json` is one
        that mptune has written, as `mptune bundle` does.

    Returns
    -------
    Topology
        Its frame has a row per path: rates in bit/s, RTTs in ms, losses as shares, sizes in bytes.

    Raises
    ------
    InputError : no such file, not TOML, or anything in it that is not as expected.

    Examples
    --------
    >>> import mptune
    >>> network = mptune.load("UNIS-HiN")
    >>> network.sender.abbr, network.receiver.abbr, len(network.paths)
    ('UNIS', 'HiN', 6)
    """
    file = find(path)
    where = str(file)
    by_mptune = file.suffix == ".json"
    raw = read_json(file, where) if by_mptune else read_toml(file, where)
    if by_mptune:
        return from_document(raw, where, "topology")
    return from_tables(raw, where, file.name, file.parent)


def from_tables(raw: object, where: str, file_name: str, folder: File = File()) -> Topology:
    """Build a topology from what a file contains.

    Parameters
    ----------
    raw : the file's tables as dicts, lists and text.
    where : the file's name in messages.
    folder : where relative names of trace files start.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    written = document(raw, where)
    table, ledger = written.file, written.file.ledger
    sender, receiver = (read_site(site, folder) for site in (written.sender, written.receiver))
    paths = read_paths(sender, receiver, written, folder)
    background = read_background(written.background, sender, receiver, paths)
    topology = Topology(
        name=table.written.name,
        description=table.written.description,
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=_initial_path(table, paths),
        lsrr_honoured=_lsrr(table),
        background=background,
        provenance=ledger.provenance,
        file=file_name,
        missing=tuple(ledger.missing),
    )
    check(topology, where)
    return topology


def _initial_path(file: Table[FileTable], paths: tuple[Path, ...]) -> str:
    labels = {path.label: path.label for path in paths}
    usual = begins(paths)
    reason = defaults.FIRST_PATH if usual is paths[0] else defaults.FIRST_WITH_MPTCP
    found = file.given("initial_path", choice(labels), Assumption(usual.label, reason))
    if usual.core.mptcp != NONE and paths[list(labels).index(found)].core.mptcp == NONE:
        expected = f"expected a path that carries MPTCP, such as {usual.label}, found {quoted(found)}"
        raise file.refuse("initial_path", expected)
    return found


def _lsrr(file: Table[FileTable]) -> bool:
    kind = choice({"honoured": True, "ignored": False})
    return file.given("lsrr", kind, Assumption(False, defaults.NO_LSRR))
