"""Autonomous systems and places of addresses, from a CSV file of the user: no such file comes with mptune.

    prefix,asn,name,site,lat,lon
    192.0.2.0/24,64500,Example,Bergen,60.39,5.32

The header names the columns, in any order. `prefix` is needed, and in each row `asn` or `site`; `lat` and
`lon` (degrees) belong to the site. The longest prefix that has an address decides.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

import msgspec

from mptune import files
from mptune._text import quoted
from mptune.errors import InputError, one_of
from mptune.probe.ends import Route
from mptune.routes.snapshots import addresses
from mptune.topology import check_name, coordinate

_COLUMNS = ("prefix", "asn", "name", "site", "lat", "lon")
#: Largest number of an autonomous system (RFC 6793).
_MOST_ASN = 2**32 - 1
#: Rows of a file beyond this are no file that somebody wrote for a few routes.
_MOST = 1_000_000
#: An autonomous system that is not known.
UNKNOWN = "?"


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Owner and place of a prefix.

    Attributes
    ----------
    asn : number of the autonomous system.
    name : of the system.
    site : where the prefix is; `lat` and `lon` are its degrees.
    """

    prefix: str
    asn: int | None = None
    name: str = ""
    site: str = ""
    lat: float | None = None
    lon: float | None = None

    @property
    def words(self) -> str:
        """The system with its name."""
        number = UNKNOWN if self.asn is None else f"AS{self.asn}"
        return f"{number} {self.name}" if self.name else number


class Networks:
    """Networks by their prefixes."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._by_length: dict[tuple[int, int], dict[int, Network]] = {}
        for network in networks:
            prefix = ip_network(network.prefix)
            of_length = self._by_length.setdefault((prefix.version, prefix.prefixlen), {})
            of_length[int(prefix.network_address)] = network
        self._lengths = sorted(self._by_length, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._by_length)

    def of(self, address: str) -> Network | None:
        """Network with the longest prefix that has an address; None if there is none, or it is no address."""
        try:
            ip = ip_address(address)
        except ValueError:
            return None
        for version, length in self._lengths:
            if version == ip.version:
                rest = ip.max_prefixlen - length
                network = self._by_length[version, length].get(int(ip) >> rest << rest)
                if network is not None:
                    return network
        return None

    def systems(self, route: Route) -> list[str]:
        """Autonomous systems that a route crosses, each once in a row, with `?` for those not known.

        Routers that do not answer are passed over.
        """
        found: list[str] = []
        for hop in addresses(route):
            if hop.address is not None:
                network = self.of(hop.address)
                words = UNKNOWN if network is None else network.words
                if not found or found[-1] != words:
                    found.append(words)
        return found


def read_networks(path: Path) -> Networks:
    """Read such a file.

    Raises
    ------
    InputError : naming the line and what was expected there.
    """
    try:
        text = files.read_text(path, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(str(path), "", f"expected a CSV file: {files.reason(error)}") from None
    return Networks(list(_read(text, str(path))))


def _read(text: str, where: str) -> Iterator[Network]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    seen: dict[IPv4Network | IPv6Network, int] = {}
    try:
        for cells in lines:
            number = lines.line_num
            if not any(map(str.strip, cells)):
                continue
            if not header:
                header = _header([cell.strip().lower() for cell in cells], where, number)
                continue
            if len(cells) != len(header):
                raise _wrong(where, number, f"expected {len(header)} cells, found {len(cells)}")
            network = _row(dict(zip(header, map(str.strip, cells), strict=True)), where, number)
            prefix = ip_network(network.prefix)
            if prefix in seen:
                raise _wrong(
                    where, number, f"expected each prefix once, found {prefix} in line {seen[prefix]} too"
                )
            seen[prefix] = number
            if len(seen) > _MOST:
                raise _wrong(where, number, f"expected at most {_MOST} prefixes")
            yield network
    except csv.Error as error:
        raise _wrong(where, lines.line_num, f"expected CSV: {error}") from None
    if not header:
        raise InputError(where, "", "expected a header such as prefix,asn,name, found an empty file")


def _header(names: list[str], where: str, number: int) -> list[str]:
    for position, name in enumerate(names):
        if name not in _COLUMNS:
            raise _wrong(where, number, f"column {position + 1}: {one_of(_COLUMNS, name)}")
        if name in names[:position]:
            raise _wrong(where, number, f"expected each column once, found {name} twice")
    if "prefix" not in names:
        raise _wrong(where, number, f"expected a column prefix, found {', '.join(names)}")
    return names


def _row(cells: Mapping[str, str], where: str, number: int) -> Network:
    text = cells["prefix"]
    try:
        prefix = ip_network(text)
    except ValueError:
        expected = "expected a prefix such as 192.0.2.0/24, without bits behind its length"
        raise _wrong(where, number, f"prefix: {expected}, found {quoted(text)}") from None
    key = f"line {number}"
    for name in ("name", "site"):
        if cells.get(name):
            check_name(cells[name], where, f"{key}: {name}")
    lat, lon = (_degrees(cells.get(name, ""), name, where, key) for name in ("lat", "lon"))
    if (lat is None) != (lon is None):
        raise _wrong(where, number, "expected both of lat and lon or none, found one")
    asn = _asn(cells.get("asn", ""), where, number)
    if asn is None and not cells.get("site"):
        raise _wrong(where, number, "expected asn or site, found neither")
    if lat is not None and not cells.get("site"):
        raise _wrong(where, number, "expected a site beside lat and lon, found none")
    return Network(
        prefix=str(prefix), asn=asn, name=cells.get("name", ""), site=cells.get("site", ""), lat=lat, lon=lon
    )


def _degrees(text: str, name: str, where: str, key: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(where, f"{key}: {name}", f"expected degrees, found {quoted(text)}") from None
    return coordinate(value, name, where, f"{key}: {name}")


def _asn(text: str, where: str, number: int) -> int | None:
    digits = text.removeprefix("AS").removeprefix("as")
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit()) or int(digits[:11]) > _MOST_ASN or len(digits) > 10:
        expected = f"expected the number of an autonomous system, 0 to {_MOST_ASN}"
        raise _wrong(where, number, f"asn: {expected}, found {quoted(text)}")
    return int(digits)


def _wrong(where: str, number: int, expected: str) -> InputError:
    return InputError(where, f"line {number}", expected)
