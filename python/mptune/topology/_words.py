"""Values of links for people: rounded, with their units."""

from mptune import units

#: Significant digits in descriptions.
_DIGITS = 4


def rate_in_words(bps: int) -> str:
    """A rate for people."""
    return units.format_rate(bps, _DIGITS)


def time_in_words(ns: int) -> str:
    """A time for people."""
    return units.format_time(ns, _DIGITS)


def size_in_words(size: int) -> str:
    """A size, bytes, for people."""
    return units.format_size(size, _DIGITS)


def share_in_words(ppb: int) -> str:
    """A share, parts per billion, for people."""
    return units.format_fraction(ppb, _DIGITS)
