"""A topology file as tables at their places: every table of the layout checked, and its origin found.

The layout is in `_schema`. Values, and tables that stand where a value may (effects, traces), are read later:
by `_values`, as whoever needs them asks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mptune._text import quoted
from mptune.errors import InputError
from mptune.tables import convert
from mptune.topology import _defaults as defaults
from mptune.topology._names import check_abbr
from mptune.topology._schema import (
    CoreTable,
    FileTable,
    InterfaceTable,
    SegmentTable,
    SharedTable,
    SiteTable,
)
from mptune.topology._values import Ledger, Origin, Table


class SiteTables(NamedTuple):
    """A site and its interfaces."""

    abbr: str
    site: Table[SiteTable]
    interfaces: list[Table[InterfaceTable]]


class Document(NamedTuple):
    """All tables of a file; `segments` and `shared` by their paths and names, in the file's order."""

    file: Table[FileTable]
    sender: SiteTables
    receiver: SiteTables
    core: Table[CoreTable]
    segments: dict[str, Table[SegmentTable]]
    shared: dict[str, Table[SharedTable]]
    background: list[Table[Any]]


def document(raw: object, where: str) -> Document:
    """Check the tables of a file.

    Raises
    ------
    InputError : anything but a value is not as expected.
    """
    written = convert(raw, FileTable, where, "")
    _check_sites(written, where)
    _check_names(written, where)
    ends = written.sites[written.sender], written.sites[written.receiver]
    ledger = Ledger(where, between_hosts=all(end.ssh is not None for end in ends))
    file = Table(ledger, "", written, Origin("source", defaults.NO_SOURCE))
    sender, receiver = (
        SiteTables(abbr, site, [site.part(f"interfaces.{row.abbr}", row) for row in site.written.interfaces])
        for abbr in (written.sender, written.receiver)
        for site in (file.part(f"sites.{abbr}", written.sites[abbr]),)
    )
    core = file.part("core", written.core)
    return Document(
        file=file,
        sender=sender,
        receiver=receiver,
        core=core,
        segments={row.path: core.part(f"segments.{row.path}", row) for row in written.core.segments},
        # Their values are not those of [core], nor is its origin theirs.
        shared={row.name: file.part(f"core.shared.{row.name}", row) for row in written.core.shared},
        background=file.rows("background"),
    )


def _check_sites(file: FileTable, where: str) -> None:
    known = ", ".join(file.sites) or "none"
    for key, abbr in (("sender", file.sender), ("receiver", file.receiver)):
        if abbr not in file.sites:
            raise InputError(where, key, f"expected one of the file's sites ({known}), found {quoted(abbr)}")
    if file.sender == file.receiver:
        raise InputError(where, "receiver", f"expected a site other than the sender {quoted(file.sender)}")
    for abbr in file.sites:
        if abbr not in (file.sender, file.receiver):
            raise InputError(where, f"sites.{abbr}", "expected only sites that are sender or receiver")


def _check_names(file: FileTable, where: str) -> None:
    """Refuse names that are not one, or name two things: they become a part of keys and labels."""
    for abbr, site in file.sites.items():
        if not site.interfaces:
            raise InputError(where, f"sites.{abbr}.interfaces", "expected at least one interface, found none")
    lists = {
        (f"sites.{abbr}.interfaces", "abbr", "a unique abbreviation"): [row.abbr for row in site.interfaces]
        for abbr, site in file.sites.items()
    }
    lists["core.shared", "name", "a unique name"] = [row.name for row in file.core.shared]
    lists["core.segments", "path", "one segment per pair"] = [row.path for row in file.core.segments]
    for (key, name, expected), found in lists.items():
        for number, text in enumerate(found):
            if name != "path":
                check_abbr(text, where, f"{key}[{number}].{name}")
            if text in found[:number]:
                raise InputError(
                    where, f"{key}[{number}].{name}", f"expected {expected}, found {quoted(text)} twice"
                )
