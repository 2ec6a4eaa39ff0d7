"""Invariants of every topology, from a topology file, a run or a store.

Names and places end up in command lines, configuration files, playbooks, names of directories and on
terminals: what could be more than a name there is refused here, once. `_values` checks numbers as they are
written; here only those are refused that no file can have.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mptune._text import quoted
from mptune.errors import InputError
from mptune.topology._families import Pair, is_dual, pairs
from mptune.topology._hosts import check_device, check_distinct, check_ssh
from mptune.topology._model import Topology
from mptune.topology._names import NAME, PLACE, SENTENCE, check_abbr, check_name, check_text, coordinate
from mptune.topology._reverse import REVERSED
from mptune.topology._sites import Interface, Site
from mptune.units import LIMIT

#: Fields that hold sentences.
_SENTENCES = ("description",)


def from_document(raw: object, where: str, key: str) -> Topology:
    """A topology that mptune has written, as its JSON types.

    Parameters
    ----------
    where, key : the file, and the place in it, for messages.

    Raises
    ------
    InputError : it is no topology, or one that no topology file can be.
    """
    try:
        topology = msgspec.convert(raw, Topology)
    except msgspec.ValidationError as error:
        raise InputError(where, key, f"expected what this version writes: {error}") from None
    check(topology, where, f"{key}: ")
    return topology


def check(topology: Topology, where: str, place: str = "") -> None:
    """Refuse texts and names that could be more than that, and parts that do not fit together.

    Parameters
    ----------
    place : what stands in front of every key in messages.

    Raises
    ------
    InputError : naming the first key.
    """
    check_name(topology.name.removesuffix(REVERSED), where, f"{place}name")
    for site in (topology.sender, topology.receiver):
        _check_site(site, where, f"{place}sites.{site.abbr}")
    if topology.sender.abbr == topology.receiver.abbr:
        raise InputError(where, f"{place}receiver", f"expected a site other than {topology.sender.abbr}")
    _check_paths(topology, where, place)
    for key, value in _leaves(msgspec.to_builtins(topology), ()):
        sentence = bool(key) and (key[0] == "provenance" or key[-1] in _SENTENCES)
        _check_leaf(value, where, f"{place}{'.'.join(key)}", SENTENCE if sentence else PLACE)


def _leaves(thing: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value, with the names and numbers that lead to it; the names of tables are values, too."""
    if isinstance(thing, dict):
        for name, value in thing.items():
            yield key, name
            yield from _leaves(value, (*key, name))
    elif isinstance(thing, list | tuple):
        for number, value in enumerate(thing):
            yield from _leaves(value, (*key, str(number)))
    else:
        yield key, thing


def _check_leaf(value: object, where: str, key: str, most: int) -> None:
    if isinstance(value, str):
        check_text(value, where, key, most)
    elif isinstance(value, int) and not 0 <= value <= LIMIT:
        raise InputError(where, key, f"expected 0 to {LIMIT}, found {quoted(value)}")


def _check_site(site: Site, where: str, key: str) -> None:
    if not re.fullmatch(r"\w[\w.-]*", site.abbr) or len(site.abbr) > NAME:
        expected = f'expected letters, digits, ".", "_" and "-" only, at most {NAME}'
        raise InputError(where, key, f"{expected}, found {quoted(site.abbr)}")
    for name in ("name", "location"):
        _check_leaf(getattr(site, name), where, f"{key}.{name}", PLACE)
    for name in ("lat", "lon"):
        if (degrees := getattr(site, name)) is not None:
            coordinate(degrees, name, where, f"{key}.{name}")
    if (site.lat is None) != (site.lon is None):
        there, missing = ("lat", "lon") if site.lon is None else ("lon", "lat")
        raise InputError(where, f"{key}.{missing}", f"expected beside {there}, but missing")
    if site.ssh is not None:
        check_ssh(site.ssh, where, f"{key}.ssh")
    if not site.interfaces:
        raise InputError(where, f"{key}.interfaces", "expected at least one interface, found none")
    for interface in site.interfaces:
        check_abbr(interface.abbr, where, f"{key}.interfaces")
        _check_leaf(interface.isp, where, f"{key}.interfaces.{interface.abbr}.isp", PLACE)
        _check_addresses(interface, where, f"{key}.interfaces.{interface.abbr}")
        if interface.device is not None:
            check_device(interface.device, where, f"{key}.interfaces.{interface.abbr}.device")
    abbrs = [interface.abbr for interface in site.interfaces]
    if twice := [abbr for abbr in abbrs if abbrs.count(abbr) > 1]:
        expected = f"expected a unique abbreviation, found {quoted(twice[0])} twice"
        raise InputError(where, f"{key}.interfaces", expected)
    check_distinct(site.interfaces, where, f"{key}.interfaces")


def _check_addresses(interface: Interface, where: str, key: str) -> None:
    for name, version in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
        text = getattr(interface, name)
        try:
            version(0 if text is None else text)
        except ValueError:
            raise InputError(where, f"{key}.{name}", f"expected an address, found {quoted(text)}") from None


def _check_paths(topology: Topology, where: str, place: str) -> None:
    """Every pair of interfaces once, or once in each family, in their order."""
    both = is_dual(topology.paths)
    expected_pairs = list(pairs(topology.sender, topology.receiver, both=both))
    found = [
        Pair(path.local_index, path.remote_index, path.local, path.remote, path.family)
        for path in topology.paths
    ]
    labels = [pair.label for pair in expected_pairs]
    if found != expected_pairs or [path.label for path in topology.paths] != labels:
        expected = "expected every pair of interfaces of the two sites once, in their order"
        raise InputError(where, f"{place}paths", expected)
    for path in topology.paths:
        names = [segment.name for segment in path.shared]
        for segment in path.shared:
            check_abbr(segment.name, where, f"{place}core.shared")
            if names.count(segment.name) > 1 or topology.shared[segment.name] != segment:
                expected = f"expected one segment of each name, found two of {segment.name}"
                raise InputError(where, f"{place}core.shared", expected)
    if topology.initial_path not in labels:
        expected = f"expected a path ({', '.join(labels)}), found {quoted(topology.initial_path)}"
        raise InputError(where, f"{place}initial_path", expected)
