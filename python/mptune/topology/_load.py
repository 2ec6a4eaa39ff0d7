"""From a topology file to a `Topology`: every table checked, every value read, every default noted.

Errors are `InputError`: one line with file, key and what was expected. The layout of the file is in
`_schema`, single values are read by `_values`; the paths by `_segments`.
"""

import ipaddress
import re
from pathlib import Path as File

import msgspec

from mptune.errors import InputError
from mptune.topology import _defaults as defaults
from mptune.topology._model import Interface, Path, Site, Topology
from mptune.topology._schema import FileTable, InterfaceTable, SiteTable, convert
from mptune.topology._segments import read_paths
from mptune.topology._shipped import find
from mptune.topology._values import LOSS, QUEUE, RATE, TIME, Kind, Ledger, choice


def load(path: str | File) -> Topology:
    """Read a topology file.

    Parameters
    ----------
    path : the file, or the bare name of a shipped scenario ("UNIS-HiN").

    Raises
    ------
    InputError : no such file, not TOML, or anything in it that is not as expected.
    """
    where = str(path)
    try:
        file = find(path)
        where = str(file)
        raw = msgspec.toml.decode(file.read_bytes())
    except OSError as error:
        raise InputError(where, "", f"expected a readable file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(where, "", "expected TOML, which is UTF-8 text") from None
    except msgspec.DecodeError as error:
        raise InputError(where, "", f"expected TOML: {error}") from None
    return from_tables(raw, where, file.name)


def from_tables(raw: object, where: str, file_name: str) -> Topology:
    """Build a topology from what a file contains.

    Parameters
    ----------
    raw : the file's tables as dicts, lists and text.
    where : what messages call the file.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    table = convert(raw, FileTable, where, "")
    ledger = Ledger(where)
    source = table.source or defaults.NO_SOURCE
    _check_sites(table, where)
    sender, receiver = (_site(table, abbr, ledger, source) for abbr in (table.sender, table.receiver))
    paths = read_paths(sender, receiver, table.core, ledger, source)
    return Topology(
        name=table.name,
        description=table.description,
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=_initial_path(table, paths, ledger, source),
        lsrr_honoured=_lsrr(table, ledger, source),
        provenance=ledger.provenance,
        file=file_name,
    )


def _check_sites(table: FileTable, where: str) -> None:
    known = ", ".join(table.sites) or "none"
    for key, abbr in (("sender", table.sender), ("receiver", table.receiver)):
        if abbr not in table.sites:
            raise InputError(where, key, f"expected one of the file's sites ({known}), found {abbr!r}")
    if table.sender == table.receiver:
        raise InputError(where, "receiver", f"expected another site than the sender {table.sender!r}")
    for abbr in table.sites:
        if abbr not in (table.sender, table.receiver):
            raise InputError(where, f"sites.{abbr}", "expected only sites that are sender or receiver")


def _site(file: FileTable, abbr: str, ledger: Ledger, source: str) -> Site:
    where, key = ledger.where, f"sites.{abbr}"
    table = convert(file.sites[abbr], SiteTable, where, key)
    if not table.interfaces:
        raise InputError(where, f"{key}.interfaces", "expected at least one interface, found none")
    interfaces: list[Interface] = []
    for number, raw in enumerate(table.interfaces):
        row = convert(raw, InterfaceTable, where, f"{key}.interfaces[{number}]")
        if not re.fullmatch(r"[A-Za-z0-9]+", row.abbr):
            expected = f"expected letters and digits only, found {row.abbr!r}"
            raise InputError(where, f"{key}.interfaces[{number}].abbr", expected)
        if row.abbr in (other.abbr for other in interfaces):
            expected = f"expected an abbreviation of its own, found {row.abbr!r} twice"
            raise InputError(where, f"{key}.interfaces[{number}].abbr", expected)
        _check_addresses(row, where, f"{key}.interfaces.{row.abbr}")
        interfaces.append(_interface(row, f"{key}.interfaces.{row.abbr}", ledger, table.source or source))
    return Site(abbr=abbr, name=table.name, location=table.location, interfaces=tuple(interfaces))


def _check_addresses(row: InterfaceTable, where: str, key: str) -> None:
    for name, version in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
        text = getattr(row, name)
        try:
            version(text or 0)
        except ValueError:
            raise InputError(where, f"{key}.{name}", f"expected an address, found {text!r}") from None


def _interface(row: InterfaceTable, key: str, ledger: Ledger, site_source: str) -> Interface:
    source = row.source or site_source
    up_bps = ledger.read(f"{key}.up", row.up, RATE, source)
    down_bps = ledger.read(f"{key}.down", row.down, RATE, source)

    def given(name: str, kind: Kind[int], assumption: defaults.Assumption) -> int:
        raw = getattr(row, name)
        if raw is None:
            return ledger.assume(f"{key}.{name}", assumption.value, kind.show, assumption.reason)
        return ledger.read(f"{key}.{name}", raw, kind, source)

    if row.queue is None:
        queue_up = given("queue_up", QUEUE, defaults.access_queue(up_bps, row.adsl))
        queue_down = given("queue_down", QUEUE, defaults.access_queue(down_bps, row.adsl))
    elif row.queue_up is None and row.queue_down is None:
        queue_up = queue_down = ledger.read(f"{key}.queue", row.queue, QUEUE, source)
    else:
        raise InputError(ledger.where, f"{key}.queue", "expected either queue or queue_up and queue_down")
    return Interface(
        isp=row.isp,
        abbr=row.abbr,
        up_bps=up_bps,
        down_bps=down_bps,
        delay_ns=given("delay", TIME, defaults.access_delay(row.adsl)),
        queue_up_bytes=queue_up,
        queue_down_bytes=queue_down,
        loss_ppb=given("loss", LOSS, defaults.access_loss(row.adsl)),
        adsl=row.adsl,
        ipv4=row.ipv4,
        ipv6=row.ipv6,
    )


def _initial_path(file: FileTable, paths: tuple[Path, ...], ledger: Ledger, source: str) -> str:
    labels = {path.label: path.label for path in paths}
    if file.initial_path is None:
        return ledger.assume("initial_path", paths[0].label, str, defaults.FIRST_PATH)
    return ledger.read("initial_path", file.initial_path, choice(labels), source)


def _lsrr(file: FileTable, ledger: Ledger, source: str) -> bool:
    kind = choice({"honoured": True, "ignored": False})
    if file.lsrr is None:
        return ledger.assume("lsrr", False, kind.show, defaults.NO_LSRR)
    return ledger.read("lsrr", file.lsrr, kind, source)
