"""A transfer, measured to its last byte in order."""

from typing import Any, ClassVar, Self

from mptune import units
from mptune.trial.metrics import COMPLETION, THROUGHPUT
from mptune.trial.workloads._base import DEADLINE_NS, BaseWorkload, Written, check_sizes, size_text
from mptune.trial.workloads._criteria import Criteria


class Transfer(BaseWorkload, frozen=True, kw_only=True, tag="transfer"):
    """A transfer, measured to its last byte in order.

    Attributes
    ----------
    bytes : payload.
    deadline_ns : it is given up after this long, and is then reported as failed.
    """

    judged_by: ClassVar[Criteria] = Criteria((COMPLETION, THROUGHPUT))
    completes: ClassVar[bool] = True

    bytes: int
    deadline_ns: int = DEADLINE_NS

    @property
    def size(self) -> int:
        """Its payload."""
        return self.bytes

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.deadline_ns

    @property
    def settings(self) -> dict[str, Any]:
        """By the names that they had before there were workloads."""
        return {"transfer_bytes": self.bytes, "deadline_ns": self.deadline_ns}

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return f"transfers of {units.format_size(self.bytes)}"


class Sized(Written, frozen=True, kw_only=True, tag="transfer"):
    """A transfer in a mix."""

    form: ClassVar[str] = "transfer:SIZE"

    bytes: int

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means."""
        if rest is None or ":" not in text:
            raise cls.wrong(text)
        return cls(bytes=units.parse_size(rest))

    @property
    def text(self) -> str:
        """The text that means it."""
        return f"transfer:{size_text(self.bytes)}"

    def check(self) -> None:
        """Refuse values that no trial can have."""
        check_sizes({"a transfer": self.bytes})

    def lasting(self, duration_ns: int) -> Transfer:
        """The workload of a trial."""
        return Transfer(bytes=self.bytes)
