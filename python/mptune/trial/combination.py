"""The combination: everything of a configuration but its buffer; each has one response curve."""

from typing import NamedTuple

from mptune._text import on_subflows, plain_tcp
from mptune.trial.kept import PLAIN_TCP


class Combination(NamedTuple):
    """A path manager with a congestion control: one response curve.

    Plain TCP is a combination too (`plain_tcp`), with a word for its path manager that no path manager has:
    who forgets it gets an unknown path manager, and not MPTCP with the default one.

    Attributes
    ----------
    subflows : labels of the paths that carry data, where they are chosen and not left to the path manager;
        of plain TCP the only one.
    initial_path : label of the path of the first handshake, where it is chosen; empty leaves it to the
        topology or the path manager.
    """

    pm: str
    cc: str
    subflows: tuple[str, ...] = ()
    initial_path: str = ""

    @classmethod
    def plain_tcp(cls, path: str, cc: str) -> "Combination":
        """Plain TCP on the path with this label."""
        return cls(PLAIN_TCP, cc, (path,))

    @property
    def is_tcp(self) -> bool:
        """True if it is plain TCP, without MPTCP."""
        return self.pm == PLAIN_TCP

    @property
    def manager(self) -> str:
        """The path manager with its subflows and initial path, or plain TCP with its path, for people."""
        if self.is_tcp:
            return plain_tcp(*self.subflows)
        named = on_subflows(self.pm, self.subflows)
        return f"{named} from {self.initial_path}" if self.initial_path else named
