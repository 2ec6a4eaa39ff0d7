"""mahimahi's packet delivery traces (Netravali et al., USENIX ATC 2015).

A line is a time in ms at which 1500 bytes can leave. The times do not decrease; the last one is the period
after which the trace repeats. What mahimahi refuses (`src/frontend/link_queue.cc`) is refused here too: no
line, an empty line, a period of 0. The core plays the opportunities themselves, so that this format has no
entries.
"""

from mptune._text import quoted

NAME = "mahimahi"
_MAX_MS = 2**32 - 1
_MAX_DIGITS = len(str(_MAX_MS))
_BIT_MS_PER_OPPORTUNITY = 1500 * 8 * 1000


def mean_bps(times_ms: tuple[int, ...]) -> int:
    """Long-run mean rate of a fully used trace, bit/s, rounded down."""
    return len(times_ms) * _BIT_MS_PER_OPPORTUNITY // times_ms[-1]


def opportunities(name: str, text: str, others: str) -> tuple[int, ...]:
    """The times of a trace, ms.

    Parameters
    ----------
    name : of the file, for messages.
    others : the other formats, for a file that is in none.

    Raises
    ------
    ValueError : anything that mahimahi refuses.
    """
    lines = text.splitlines()
    if not lines:
        raise ValueError(f"expected at least one time in {name}, found an empty file")
    if not lines[0].isascii() or "," in lines[0] or "{" in lines[0]:
        expected = f"expected whole numbers of milliseconds, one per line, in {name}, or {others}"
        raise ValueError(f"{expected}, found {quoted(lines[0])} in line 1")
    times: list[int] = []
    before = 0
    for number, line in enumerate(lines, start=1):
        plain = line.isascii() and line.isdigit() and len(line) <= _MAX_DIGITS
        if not plain or (time := int(line)) > _MAX_MS:
            expected = f"expected a whole number of milliseconds below 2^32 in line {number} of {name}"
            raise ValueError(f"{expected}, found {quoted(line[:20])}")
        if time < before:
            expected = f"expected times that do not decrease in {name}"
            raise ValueError(f"{expected}, found {time} after {before} in line {number}")
        times.append(time)
        before = time
    if before == 0:
        raise ValueError(f"expected a last time above 0 in {name}: it is the period")
    return tuple(times)
