"""Numbers and names in sentences and tables. Files and `--json` have all digits; this is for people."""

from collections.abc import Sequence


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
    return "" if family in ("", "ipv4") else f" over {family.replace('ip', 'IP')}"


def plain_tcp(path: str = "") -> str:
    """Return what stands in the place of a path manager where there is no MPTCP.

    Parameters
    ----------
    path : label of the only path; empty if it is unknown.
    """
    return f"plain TCP on {path}" if path else "plain TCP"
