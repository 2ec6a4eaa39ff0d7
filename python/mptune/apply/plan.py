"""Settings for the machines of a finished run, without touching any machine.

    run directory -> outline (which subflows the kernel will use) -> intent of each host -> settings

A setting is a JSON object as the agent's role `settings` takes it. What only the machine knows is filled in
by `resolve`, from what was read there; until then a plan has placeholders: `<ipv4 of A>` for an address, in
the value of a sysctl `*` for what is there now, and `>=` for a value that is only ever raised.

Endpoints belong to interfaces, not to paths, so the kernel cannot have every set of subflows: what it will
use is computed (`mptune.linux.path_manager.nearest`), and differences from the answer are reported.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from mptune._text import over
from mptune.apply import _settings
from mptune.apply._answered import Answered, read_answered
from mptune.apply._settings import Intent, Present, Unknown
from mptune.apply.policy import Policy, policy_of
from mptune.errors import InputError, MptuneError
from mptune.linux.path_manager import nearest as _nearest
from mptune.linux.path_manager.ends import MOST
from mptune.linux.path_manager.nearest import FLAGS, Endpoints, Families, Pair, Use, Used
from mptune.topology import BOTH, FAMILIES, Site
from mptune.topology import Path as NetworkPath
from mptune.trial import DEFAULT_FAMILY, FIXED, PLAIN_TCP
from mptune.units import format_size

__all__ = [
    "Difference",
    "HostPlan",
    "Outline",
    "Present",
    "Unknown",
    "check",
    "outline",
    "outline_of",
    "plan",
    "resolve",
]

#: A side of the data; whoever opens connections is one of them.
Part = Literal["sender", "receiver"]

#: Path managers with several subflows on one path, which the kernel's own cannot have.
_SAME_PATH = ("ndiffports", "binder")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answer that a machine cannot have.

    Attributes
    ----------
    what : "subflows", "buffer" or "stack".
    asked, got : in words.
    because : why, and what helps, as sentences.
    """

    what: Literal["subflows", "buffer", "stack"]
    asked: str
    got: str
    because: str


class HostPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for the machine of one site.

    Attributes
    ----------
    site, name, ssh : its key in the topology file, its name, and how ssh reaches it.
    part : which side of the data it is.
    settings : JSON objects, in the order in which they are set.
    why : for each of them, a sentence.
    notes : what cannot be set, or has to be known.
    differs : where the machine does less, or other, than the answer asks for.
    unknown : what the placeholders in `settings` stand for.
    unread : what else of the machine `settings` depend on, and nobody has read: sysctls by name, and routes.
    intent : what the settings are made from.
    """

    site: str
    name: str
    ssh: str | None
    part: Part
    settings: tuple[dict[str, Any], ...]
    why: tuple[str, ...]
    notes: tuple[str, ...]
    differs: tuple[Difference, ...]
    unknown: tuple[Unknown, ...]
    unread: tuple[str, ...] = ()
    intent: Intent


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of both hosts, and the sets of subflows behind it, as labels of paths.

    Attributes
    ----------
    opener : who opens connections.
    initial : the path on which they begin.
    wanted : what the answer sends on.
    used, standby : what the kernel will send on, and keep in reserve.
    more : another kernel might come nearer to the answer.
    """

    answered: Answered
    opener: Part
    initial: str
    wanted: tuple[str, ...]
    used: tuple[str, ...]
    standby: tuple[str, ...]
    more: bool
    hosts: tuple[HostPlan, ...]


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """Common capabilities of both machines' kernels; by default those of all that have endpoints.

    Attributes
    ----------
    most : subflows beside the first one, and endpoints, that they take.
    laminar : that of who opens connections has endpoints `laminar`.
    """

    most: int = MOST
    laminar: bool = False


#: Nobody has read them.
ANY = Kernels()


def plan(run: Path, *, daemon: bool = False) -> list[HostPlan]:
    """Plan the settings of the sender's and the receiver's machine.

    Raises
    ------
    InputError : it is no finished run with one answer for one network.
    """
    return list(outline(run, daemon=daemon).hosts)


