"""Model of a topology file: two sites, the paths between them, and background traffic.

No TOML and no units here (see `_load`), and no simulation.
"""

from typing import TYPE_CHECKING, Any, Self

import msgspec

from mptune._text import escaped, quoted
from mptune.errors import InputError
from mptune.topology._families import BOTH, differs, dual, is_dual, moved, over_ipv6, relabelled
from mptune.topology._flows import Background
from mptune.topology._known import Known, known, possible, wanted
from mptune.topology._later import later_background, later_paths, later_site
from mptune.topology._mptcp import all_carry, begins, carrying, ruled_out
from mptune.topology._network import Link, describe, links, shared
from mptune.topology._reverse import (
    reverse_background,
    reverse_labels,
    reverse_missing,
    reverse_name,
    reverse_paths,
    reverse_provenance,
)
from mptune.topology._sites import Path, Provenance, SharedSegment, Site

if TYPE_CHECKING:
    import pandas as pd


class Topology(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a testbed needs to know about the network between two sites.

    Attributes
    ----------
    name, description : as the file has them.
    sender, receiver : the two sites with their interfaces; rates in bit/s, delays in ns, sizes in bytes.
    paths : all N x M pairs, local interface by local interface; `over` both families each pair once in each.
    initial_path : label of the first handshake's path unless a trial names another.
    lsrr_honoured : routers obey loose source routes (RFC 791), which the binder path manager needs.
    provenance : dotted key of every value -> where it comes from.
    file : name of the file it was read from, without folders.
    background : background traffic.
    missing : dotted key of every rate and RTT that is not known, which only real hosts may lack; the value
        itself is a placeholder.

    Examples
    --------
    >>> import mptune
    >>> mptune.load("UiT-HAW").frame()["path"].tolist()
    ['P-D', 'T-D']
    """

    name: str
    description: str
    sender: Site
    receiver: Site
    paths: tuple[Path, ...]
    initial_path: str
    lsrr_honoured: bool
    provenance: dict[str, Provenance]
    file: str
    background: tuple[Background, ...] = ()
    missing: tuple[str, ...] = ()

    def path(self, label: str, where: str) -> Path:
        """Path with this label; `where` (a file or option) is named in the error if there is none.

        Raises
        ------
        InputError : no such path; the message lists those that exist.
        """
        for path in self.paths:
            if path.label == label:
                return path
        known = ", ".join(path.label for path in self.paths)
        raise InputError(where, "", f"expected a path of {self.name} ({known}), found {quoted(label)}")

    def path_rows(self) -> list[dict[str, Any]]:
        """A row per path: labels, bit/s, ms, loss as a share, bytes; None is not known."""
        return [
            {
                "path": path.label,
                "local": path.local.isp,
                "remote": path.remote.isp,
                "rate_bps": known.rate_bps,
                "rtt_ms": None if known.base_rtt_ns is None else known.base_rtt_ns / 1e6,
                "loss": path.loss_ppb / 1e9,
                "queue_bytes": known.queue_bytes,
                "bdp_bytes": known.bdp_bytes,
            }
            for path in self.paths
            for known in [self.known(path)]
        ]

    def frame(self) -> "pd.DataFrame":
        """A row per path: path, local, remote, rate_bps, rtt_ms, loss (a share), queue_bytes, bdp_bytes.

        The rate is the bottleneck's, the RTT that with empty queues; NaN is not known.
        """
        import pandas as pd

        return pd.DataFrame(self.path_rows())

    def __repr__(self) -> str:
        """A short `repr` for consoles: all fields would fill pages."""
        ends = f"{self.sender.abbr} to {self.receiver.abbr}"
        return f"<{type(self).__name__} {self.name}: {ends}, {len(self.paths)} paths>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the paths, and the number of assumed values."""
        assumed = sum(bool(provenance.assumed) for provenance in self.provenance.values())
        ends = f"{self.sender.name} to {self.receiver.name}"
        table = self.frame().to_html(index=False, border=0)
        return (
            f"<p><b>{escaped(self.name)}</b>: {escaped(ends)}</p>{table}"
            f"<p>{assumed} of {len(self.provenance)} values are assumed.</p>"
        )

    def known(self, path: Path) -> Known:
        """Known properties of one of its paths."""
        return known(path, self.sender, self.receiver, self.missing)

    def check_known(self, user: str) -> None:
        """Refuse a network of which a rate or an RTT is not known.

        Parameters
        ----------
        user : what needs it, in words.

        Raises
        ------
        InputError : naming the first key.
        """
        for key in self.missing:
            raise InputError(
                self.file, key, f"expected {wanted(key)}, needed by {user}; `mptune probe` measures it"
            )

    def over(self, family: str) -> "Topology":
        """The network as a connection over a family of addresses, or over `BOTH`, has it.

        Over one family it is the topology itself, unless the file has another fate of MPTCP over IPv6. Over
        both, a pair of interfaces is a path in each family that both have: A-B over IPv4, A-B/6 over IPv6, on
        the same links.

        Raises
        ------
        InputError : no pair has one of the families, or there are more paths than the core supports.
        """
        if is_dual(self.paths) or not (family == BOTH or (family == "ipv6" and differs(self.paths))):
            return self
        known = _OVER.get((id(self), family))
        if known is None or known[0] is not self:
            if family == BOTH:
                paths = dual(self.sender, self.receiver, self.paths, self.file)
            else:
                paths = over_ipv6(self.paths)
            made = msgspec.structs.replace(
                self,
                paths=paths,
                initial_path=begins(paths, relabelled(self.initial_path, paths)).label,
                background=tuple(moved(flow, paths) for flow in self.background),
            )
            if len(_OVER) >= _MOST_MADE:
                _OVER.clear()
            known = _OVER[id(self), family] = self, made
        return known[1]

    def for_mptcp(self, initial_path: str | None = None) -> "Topology":
        """The network that is left to MPTCP: without the paths that it cannot pass according to the file.

        Parameters
        ----------
        initial_path : where connections begin; None is the topology's.

        Raises
        ------
        InputError : there is no such path, or MPTCP does not pass there.
        """
        if all_carry(self.paths):
            return self
        label = initial_path or self.initial_path
        known = _FOR_MPTCP.get((id(self), label))
        if known is None or known[0] is not self:
            first = self.path(label, "initial path")
            paths = carrying(self.paths, first, self.provenance)
            known = self, msgspec.structs.replace(self, paths=paths, initial_path=label)
            if len(_FOR_MPTCP) >= _MOST_MADE:
                _FOR_MPTCP.clear()
            _FOR_MPTCP[id(self), label] = known
        return known[1]

    @property
    def ruled_out(self) -> tuple[str, ...]:
        """A sentence about every path that MPTCP cannot use, with the reason."""
        return tuple(ruled_out(self.paths, self.provenance))

    def reversed(self) -> Self:
        """The same network with sender and receiver exchanged; path A-B becomes B-A.

        Links of a site stay as they are. What concerns the direction of the data (losses of core segments,
        TCP connections of others) goes with it. Twice is the topology itself.
        """
        labels, paths = reverse_labels(self.paths), reverse_paths(self.paths)
        return msgspec.structs.replace(
            self,
            name=reverse_name(self.name),
            sender=self.receiver,
            receiver=self.sender,
            paths=paths,
            initial_path=labels[self.initial_path],
            provenance=reverse_provenance(self.provenance, labels),
            background=tuple(reverse_background(flow, labels) for flow in self.background),
            missing=reverse_missing(self.missing, labels, possible(self.receiver, self.sender, paths)),
        )

    def later(self, by_ns: int) -> Self:
        """The network after a time: schedules and background traffic go on from there; traces begin anew.

        Parameters
        ----------
        by_ns : nanoseconds, at least 0; after 0 it is the topology itself.
        """
        if not by_ns:
            return self
        sender, receiver = later_site(self.sender, by_ns), later_site(self.receiver, by_ns)
        return msgspec.structs.replace(
            self,
            sender=sender,
            receiver=receiver,
            paths=later_paths(self.paths, sender, receiver, by_ns),
            background=later_background(self.background, by_ns),
        )

    @property
    def shared(self) -> dict[str, SharedSegment]:
        """Shared segments by their names, in the order of their first appearance on a path."""
        return shared(self.paths)

    @property
    def links(self) -> list[Link]:
        """Every link in one direction, in the order of `network()`."""
        return links(self.sender, self.receiver, self.paths)

    @property
    def varies(self) -> bool:
        """True if the rate, the delay or the loss of a link changes with time."""
        effects = [link.effects for link in self.links]
        return any(each.trace_ms or each.schedule or each.model for each in effects)

    def network(self, seed: int = 0) -> dict[str, Any]:
        """Description of links and paths as the core reads it (JSON types only).

        Parameters
        ----------
        seed : of the trial: links with a `model` have another course for each.
        """
        network = describe(self.sender, self.receiver, self.paths, self.background, seed)
        labels = [path.label for path in self.paths]
        return network | {
            "initial_path": labels.index(self.initial_path),
            "lsrr_honoured": self.lsrr_honoured,
        }


#: Paths left to MPTCP of networks, by their numbers and initial paths, so that the trials of a campaign
#: share one; with the networks themselves, whose numbers are not used again as long as they are here.
_FOR_MPTCP: dict[tuple[int, str], tuple[Topology, Topology]] = {}
_MOST_MADE = 256
#: Networks as a family has them, by their numbers and that family, in the same way.
_OVER: dict[tuple[int, str], tuple[Topology, Topology]] = {}
