"""The effects of one link, read from wherever the enclosing table says they are.

An interface finds a value under the link's own key or under the key for both links, a core segment in its own
table or in `[core]`; each passes a function that finds it. Traces and schedules are read earlier, by the
modules of those names. The core documents what exactly each effect does to packets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mptune.errors import InputError
from mptune.topology import _effect_defaults as defaults
from mptune.topology._defaults import access_queue
from mptune.topology._disciplines import Ahead, discipline_name, is_codel, read_discipline
from mptune.topology._effects import Aqm, GilbertElliott, Reorder, TokenBucket
from mptune.topology._groups import Group
from mptune.topology._kinds import CHANCE, LOSS, QUEUE, RATE, SOME_CHANCE, SOME_TIME
from mptune.topology._schema import BucketTable, GilbertElliottTable, ReorderTable, SourcedTable
from mptune.topology._sites import UNKNOWN
from mptune.topology._values import Ledger, Origin


class Found(NamedTuple):
    """A value as written: where, what, its origin, and where its own defaults are recorded."""

    key: str
    raw: object
    origin: Origin
    default_key: str

    def group(self, ledger: Ledger, table: type[SourcedTable]) -> Group:
        """Reader of it as a table of values."""
        return Group(ledger, self.key, self.raw, table, self.origin, self.default_key)


#: Where a value of the link is, by name; None if it is not given.
Find = Callable[[str], Found | None]


class EffectsReader:
    """Reads what the file gives of one link's effects.

    Raises
    ------
    InputError : (every method) anything that is not as expected.
    """

    def __init__(self, ledger: Ledger, find: Find) -> None:
        self._ledger, self._find = ledger, find

    def queue(self, rate_bps: int | None, default_key: str, *, adsl: bool) -> int:
        """Limit of its queue, bytes; the default depends on the discipline and the rate (None: not known)."""
        codel = self._has_codel()
        if (found := self._find("queue")) is not None:
            return self._ledger.read(found.key, found.raw, QUEUE, found.origin)
        if rate_bps is None:
            return UNKNOWN
        default = defaults.CODEL_QUEUE if codel else access_queue(rate_bps, adsl)
        return self._ledger.assume(default_key, default.value, QUEUE.show, default.reason)

    def _has_codel(self) -> bool:
        found = self._find("discipline")
        return found is not None and is_codel(discipline_name(self._ledger.where, found.key, found.raw))

    def bucket(self) -> TokenBucket | None:
        """Its token bucket."""
        if (found := self._find("bucket")) is None:
            return None
        group = found.group(self._ledger, BucketTable)
        return TokenBucket(rate_bps=group.value("rate", RATE), burst_bytes=group.value("burst", QUEUE))

    def discipline(self, ahead: Ahead | None) -> Aqm | None:
        """Its queue discipline; `ahead` is None if the rate is not known."""
        if (found := self._find("discipline")) is None:
            return None
        if ahead is None:
            raise InputError(self._ledger.where, found.key, "expected a rate beside it, but missing")
        return read_discipline(self._ledger, found.key, found.raw, found.origin, found.default_key, ahead)

    def gilbert_elliott(self) -> GilbertElliott | None:
        """Bursts of losses."""
        if (found := self._find("gilbert_elliott")) is None:
            return None
        group = found.group(self._ledger, GilbertElliottTable)
        return GilbertElliott(
            enter_ppb=group.value("enter", CHANCE),
            # More than 0, or the bad state would never end.
            leave_ppb=group.value("leave", SOME_CHANCE),
            good_loss_ppb=group.given("good_loss", LOSS, defaults.GOOD_LOSS),
            bad_loss_ppb=group.given("bad_loss", CHANCE, defaults.BAD_LOSS),
        )

    def reorder(self) -> Reorder | None:
        """Late packets."""
        if (found := self._find("reorder")) is None:
            return None
        group = found.group(self._ledger, ReorderTable)
        probability = group.value("probability", CHANCE)
        return Reorder(probability_ppb=probability, delay_ns=group.value("delay", SOME_TIME))

    def duplicate(self) -> int:
        """Probability of a copy, ppb."""
        found = self._find("duplicate")
        return 0 if found is None else self._ledger.read(found.key, found.raw, CHANCE, found.origin)


def bounded(rate_bps: int | None, bucket: TokenBucket | None) -> int:
    """Rate of a link behind a token bucket, bit/s; one of the two must be given."""
    rates = [] if bucket is None else [bucket.rate_bps]
    return min(rates if rate_bps is None else [rate_bps, *rates])