def outline(
    run: Path, opened_by: Part | None = None, *, daemon: bool = False, kernels: Kernels = ANY
) -> Outline:
    """The plan with its sets of subflows; errors as `plan`.

    Parameters
    ----------
    opened_by : which side of the data opens connections; None is the one that the topology file calls sender.
    daemon : mptune's daemon steers the connections of who sends, by a policy.
    kernels : what they can do, where they were read (`mptune.apply.kernels`).
    """
    return outline_of(read_answered(run), opened_by, daemon=daemon, kernels=kernels)


def resolve(host: HostPlan, present: Present) -> HostPlan:
    """The same plan with what only the machine knows."""
    return _built(host, host.intent, present)


def check(host: HostPlan, *, read: bool = False) -> None:
    """Refuse a plan that still has placeholders.

    Parameters
    ----------
    read : refuse also one that depends on what nobody has read on the machine.

    Raises
    ------
    InputError : naming the file and the key of the first one.
    MptuneError : the machine would know it, but was not read.
    """
    for unknown in host.unknown:
        if unknown.readable:
            raise MptuneError(f"{unknown.file}: {unknown.key}: {unknown.expected}")
        raise InputError(unknown.file, unknown.key, unknown.expected)
    if read and host.unread:
        raise MptuneError(f"{host.name}: {', '.join(host.unread)}: could not be read there")


def outline_of(
    answered: Answered, opened_by: Part | None = None, *, daemon: bool = False, kernels: Kernels = ANY
) -> Outline:
    """As `outline`, for a run that was read."""
    opener: Part = opened_by or ("receiver" if answered.is_reversed else "sender")
    view = _View(answered, opener, kernels)
    policy = policy_of(answered) if daemon else None
    subflows = _tcp(view) if view.is_tcp else _steered(view) if policy and view.sender_opens else _mptcp(view)
    return Outline(
        answered=answered,
        opener=opener,
        initial=view.label(subflows.endpoints.initial),
        wanted=tuple(view.labels(view.wanted)),
        used=tuple(view.labels(subflows.used.active)),
        standby=tuple(view.labels(subflows.used.standby)),
        more=not view.is_tcp and set(subflows.used.active) != set(view.wanted),
        hosts=tuple(_host(view, part, subflows, policy) for part in ("sender", "receiver")),
    )


