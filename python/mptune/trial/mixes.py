"""Many connections: of one workload, or of several at once, each on connections of its own.

They are between the same two sites: they share paths and queues, and path manager, congestion control and
buffers of the host apply to each.
"""

from hashlib import blake2b

import msgspec

from mptune.trial.workloads import Asked, Bulk, Messages, Programs, Timed, Transfer, _Workload
from mptune.trial.workloads import Workload as One
from mptune.units import format_size

#: Most connections of a trial (`crates/mptune-core/src/trial/flows.rs`).
MOST_CONNECTIONS = 1_000

#: Connections begin within this time, nanoseconds, and within a tenth of what they last.
_SPREAD_NS = 1_000_000_000


#: What one connection can do.
Single = One


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
        sent = self.workload
        if isinstance(sent, Bulk):
            what = "a saturated sender" if self.connections == 1 else "saturated senders"
        elif isinstance(sent, Transfer):
            what = f"transfers of {format_size(sent.bytes)}"
        else:
            what = sent.phrase
        return what if self.connections == 1 else f"{self.connections} connections with {what}"


class Mix(_Workload, frozen=True, kw_only=True, tag="mix"):
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
    def pause_ns(self) -> int:
        """Longest time for which the programs of any connection send nothing."""
        return max(part.workload.pause_ns for part in self.parts)

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial: connections begin up to a second late."""
        return max(part.workload.limit_ns for part in self.parts) + self.spread_ns

    @property
    def duration_ns(self) -> int:
        """How long it sends, if it has a time."""
        times = [part.workload.duration_ns for part in self.parts if not isinstance(part.workload, Transfer)]
        return max(times, default=self.limit_ns)

    @property
    def waiting_bytes(self) -> int | None:
        """What can wait to be sent on a connection; None if one always has more."""
        parts = [part.workload for part in self.parts]
        if any(isinstance(sent, Bulk | Transfer) for sent in parts):
            return None
        return max(sent.waiting_bytes for sent in parts if not isinstance(sent, Bulk | Transfer))

    @property
    def connections(self) -> int:
        """All of them."""
        return sum(part.connections for part in self.parts)

    @property
    def phrase(self) -> str:
        """The workload for people."""
        return " beside ".join(part.phrase for part in self.parts)

    def arrived(self, number: int) -> str:
        """So many messages, responses or pages of the first part, for people."""
        first = self.parts[0].workload
        if isinstance(first, Bulk | Transfer):
            return self.parts[0].phrase
        if isinstance(first, Messages):
            due = first.count * self.parts[0].connections
            of_all = "" if number == due else f" of {due}"
            return f"{number}{of_all} messages of {format_size(first.bytes)}"
        return first.arrived(number)

    @property
    def spread_ns(self) -> int:
        """The time within which connections begin."""
        lasting = min(getattr(part.workload, "duration_ns", 10 * _SPREAD_NS) for part in self.parts)
        return min(_SPREAD_NS, lasting // 10)

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
Described = Timed | Mix | Programs
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


class Saturating(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="bulk"):
    """A saturated sender in a mix, without an end; as `Pattern`."""

    def lasting(self, duration_ns: int) -> Bulk:
        """The workload of a trial."""
        return Bulk(duration_ns=duration_ns)


class Sized(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="transfer"):
    """A transfer in a mix; as `Pattern`."""

    bytes: int

    def lasting(self, duration_ns: int) -> Transfer:
        """The workload of a trial."""
        return Transfer(bytes=self.bytes)


#: What is asked for of one connection, without the time that it lasts.
AskedSingle = Saturating | Sized | Asked


class AskedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a mix without an end."""

    workload: AskedSingle
    connections: int = 1


class Several(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="mix"):
    """A mix without an end, as `Pattern`."""

    parts: tuple[AskedPart, ...]

    def lasting(self, duration_ns: int) -> Mix:
        """The workload of a trial."""
        return Mix(
            parts=tuple(
                Part(workload=part.workload.lasting(duration_ns), connections=part.connections)
                for part in self.parts
            )
        )


def on_each(asked: AskedSingle | Several, connections: int) -> Several:
    """A workload (`Saturating`, `Pattern` and so on, or a mix) on so many connections."""
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
