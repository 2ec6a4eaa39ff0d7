"""A sender that always has more data."""

from typing import Any, ClassVar, Self

from mptune.trial.metrics import NEARLY_ALWAYS, ROUND_TRIPS, THROUGHPUT
from mptune.trial.workloads._base import BaseWorkload, Written
from mptune.trial.workloads._criteria import Criteria


class Bulk(BaseWorkload, frozen=True, kw_only=True, tag="bulk"):
    """A sender that always has more data.

    Attributes
    ----------
    duration_ns : how long it sends, from the first SYN.
    ends_early : the trial ends as soon as its throughput is known well enough, at the earliest after 4 s
        (`crates/mptune-core/src/early_end.rs`); not together with a script.
    """

    judged_by: ClassVar[Criteria] = Criteria((THROUGHPUT,), (NEARLY_ALWAYS, ROUND_TRIPS))

    duration_ns: int
    ends_early: bool = False

    @property
    def lasts_ns(self) -> int:
        """The time for which it sends."""
        return self.duration_ns

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.duration_ns

    @property
    def settings(self) -> dict[str, Any]:
        """By the names that they had before there were workloads."""
        return {"duration_ns": self.duration_ns, "ends_early": self.ends_early}

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return "a saturated sender"

    def on(self, connections: int) -> str:
        """The workload on so many connections, for people."""
        return self.phrase if connections == 1 else f"{connections} connections with saturated senders"


class Saturating(Written, frozen=True, kw_only=True, tag="bulk"):
    """A saturated sender, without an end."""

    form: ClassVar[str] = "bulk"
    help: ClassVar[str] = "bulk: as much as the connection takes, as without this option."
    objectives_help: ClassVar[str] = (
        "throughput, throughput:p5, which 95 % of the seconds reach, or rpm, round trips per minute under "
        "load (bulk)"
    )

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        if rest is not None:
            raise cls.wrong(text)
        return cls()

    @property
    def text(self) -> str:
        """The text that means it."""
        return self.form

    def lasting(self, duration_ns: int) -> Bulk:
        """The workload of a trial."""
        return Bulk(duration_ns=duration_ns)