class _View:
    """An answer seen from who opens connections: its paths as pairs of interfaces."""

    def __init__(self, answered: Answered, opener: Part, kernels: Kernels) -> None:
        self.answered, self.opener, self.kernels = answered, opener, kernels
        self.answer, self.topology = answered.answer, answered.topology
        self._pairs = {path.label: self._pair(path) for path in self.topology.paths}
        self._labels = {pair: label for label, pair in self._pairs.items()}
        self.wanted = [self._pairs[label] for label in self.answer.subflows]

    def _pair(self, path: NetworkPath) -> Pair:
        ours, theirs = path.local_index, path.remote_index
        if path.family == "ipv6":
            ours, theirs = (
                ours + len(self.topology.sender.interfaces),
                theirs + len(self.topology.receiver.interfaces),
            )
        return (ours, theirs) if self.opener == "sender" else (theirs, ours)

    @property
    def is_dual(self) -> bool:
        """Addresses of both families: those of IPv6 have their numbers behind those of IPv4."""
        return self.answer.family == BOTH

    def end(self, site: Site, number: int) -> tuple[int, str]:
        """Index of the interface with an address, and the family of that."""
        count = len(site.interfaces)
        if not self.is_dual:
            return number, self.answer.family or DEFAULT_FAMILY
        return number % count, FAMILIES[number // count]

    def named(self, site: Site, number: int) -> str:
        """An address in words: its interface, and its family where there are two."""
        index, family = self.end(site, number)
        return site.interfaces[index].abbr + (over(family) if self.is_dual else "")

    @property
    def is_tcp(self) -> bool:
        return self.answer.protocol == PLAIN_TCP

    @property
    def sender_opens(self) -> bool:
        return self.opener == "sender"

    @property
    def sites(self) -> tuple[Site, Site]:
        """The site that opens connections, and the other one."""
        both = self.topology.sender, self.topology.receiver
        return both if self.opener == "sender" else (both[1], both[0])

    @property
    def size(self) -> tuple[int, int]:
        opening, accepting = self.sites
        families = 2 if self.is_dual else 1
        return families * len(opening.interfaces), families * len(accepting.interfaces)

    @property
    def families(self) -> Families | None:
        if not self.is_dual:
            return None
        opening, accepting = (len(site.interfaces) for site in self.sites)
        return Families((opening, accepting), frozenset(self._labels))

    @property
    def initial(self) -> Pair:
        """The path on which connections began in the trials."""
        return self._pairs[self.answer.initial_path or self.topology.initial_path]

    @property
    def standby(self) -> list[Pair]:
        """The standby paths of the answer; with PCDC, all others."""
        named = [self._pairs[label] for label in self.answer.standby]
        carrying = {path.label for path in self.topology.for_mptcp(self.label(self.initial)).paths}
        rest = [pair for label, pair in self._pairs.items() if label in carrying]
        rest = rest if self.answer.opm == "pcdc" else []
        return list(dict.fromkeys(pair for pair in (*named, *rest) if pair not in self.wanted))

    @property
    def weights(self) -> dict[Pair, float]:
        """Weights of subflows, from impact factors."""
        return {
            self._pairs[label]: max(abs(omega), 1e-6)
            for label, omega in self.answered.omegas.items()
            if label in self._pairs
        }

    def label(self, pair: Pair) -> str:
        return self._labels[pair]

    def labels(self, pairs: "list[Pair] | tuple[Pair, ...] | set[Pair]") -> list[str]:
        """Labels in the order of the topology."""
        return [label for label, pair in self._pairs.items() if pair in pairs]

    def without_endpoints(self, initial: Pair) -> Endpoints:
        none: Use = "none"
        return Endpoints(initial, (none,) * self.size[0], families=self.families)

    def nearest(self, initial: Pair) -> Endpoints:
        if self.answer.opm == "default" or (self.answer.opm in _SAME_PATH and len(self.wanted) <= 1):
            return self.without_endpoints(initial)
        return _nearest.nearest(
            self.size,
            initial,
            self.wanted,
            self.standby,
            self.weights,
            self.families,
            most=self.kernels.most,
            laminar=self.kernels.laminar,
        )


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints, the subflows that the kernel opens for them, and notes."""

    endpoints: Endpoints
    used: Used
    notes: tuple[str, ...] = ()
    differs: tuple[Difference, ...] = ()


def _tcp(view: _View) -> _Found:
    """Plain TCP on one path: no endpoints."""
    initial = view.wanted[0] if view.wanted else view.initial
    ours, theirs = (view.named(*end) for end in zip(view.sites, initial, strict=True))
    note = (
        f"The answer is plain TCP on {view.label(initial)}: route to the address of "
        f"{theirs} by {ours}. Nothing of MPTCP is set; programs that "
        "ask for it would still use it."
    )
    endpoints = view.without_endpoints(initial)
    return _Found(endpoints=endpoints, used=Used((initial,), (), ()), notes=(note,))


def _mptcp(view: _View) -> _Found:
    endpoints = view.nearest(view.initial)
    used = _nearest.used(endpoints)
    return _Found(
        endpoints=endpoints,
        used=used,
        notes=tuple(_of_subflows(view, endpoints, used)),
        differs=tuple(_set_differences(view, endpoints, used)),
    )


def _steered(view: _View) -> _Found:
    """A daemon opens the subflows: the answer's own, on any pair of addresses."""
    standby = tuple(view.standby)
    _, accepting = view.sites
    first, there = (view.named(*end) for end in zip(view.sites, view.initial, strict=True))
    note = (
        f"The daemon (mptune daemon) opens the subflows of connections to {accepting.name}; without it there "
        f"are none. They begin where routing and programs let them: in the trials by "
        f"{first}, to the address of {there}."
    )
    return _Found(
        endpoints=view.without_endpoints(view.initial),
        used=Used(tuple(view.wanted), standby, ()),
        notes=(note, *_of_sockets(view)),
    )


def _of_sockets(view: _View) -> list[str]:
    """A condition on programs whose connections are to have subflows of both families."""
    if not view.is_dual:
        return []
    note = "Linux has subflows of both families only in sockets of IPv6"
    if view.end(view.sites[0], view.initial[0])[1] == "ipv6":
        return [f"{note}, which connections that begin over IPv6 have."]
    return [
        f"{note}: programs have to reach the address in one (::ffff:192.0.2.1 instead of 192.0.2.1), or "
        "connections have no subflow over IPv6."
    ]


def _of_subflows(view: _View, endpoints: Endpoints, used: Used) -> list[str]:
    """Conditions on the initial path, and notes on standby subflows."""
    opening, _ = view.sites
    first, there = (view.named(*end) for end in zip(view.sites, endpoints.initial, strict=True))
    notes = [
        f"Connections have to begin on {view.label(endpoints.initial)}, as in the trials: {opening.name} "
        f"routes them by {first}, and programs connect to the address of {there}. No setting does that.",
        *_of_sockets(view),
    ]
    asked = [pair for pair in view.standby if pair not in used.standby and pair not in used.active]
    if asked and view.answer.standby:
        notes.append(
            f"Not kept in reserve: {', '.join(view.labels(asked))}; a standby endpoint belongs to an "
            "interface that carries nothing, and reaches only the address where connections begin."
        )
    if len(used.standby) > 1:
        notes.append("Standby subflows take over all at once when every active one fails, not in an order.")
    if view.answer.opm == "pcdc" and len(view.wanted) > 1:
        notes.append("The kernel knows no size classes: short transfers use the same subflows as long ones.")
    return notes


def _set_differences(view: _View, endpoints: Endpoints, used: Used) -> list[Difference]:
    """Differences between the kernel's subflows and the answer's."""
    pm = view.answer.opm
    if pm in _SAME_PATH and len(view.wanted) <= 1:
        got = ", ".join(view.labels(used.active))
        because = (
            "The kernel's path manager opens one subflow for each pair of addresses, so that several on one "
            "path cannot be had."
        )
        return [Difference(what="subflows", asked=f"several on {got} ({pm})", got=got, because=because)]
    missing = view.labels(set(view.wanted) - set(used.active))
    surplus = view.labels(set(used.active) - set(view.wanted))
    if not missing and not surplus:
        return []
    reasons = ["Endpoints belong to interfaces, not to paths."]
    if missing:
        reasons.append(f"Without {', '.join(missing)}.")
    if surplus:
        reasons.append(f"With {', '.join(surplus)}, which the answer keeps silent.")
    most = view.kernels.most
    if missing and len(used.active) + len(used.standby) > most:
        reasons.append(f"The kernel opens {most} subflows beside the first at most.")
    reasons.extend(_better_beginning(view, endpoints, used))
    return [
        Difference(
            what="subflows",
            asked=", ".join(view.labels(view.wanted)),
            got=", ".join(view.labels(used.active)),
            because=" ".join(reasons),
        )
    ]


def _better_beginning(view: _View, endpoints: Endpoints, used: Used) -> list[str]:
    """A path to begin on that would bring the kernel nearer to the answer."""

    def missed(use: Used) -> tuple[int, int]:
        given, asked = set(use.active), set(view.wanted)
        return len(given - asked), len(asked - given)

    others = [pair for pair in view.wanted if pair != endpoints.initial]
    tried = {pair: missed(_nearest.used(view.nearest(pair))) for pair in others}
    best = min(tried, key=tried.__getitem__, default=None)
    if best is None or tried[best] >= missed(used):
        return []
    nearer = "exactly the answer's subflows" if not any(tried[best]) else "subflows nearer to the answer's"
    return [f"Connections that begin on {view.label(best)} could have {nearer}."]


# A host.


def _host(view: _View, part: Part, subflows: _Found, policy: Policy | None) -> HostPlan:
    opening = part == view.opener
    steers = policy is not None and part == "sender"
    # Who only accepts what the daemon opens needs no endpoints, but room for all.
    joined = policy is not None and view.sender_opens and part == "receiver"
    site = view.topology.sender if part == "sender" else view.topology.receiver
    other = view.topology.receiver if part == "sender" else view.topology.sender
    answer = view.answer
    family = DEFAULT_FAMILY if view.is_dual else answer.family or DEFAULT_FAMILY
    intent = Intent(
        file=view.topology.file,
        site=site,
        other=other,
        family=family,
        opens=opening,
        limits=None if steers else _joined(subflows) if joined else _limits(view, subflows, opening),
        endpoints=() if steers or joined else _endpoints(view, site, subflows, opening),
        cc=answer.occ if part == "sender" else None,
        leaves_by=_carrying(view, site, subflows, opening),
        dual=view.is_dual,
        sends=part == "sender",
        buffer_mode=answer.buffer_mode or FIXED,
        buffer_bytes=answer.obs_bytes if part == "sender" else answer.receive_bytes or answer.obs_bytes,
        raises=part == "receiver" and answer.receive_bytes is not None,
        sysctls=answer.sysctls or {},
        policy=policy if steers else None,
        daemons=policy is not None and view.sender_opens,
    )
    host = HostPlan(
        site=site.abbr,
        name=site.name,
        ssh=site.ssh,
        part=part,
        settings=(),
        why=(),
        notes=(),
        differs=(*_of_stack(view), *(subflows.differs if opening else ()), *_of_buffer(view)),
        unknown=(),
        unread=(),
        intent=msgspec.structs.replace(intent, notes=subflows.notes if opening else ()),
    )
    return _built(host, host.intent, None)


def _built(host: HostPlan, intent: Intent, present: Present | None) -> HostPlan:
    made = _settings.settings(intent, present)
    return msgspec.structs.replace(
        host,
        settings=made.settings,
        why=made.why,
        notes=made.notes,
        unknown=made.unknown,
        unread=made.unread,
    )


def _limits(view: _View, subflows: _Found, opening: bool) -> tuple[int, int] | None:
    """Further subflows, and addresses accepted; None leaves them alone."""
    if view.is_tcp:
        return None
    further = len(subflows.used.active) + len(subflows.used.standby) - 1
    if not opening:
        return (further, 0) if further else None
    return further, len(subflows.endpoints.announced)


def _joined(subflows: _Found) -> tuple[int, int] | None:
    """Subflows that a daemon at the other side may open beside the first."""
    further = min(len(subflows.used.active) + len(subflows.used.standby) - 1, subflows.endpoints.most)
    return (further, 0) if further else None


def _endpoints(
    view: _View, site: Site, subflows: _Found, opening: bool
) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """Interfaces with an endpoint, the family of its address, and its flags."""
    uses = [(number, FLAGS[use]) for number, use in enumerate(subflows.endpoints.uses) if use != "none"]
    announced = [(number, ("signal",)) for number in subflows.endpoints.announced]
    return tuple((*view.end(site, number), has) for number, has in (uses if opening else announced))


def _carrying(view: _View, site: Site, subflows: _Found, opening: bool) -> tuple[tuple[int, str], ...]:
    """Interfaces of a side with a subflow, and its family."""
    pairs = (*subflows.used.active, *subflows.used.standby)
    return tuple(view.end(site, number) for number in sorted({pair[0 if opening else 1] for pair in pairs}))


def _of_stack(view: _View) -> list[Difference]:
    stack = view.answered.other_stack
    if not stack:
        return []
    because = (
        "The answer was found for another MPTCP than the machine's: schedulers and buffers differ. "
        "`mptune optimise --stack linux` finds the one for upstream Linux."
    )
    return [Difference(what="stack", asked=stack, got="the machine's own kernel", because=because)]


def _of_buffer(view: _View) -> list[Difference]:
    if (view.answer.buffer_mode or FIXED) != FIXED:
        return []
    size = format_size(view.answer.obs_bytes, 4)
    because = (
        f"Only a program can set these. `mptune exec --run {view.answered.directory} -- COMMAND` does it "
        "for one program. A limit of tcp_wmem and tcp_rmem lets buffers grow by themselves, which is another "
        "mode with another best size: `mptune optimise --buffer-mode auto` finds it."
    )
    asked = f"SO_SNDBUF of the sender and SO_RCVBUF of the receiver {size}"
    return [Difference(what="buffer", asked=asked, got="what programs set", because=because)]
