"""Real hosts in a topology file: how to reach them, their devices, and their data limits.

Text that ends up in a command line or a system call is checked here; whether there is such a host or device
is for the testbed to find out.
"""

import math
from collections.abc import Sequence
from ipaddress import ip_address

from mptune._text import quoted
from mptune.errors import InputError
from mptune.topology._kinds import SOME_SIZE
from mptune.topology._sites import Interface

#: IFNAMSIZ of the kernel, without the closing zero; bytes.
_LONGEST_DEVICE = 15


def check_ssh(text: str, where: str, key: str) -> None:
    """Refuse what ssh would take for an option or for several words.

    Raises
    ------
    InputError : naming the key.
    """
    if not text or text.startswith("-") or not _is_one_word(text):
        expected = 'expected a host for ssh such as "user@host", without blanks or a leading "-"'
        raise InputError(where, key, f"{expected}, found {quoted(text)}")


def check_device(text: str, where: str, key: str) -> None:
    """Refuse what cannot be the name of a network device (dev_valid_name in net/core/dev.c).

    Raises
    ------
    InputError : naming the key.
    """
    if len(text.encode()) > _LONGEST_DEVICE:
        raise InputError(where, key, f"expected at most {_LONGEST_DEVICE} bytes, found {quoted(text)}")
    if text in ("", ".", "..") or "/" in text or ":" in text or not _is_one_word(text):
        expected = 'expected a network device such as "eth1", without blanks, "/" or ":"'
        raise InputError(where, key, f"{expected}, found {quoted(text)}")


def read_price(raw: object, where: str, key: str) -> float:
    """Price of 10^9 bytes: of a contract, so it has no origin.

    Raises
    ------
    InputError : not a number, or less than 0.
    """
    if raw is None:
        return 0.0
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw < math.inf:
        raise InputError(where, key, f"expected a number from 0 on, such as 2.5, found {quoted(raw)}")
    return float(raw)


def read_size(raw: object, where: str, key: str) -> int | None:
    """Bytes of a limit that somebody sets, so that it has no origin.

    Raises
    ------
    InputError : not a size, or 0.
    """
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise InputError(where, key, f"expected {SOME_SIZE.wanted}, found {quoted(raw)}")
    try:
        return SOME_SIZE.parse(raw)
    except ValueError as error:
        raise InputError(where, key, str(error)) from None


def check_distinct(interfaces: Sequence[Interface], where: str, key: str) -> None:
    """Refuse two interfaces of a site that name the same device and the same addresses.

    Raises
    ------
    InputError : naming the second.
    """
    seen: dict[tuple[object, ...], str] = {}
    for interface in interfaces:
        addresses = [None if text is None else ip_address(text) for text in (interface.ipv4, interface.ipv6)]
        place = (interface.device, *addresses)
        if any(part is not None for part in place) and (other := seen.get(place)) is not None:
            expected = "expected another device or other addresses than those of"
            raise InputError(where, f"{key}.{interface.abbr}", f"{expected} {other}, found the same")
        seen[place] = interface.abbr


def _is_one_word(text: str) -> bool:
    return text.isprintable() and not any(letter.isspace() for letter in text)
