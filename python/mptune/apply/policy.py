"""A run as a policy of mptune's daemon: two files on the machine of the site that sends.

`policy.json` in a directory of the run's name has the answer, as the daemon reads it
(crates/mptune-agent/src/daemon/answer.rs). `policy.toml` assigns policies to destinations; in it this
owns one block, between two comments, and leaves everything else as it is. Nothing here touches a machine.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import PurePosixPath
from typing import Any

import msgspec

from mptune.apply._answered import Answered
from mptune.errors import InputError
from mptune.files import name_of
from mptune.linux import assignment, daemon
from mptune.linux.addresses import NamedInterface, Side
from mptune.topology import Interface
from mptune.trial import FAMILIES, PLAIN_TCP
from mptune.units import MIB

#: Policy file that the daemon reads by default.
FILE = str(daemon.FILE)
#: Directory of the answers.
DIRECTORY = PurePosixPath("/var/lib/mptune/policies")

#: Reads that file.
POLICIES: dict[str, object] = {"kind": "file", "path": FILE, "absent": True}

_VERSION = 1
#: Characters and length of a name.
_LETTERS, _LONGEST = re.compile(r"[^A-Za-z0-9._-]+"), 64
#: Most points of a curve, about.
_POINTS = 33
#: The name that the file has for all other destinations.
_TAKEN = "default"

Setting = dict[str, Any]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a run, as far as it is known without its machine.

    Attributes
    ----------
    name : of the policy, and of its directory.
    answered : the run; its sender is who gets the policy.
    """

    name: str
    answered: Answered

    @property
    def directory(self) -> PurePosixPath:
        """Directory of its answer."""
        return DIRECTORY / self.name


def policy_of(answered: Answered) -> Policy:
    """The policy of a run.

    Raises
    ------
    InputError : its answer is no policy.
    """
    where = str(answered.directory)
    if answered.answer.protocol == PLAIN_TCP:
        expected = "expected an answer with MPTCP, found plain TCP, for which a daemon has nothing to do"
        raise InputError(where, "--daemon", expected)
    return Policy(name=_named(name_of(answered.directory)), answered=answered)


def content(setting: Mapping[str, Any], where: str) -> str | None:
    """The content of `FILE`, as read on a machine; None if there is none.

    Raises
    ------
    InputError : it is no text.
    """
    if setting.get("absent"):
        return None
    text: str | None = setting["content"]
    if text is None:
        raise InputError(f"{FILE} on {where}", "", "expected TOML, found bytes that are not UTF-8")
    return text


def settings(
    policy: Policy, own: Sequence[Mapping[str, str]], present: str | None, where: str
) -> Iterator[tuple[Setting, str]]:
    """The files, each with the reason.

    Parameters
    ----------
    own : of each interface of the site that sends: its addresses by family.
    present : the content of `FILE` on its machine; None if there is none.
    where : what to call that machine in errors.

    Raises
    ------
    InputError : an address of the other site is not known, or the file has what does not go with it.
    """
    known = _Known(policy, own)
    text, checked = added(present, block(policy, known.destinations), policy.name, f"{FILE} on {where}")
    other = policy.answered.topology.receiver.name
    yield (
        {"kind": "file", "path": str(policy.directory / "policy.json"), "content": _json(known.document)},
        "The answer, as the daemon reads it.",
    )
    yield (
        {"kind": "file", "path": FILE, "content": text, "reload": checked["socket"]},
        f"Connections with {other} get it ({', '.join(known.destinations)}); what others wrote stays.",
    )


class _Known:
    """A policy with the addresses of both sites."""

    def __init__(self, policy: Policy, own: Sequence[Mapping[str, str]]) -> None:
        self._policy, self._answered = policy, policy.answered
        topology = self._answered.topology
        local = tuple(
            _interface("local", index, interface, own[index])
            for index, interface in enumerate(topology.sender.interfaces)
        )
        remote = tuple(
            _interface("remote", index, interface, self._given(interface))
            for index, interface in enumerate(topology.receiver.interfaces)
        )
        left = topology.for_mptcp(self._answered.answer.initial_path)
        self._paths = assignment.kernel_paths(left, {"local": local, "remote": remote})
        for path in self._paths:
            if not path.pairs:
                expected = f"expected an address of the family that both ends of {path.label} have"
                raise InputError(topology.file, f"sites.{topology.sender.abbr}", expected)

    def _given(self, interface: Interface) -> dict[str, str]:
        """The addresses at which the other site is reached."""
        given: dict[str, str | None] = {family: interface.address(family) for family in FAMILIES}
        addresses = {family: str(ip_address(text)) for family, text in given.items() if text is not None}
        if not addresses:
            topology = self._answered.topology
            key = f"sites.{topology.receiver.abbr}.interfaces.{interface.abbr}.ipv4"
            expected = "expected its address, by which the daemon knows connections; `mptune probe` writes it"
            raise InputError(topology.file, key, expected)
        return addresses

    @property
    def destinations(self) -> list[str]:
        """The other site's addresses as prefixes."""
        remote = dict.fromkeys(pair[1] for path in self._paths for pair in path.pairs)
        return [str(ip_network(name)) for name in remote]

    @property
    def document(self) -> dict[str, Any]:
        answered, answer = self._answered, self._answered.answer
        message = assignment.document(
            assignment.Assignment(pm=answer.opm, paths=self._paths, pm_options=options_of(answered))
        )
        expected = expected_of(answered)
        return {
            "version": _VERSION,
            "run": self._policy.name,
            "site": answered.topology.sender.name,
            "measured_at": _time(answered.run.config.time),
            "testbed": answered.testbed or None,
            "stack": "linux",
            "pm": answer.opm,
            "pm_options": message["pm_options"],
            "paths": message["paths"],
            "congestion": answer.occ,
            "buffer_bytes": answer.obs_bytes,
            "curve": curve_of(answered),
            "expected_mbit_s": expected[0],
            "expected_low_mbit_s": expected[1],
            "expected_high_mbit_s": expected[2],
            "transfer_bytes": None,
        }


