"""Numbers and names in sentences and tables, and how text that others wrote is shown.

Files and `--json` have all digits; this is for people. Text of files, hosts and programs is data: what is
shown of it cannot control a terminal (`visible`), and what an error quotes has an end (`quoted`).
"""

import re
import reprlib
from collections.abc import Sequence

#: Most characters of a value that an error quotes.
QUOTED = 60
#: Most characters of the name of a file that is made from another name, so that 255 bytes are enough for it
#: and what is added to it, whatever the letters.
FILE_NAME = 48

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = QUOTED


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text with everything that does not print as the escape that Python writes for it.

    That is what controls a terminal (ESC, C0 and C1, carriage returns), what changes the direction of
    letters, and what cannot be encoded. Nothing is lost.

    Parameters
    ----------
    lines : line feeds stay as they are; otherwise they become \n, too.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or (lines and letter == "\n") else repr(letter)[1:-1]
        for letter in text
    )


def escaped(text: str, quote: bool = True) -> str:
    """Return `visible` text for HTML: no markup, and no letter that changes the direction of others."""
    from html import escape  # 4 ms, which every command would wait for

    return escape(visible(text, lines=True), quote)


def in_one_line(text: str) -> str:
    """Return `visible` text, with a blank for line feeds and what is beside them."""
    return visible(re.sub(r" *\n[ \n]*", " ", text.strip("\n")))


def bounded(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the beginning and the end."""
    if len(text) <= most:
        return text
    end = (most - 3) // 3
    return f"{text[: most - 3 - end]}...{text[len(text) - end :]}"


def quoted(value: object) -> str:
    """Return what an error shows of a value that was found: on one line, of at most `QUOTED` characters."""
    try:
        text = repr(value) if isinstance(value, str) and len(value) <= QUOTED else _SHORT.repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a table of itself
        text = f"<{type(value).__name__}>"
    return bounded(visible(text), QUOTED)


def file_name(text: str, otherwise: str) -> str:
    """Return a name made from another one: letters, digits, "_", "-" and dots, no dot in front.

    It is the name of something inside a directory, and never leads out of it.

    Parameters
    ----------
    otherwise : the name if nothing is left.
    """
    return re.sub(r"[^\w.-]", "_", text[:FILE_NAME]).lstrip(".") or otherwise


def digits(value: float, count: int = 4, sign: str = "") -> str:
    """Return a number with this many significant digits, trailing zeros kept and no exponent.

    Parameters
    ----------
    sign : "+" to show the sign of positive numbers too.
    """
    rounded = float(f"{value:.{count - 1}e}")
    exponent = int(f"{rounded:e}".partition("e")[2])
    return f"{rounded:{sign}.{max(0, count - 1 - exponent)}f}"


def number_of(count: int, unit: str) -> str:
    """Return "1 path" or "2 paths"; `unit` is a singular."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def pace(per_s: float, unit: str) -> str:
    """Return a rate: "3.2 trials/s", or where it is below one a second "31 s a trial"; `unit` is a plural."""
    if per_s >= 1:
        return f"{per_s:.1f} {unit}/s"
    return f"{1 / per_s:.0f} s a {unit.removesuffix('s')}" if per_s > 0 else f"- {unit}/s"


def on_subflows(pm: str, subflows: Sequence[str] | None) -> str:
    """Return a path manager with the subflows that carry data, where they are chosen and not left to it."""
    return f"{pm} on {', '.join(subflows)}" if subflows else pm


def over(family: str) -> str:
    """Return what a sentence adds where packets are not IPv4: " over IPv6"; nothing if that is unknown."""
    if family == "both":
        return " over IPv4 and IPv6"
    return "" if family in ("", "ipv4") else f" over {family.replace('ip', 'IP')}"


def plain_tcp(path: str = "") -> str:
    """Return what stands in the place of a path manager where there is no MPTCP.

    Parameters
    ----------
    path : label of the only path; empty if it is unknown.
    """
    return f"plain TCP on {path}" if path else "plain TCP"
