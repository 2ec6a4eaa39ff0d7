"""Values of an answer's document: means with intervals, and what the answer is shown beside."""

import msgspec

from mptune._text import digits, on_subflows, plain_tcp
from mptune.trial import PLAIN_TCP


class Interval(msgspec.Struct, frozen=True):
    """A mean and its 95 % interval; None where there is none."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0


class Baseline(Interval, frozen=True, kw_only=True):
    """A configuration that was measured beside the answer, and what it gave, Mbit/s.

    Attributes
    ----------
    receive_mib : limit of the receiver's buffer where it is not the same; None where it is.
    subflows : those that carry data, where they are chosen and not left to the path manager.
    """

    pm: str
    cc: str
    buffer_mib: float
    receive_mib: float | None = None
    subflows: tuple[str, ...] = ()

    @property
    def manager(self) -> str:
        """The path manager with its subflows."""
        return on_subflows(self.pm, self.subflows)


class TcpBaseline(Interval, frozen=True, kw_only=True):
    """Plain TCP on a path, and what it gave, Mbit/s."""

    path: str
    cc: str
    buffer_mib: float

    @property
    def manager(self) -> str:
        """Path manager, or its substitute for plain TCP, with the path."""
        return plain_tcp(self.path)


class NearlyAlways(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput that 95 % of the fresh runs reached in a network that varies, Mbit/s; a failed run gave 0.

    Attributes
    ----------
    runs, each_s : of each of the two configurations, and how long one lasted.
    """

    runs: int
    each_s: float
    recommended: float
    default: float

    @property
    def words(self) -> str:
        """A sentence."""
        return (
            f"In 95 % of {self.runs} fresh runs of {self.each_s:g} s it gave at least "
            f"{digits(self.recommended)} Mbit/s, the papers' default {digits(self.default)}."
        )


class Gain(Interval, frozen=True, kw_only=True):
    """A gain over something, Mbit/s; `share` is its mean as a share of the mean of that."""

    share: float | None = None


class Beside(Baseline, frozen=True, kw_only=True):
    """A baseline that is no part of the search, and what it gave in the unit of the answer.

    Attributes
    ----------
    buffer_mib, receive_mib : limits up to which the buffers of sender and receiver grow.
    gain : of the answer over it, positive where the answer is better.
    queueing : delay under load, ms.
    """

    gain: Gain = Gain()
    queueing: Interval = Interval()


class Baselines(msgspec.Struct, frozen=True, kw_only=True):
    """Baselines of an answer (`mptune.optimisation.baselines`).

    Attributes
    ----------
    whose : settings, in words.
    queueing : delay under load of the confirmed configurations by their names, ms.
    carried : of each path with the recommendation, Mbit/s.
    """

    whose: str = ""
    now: Beside | None = None
    by_hand: Beside | None = None
    queueing: dict[str, Interval] = {}
    carried: dict[str, float] = {}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration of an answer by an objective.

    Attributes
    ----------
    subflows : those that carried data; of the default empty.
    standby : silent ones, first to take over first.
    sysctls : settings of both hosts that are not the kernel's usual ones, by name.
    """

    protocol: str = "mptcp"
    pm: str
    cc: str
    buffer_bytes: int
    initial_path: str | None = None
    subflows: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    sysctls: dict[str, str] = {}

    @property
    def manager(self) -> str:
        """The path manager, or plain TCP with its path."""
        return plain_tcp(*self.subflows) if self.protocol == PLAIN_TCP else self.pm


class FrontPoint(Setting, frozen=True, kw_only=True):
    """A configuration that no other beats in both objectives, as in the search, with its values."""

    value: Interval
    second: Interval
    recommended: bool = False

    @property
    def beginning(self) -> str:
        """The path manager, with its subflows where they were chosen."""
        chosen = self.protocol != PLAIN_TCP and self.subflows
        return on_subflows(self.pm, self.subflows) if chosen else self.manager


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """Front of two objectives: `points` by `objective`, the best first, each with its second one."""

    second: str
    second_unit: str
    points: tuple[FrontPoint, ...]
