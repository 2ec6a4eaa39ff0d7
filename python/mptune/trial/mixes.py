"""Many connections: of one workload, or of several at once, each on connections of its own.

They are between the same two sites: they share paths and queues, and path manager, congestion control and
buffers of the host apply to each.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import ClassVar, Self

import msgspec

from mptune import units
from mptune.errors import one_of
from mptune.trial.workloads import (
    WRITTEN_IN_A_MIX,
    AskedSingle,
    BaseWorkload,
    Bulk,
    Programs,
    Single,
    Timed,
    Written,
    check_within,
    kind_and_rest,
)

#: Most connections of a trial (`crates/mptune-core/src/trial/flows.rs`).
MOST_CONNECTIONS = 1_000

#: Separators of a mix's parts as it is written, and of their numbers of connections.
_AND, _TIMES = "+", "*"

#: Connections begin within this time, nanoseconds, and within a tenth of what they last.
_SPREAD_NS = 1_000_000_000


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, and the number of connections that have it."""

    workload: Single
    connections: int = 1

    @property
    def word(self) -> str:
        """Its kind, for figures."""
        return self.workload.kind

    @property
    def phrase(self) -> str:
        """The part for people."""
        return self.workload.on(self.connections)


class Mix(BaseWorkload, frozen=True, kw_only=True, tag="mix"):
    """Workloads at the same time; the first is the one that a trial is judged by.

    Attributes
    ----------
    parts : at least one.
    """

    parts: tuple[Part, ...]

    @property
    def size(self) -> int | None:
        """Payload bytes of each connection, where all have the same workload; None otherwise."""
        return self.parts[0].workload.size if len(self.parts) == 1 else None

    @property
    def ways(self) -> int:
        """Directions in which those of this size send as much."""
        return max(part.workload.ways for part in self.parts)

    @property
    def pause_ns(self) -> int:
        """Longest time for which the programs of any connection send nothing."""
        return max(part.workload.pause_ns for part in self.parts)

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial: connections begin up to a second late."""
        return max(part.workload.limit_ns for part in self.parts) + self.spread_ns

    @property
    def duration_ns(self) -> int:
        """Time for which it sends, if it has one."""
        return max(self._durations, default=self.limit_ns)

    @property
    def _durations(self) -> list[int]:
        """Those of the parts that have one."""
        durations = [part.workload.lasts_ns for part in self.parts]
        return [lasts_ns for lasts_ns in durations if lasts_ns is not None]

    @property
    def waiting_bytes(self) -> int | None:
        """Bytes that can wait to be sent on a connection; None if one always has more."""
        found = [part.workload.waiting_bytes for part in self.parts]
        known = [waiting for waiting in found if waiting is not None]
        return max(known) if len(known) == len(found) else None

    @property
    def connections(self) -> int:
        """All of them."""
        return sum(part.connections for part in self.parts)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return " beside ".join(part.phrase for part in self.parts)

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many messages, responses or pages of the first part, for people."""
        return self.parts[0].workload.arrived(number, self.parts[0].connections)

    @property
    def spread_ns(self) -> int:
        """The time within which connections begin."""
        return min(_SPREAD_NS, min(self._durations, default=10 * _SPREAD_NS) // 10)

    def starts_ns(self, seed: int) -> list[list[int]]:
        """Time of the first SYN of each connection, by part; 0 for the first of all.

        They are drawn, uniformly: connections that begin together lose packets together and send their
        messages together, which is an artefact of the experiment.
        """
        drawn = [
            int.from_bytes(blake2b(f"{seed} {number}".encode(), digest_size=8).digest()) % self.spread_ns
            if number
            else 0
            for number in range(self.connections)
        ]
        starts = []
        for part in self.parts:
            starts.append(drawn[: part.connections])
            del drawn[: part.connections]
        return starts


#: Workloads that a user describes, and that have an objective.
Described = Bulk | Timed | Mix | Programs
#: Whatever a trial can send.
Workload = Single | Mix | Programs


def judged(workload: Workload) -> Single | Programs:
    """The workload that a trial is judged by: the first of a mix."""
    return workload.parts[0].workload if isinstance(workload, Mix) else workload


def size_of(workload: Workload) -> int | None:
    """Payload bytes of a connection; None where they are not known beforehand."""
    return workload.size


def connections_of(workload: Workload) -> int:
    """Number of connections that a trial is judged by: those of the first workload of a mix."""
    return workload.parts[0].connections if isinstance(workload, Mix) else 1


class AskedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a mix without an end."""

    workload: AskedSingle
    connections: int = 1

    @classmethod
    def read(cls, text: str) -> Self:
        """A part such as "20*messages:200B/100ms".

        Raises
        ------
        ValueError : it is none.
        """
        number, times, one = text.partition(_TIMES)
        if not times:
            number, one = "1", text
        kind, rest = kind_and_rest(one)
        if kind not in WRITTEN_IN_A_MIX:
            raise ValueError(one_of(WRITTEN_IN_A_MIX, kind))
        workload = WRITTEN_IN_A_MIX[kind].read(one, rest)
        return cls(workload=workload, connections=units.parse_count(number))

    @property
    def text(self) -> str:
        """The text that means it."""
        times = f"{self.connections}{_TIMES}" if self.connections != 1 else ""
        return f"{times}{self.workload.text}"


class Several(Written, frozen=True, kw_only=True, tag="mix"):
    """A mix without an end."""

    form: ClassVar[str] = "mix:WORKLOAD[+WORKLOAD...]"
    help: ClassVar[str] = (
        "mix:bulk+20*messages:200B/100ms: several at the same time, on connections of their own, here one "
        "that sends as fast as it can beside 20 with messages; what counts is the first, and transfer:SIZE "
        "can be in it too."
    )

    parts: tuple[AskedPart, ...]

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The mix that a text means."""
        if rest is None or ":" not in text:
            raise cls.wrong(text)
        return cls(parts=tuple(map(AskedPart.read, rest.split(_AND))))

    @property
    def text(self) -> str:
        """The text that means it."""
        return f"mix:{_AND.join(part.text for part in self.parts)}"

    @property
    def connections(self) -> int:
        """All of them."""
        return sum(part.connections for part in self.parts)

    def check(self) -> None:
        """Refuse values that no trial can have."""
        for part in self.parts:
            check_within("connections", part.connections, MOST_CONNECTIONS)
            part.workload.check()
        check_within("connections", self.connections, MOST_CONNECTIONS)

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        if self.connections > MOST_CONNECTIONS:
            yield f"expected at most {MOST_CONNECTIONS} connections, found {self.connections}"
        for part in self.parts:
            yield from part.workload.impossible(duration_ns)

    def lasting(self, duration_ns: int) -> Mix:
        """The workload of a trial."""
        return Mix(
            parts=tuple(
                Part(workload=part.workload.lasting(duration_ns), connections=part.connections)
                for part in self.parts
            )
        )


def on_each(asked: AskedSingle | Several, connections: int) -> Several:
    """A workload (or a mix) on so many connections."""
    parts = asked.parts if isinstance(asked, Several) else (AskedPart(workload=asked),)
    return Several(
        parts=tuple(
            msgspec.structs.replace(part, connections=connections * part.connections) for part in parts
        )
    )


def fairness(shares: list[float]) -> float | None:
    """Jain's index of shares (RFC 5166, section 2.3), 1 where all are equal; None without any.

    Jain, Chiu, Hawe: A quantitative measure of fairness and discrimination for resource allocation (1984).
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None
