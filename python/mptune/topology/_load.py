"""From a topology file to a `Topology`: every table checked, every value read, every default recorded.

Errors are `InputError`: one line with file, key and what was expected. The layout of the file is in
`_schema`; single values are read by `_values`, interfaces by `_interfaces`, the paths by `_segments`, and the
traffic of others by `_background`.
"""

from pathlib import Path as File

from mptune._text import quoted
from mptune.errors import InputError
from mptune.files import read_json, reason
from mptune.tables import convert, read_toml
from mptune.topology import _defaults as defaults
from mptune.topology._background import read_background
from mptune.topology._checked import check, check_abbr, from_document
from mptune.topology._flows import Background, TcpBackground
from mptune.topology._interfaces import read_interface
from mptune.topology._kinds import choice
from mptune.topology._model import Topology
from mptune.topology._mptcp import FULL, NONE, begins
from mptune.topology._schema import FileTable, InterfaceTable, SiteTable
from mptune.topology._segments import read_paths
from mptune.topology._shipped import find
from mptune.topology._sites import Interface, Path, Site
from mptune.topology._values import Ledger, Origin


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
    if file.suffix == ".json":
        return from_document(_document(file, where), where, "topology")
    raw = read_toml(file, where)
    return from_tables(raw, where, file.name, file.parent)


def _document(file: File, where: str) -> object:
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise InputError(where, "", f"expected a readable JSON file: {reason(error)}") from None


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
    table = convert(raw, FileTable, where, "")
    _check_sites(table, where)
    ends = {abbr: _site_table(table, abbr, where) for abbr in (table.sender, table.receiver)}
    ledger = Ledger(where, between_hosts=all(end.ssh is not None for end in ends.values()))
    origin = ledger.origin("", table, Origin("source", defaults.NO_SOURCE))
    sender, receiver = (_site(abbr, end, ledger, origin, folder) for abbr, end in ends.items())
    paths = read_paths(sender, receiver, table.core, ledger, origin, folder)
    background = read_background(table.background, sender, receiver, paths, ledger, origin)
    _check_background(background, paths, where)
    topology = Topology(
        name=table.name,
        description=table.description,
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=_initial_path(table, paths, ledger, origin),
        lsrr_honoured=_lsrr(table, ledger, origin),
        background=background,
        provenance=ledger.provenance,
        file=file_name,
        missing=tuple(ledger.missing),
    )
    check(topology, where)
    return topology


def _check_sites(table: FileTable, where: str) -> None:
    known = ", ".join(table.sites) or "none"
    for key, abbr in (("sender", table.sender), ("receiver", table.receiver)):
        if abbr not in table.sites:
            raise InputError(where, key, f"expected one of the file's sites ({known}), found {quoted(abbr)}")
    if table.sender == table.receiver:
        raise InputError(where, "receiver", f"expected a site other than the sender {quoted(table.sender)}")
    for abbr in table.sites:
        if abbr not in (table.sender, table.receiver):
            raise InputError(where, f"sites.{abbr}", "expected only sites that are sender or receiver")


def _site_table(file: FileTable, abbr: str, where: str) -> SiteTable:
    key = f"sites.{abbr}"
    return convert(file.sites[abbr], SiteTable, where, key)


def _site(abbr: str, table: SiteTable, ledger: Ledger, outer: Origin, folder: File) -> Site:
    where, key = ledger.where, f"sites.{abbr}"
    origin = ledger.origin(key, table, outer)
    if not table.interfaces:
        raise InputError(where, f"{key}.interfaces", "expected at least one interface, found none")
    interfaces: list[Interface] = []
    for number, raw in enumerate(table.interfaces):
        row = convert(raw, InterfaceTable, where, f"{key}.interfaces[{number}]")
        check_abbr(row.abbr, where, f"{key}.interfaces[{number}].abbr")
        if row.abbr in (other.abbr for other in interfaces):
            expected = f"expected a unique abbreviation, found {quoted(row.abbr)} twice"
            raise InputError(where, f"{key}.interfaces[{number}].abbr", expected)
        interfaces.append(read_interface(row, f"{key}.interfaces.{row.abbr}", ledger, origin, folder))
    return Site(
        abbr=abbr,
        name=table.name,
        location=table.location,
        interfaces=tuple(interfaces),
        ssh=table.ssh,
        lat=table.lat,
        lon=table.lon,
    )


def _initial_path(file: FileTable, paths: tuple[Path, ...], ledger: Ledger, origin: Origin) -> str:
    labels = {path.label: path.label for path in paths}
    usual = begins(paths)
    if file.initial_path is None:
        reason = defaults.FIRST_PATH if usual is paths[0] else defaults.FIRST_WITH_MPTCP
        return ledger.assume("initial_path", usual.label, str, reason)
    found = ledger.read("initial_path", file.initial_path, choice(labels), origin)
    if usual.core.mptcp != NONE and paths[list(labels).index(found)].core.mptcp == NONE:
        expected = f"expected a path that carries MPTCP, such as {usual.label}, found {quoted(found)}"
        raise InputError(ledger.where, "initial_path", expected)
    return found


def _check_background(background: tuple[Background, ...], paths: tuple[Path, ...], where: str) -> None:
    """Refuse connections of others on paths that trials do without."""
    closed = {path.label for path in paths if path.core.mptcp not in (None, FULL)}
    for number, flow in enumerate(background):
        if isinstance(flow, TcpBackground) and flow.path in closed:
            expected = f"expected a path without a word on mptcp, found {flow.path}"
            raise InputError(where, f"background[{number}].path", expected)


def _lsrr(file: FileTable, ledger: Ledger, origin: Origin) -> bool:
    kind = choice({"honoured": True, "ignored": False})
    if file.lsrr is None:
        return ledger.assume("lsrr", False, kind.show, defaults.NO_LSRR)
    return ledger.read("lsrr", file.lsrr, kind, origin)