def _interface(side: Side, index: int, interface: Interface, at: Mapping[str, str]) -> NamedInterface:
    return NamedInterface(
        side=side,
        index=index,
        device=interface.device or interface.abbr,
        ipv4=at.get("ipv4"),
        ipv6=at.get("ipv6"),
    )


def _json(document: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _named(name: str) -> str:
    """A name that policies may have, as near to a given one as possible."""
    text = _LETTERS.sub("-", name).strip("-.")[:_LONGEST] or "run"
    return f"{text}-run" if text == _TAKEN else text


def options_of(answered: Answered) -> dict[str, Any]:
    """Options of an answer's path manager, with labels of paths."""
    answer = answered.answer
    given = (answered.options.get("pm_options") or {}).get(answer.opm) or {}
    options = {name: value for name, value in given.items() if value is not None}
    if answer.opm == "pcdc":
        options["active"] = list(answer.subflows)
        if answer.standby:
            options["standby_order"] = list(answer.standby)
    return options


def expected_of(answered: Answered) -> tuple[float | None, float | None, float | None]:
    """Promised throughput of an answer, Mbit/s: confirmed, otherwise predicted, with its interval.

    None where the answer is not about throughput: the daemon then has nothing to hold connections against.
    """
    if answered.objective:
        return None, None, None
    answer = answered.answer
    confirmed = answer.confirmed
    if confirmed.mean is None:
        return answer.otp_mbps, None, None
    if confirmed.low is None or confirmed.high is None:
        return confirmed.mean, None, None
    return confirmed.mean, max(0.0, confirmed.low), confirmed.high


def curve_of(answered: Answered) -> list[tuple[int, float]] | None:
    """Throughput over the limit of the buffers, for the daemon's `[buffers]`: points of bytes and Mbit/s.

    The fitted curve of the answer; None without one, as where it is not about throughput. A run with fixed
    buffers has twice their size: SO_SNDBUF asks for payload, the kernel takes twice as much memory for it
    (socket(7)), and its limits are of memory.
    """
    if answered.objective:
        return None
    name = answered.run.answering
    memory = 2 * MIB if answered.answer.is_fixed else MIB
    points = {
        round(point.buffer_mib * memory): round(max(0.0, point.predicted_mbps), 3)
        for point in answered.run.curves
        if (point.pm, point.cc) == name
    }
    ordered = sorted(points.items())
    step = max(1, math.ceil((len(ordered) - 1) / (_POINTS - 1)))
    thinned = ordered[::step] if ordered[::step][-1:] == ordered[-1:] else [*ordered[::step], ordered[-1]]
    return thinned if len(thinned) > 1 else None


def _time(text: str) -> str | None:
    """A time of a run's config, as UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The file with all policies.

_BEGIN, _END = "# mptune apply: {}", "# end of mptune apply: {}"
_NEW = "# Policies of mptune's daemon (mptune daemon --help).\n"


def block(policy: Policy, destinations: Sequence[str]) -> str:
    """The block of the file that belongs to mptune."""
    name = policy.name
    to = ", ".join(f'"{destination}"' for destination in destinations)
    lines = [
        _BEGIN.format(name),
        "[[policy]]",
        f'name = "{name}"',
        f"to = [{to}]",
        f'run = "{policy.directory}"',
        _END.format(name),
    ]
    return "\n".join(lines) + "\n"


#: Text after the block: blank lines and comments, then another table or nothing.
_FOLLOWING = re.compile(r"(\s|#.*\n)*(\[|(#.*)?\Z)")


def added(present: str | None, new: str, name: str, where: str) -> tuple[str, dict[str, Any]]:
    """The file with a block, in the place of an earlier one of the same name; and its content then.

    Raises
    ------
    InputError : the daemon would refuse it, before or after: another policy has that name or some of those
        destinations; or what follows the block would belong to it.
    """
    before = _NEW if present is None else present
    begin, end = (re.escape(label.format(name)) for label in (_BEGIN, _END))
    own = re.compile(rf"^{begin}\n.*?^{end}\n?", re.DOTALL | re.MULTILINE)
    daemon.check_text(own.sub("", before), where)
    if (earlier := own.search(before)) is not None:
        above, below = before[: earlier.start()], before[earlier.end() :]
    else:
        gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
        above, below = before + gap, ""
    if not _FOLLOWING.match(below):
        raise InputError(where, "policy", "expected tables [[policy]] that another one can follow")
    text = f"{above}{new}{below}"
    return text, daemon.check_text(text, where)
