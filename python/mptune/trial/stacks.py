"""Stacks: whose MPTCP is meant. Each is a named bundle of everything in which the transports differ.

`STACKS` lists them; `describe` names the one of a trial, from its settings. How the simulator follows each
member is the core's; the kernel testbeds have one stack only, that of the kernel.

HyStart is in neither bundle: Cubic has it on both, with the same thresholds (Linux `net/ipv4/tcp_cubic.c`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, cast, get_type_hints

import msgspec


@dataclass(frozen=True)
class Member:
    """A member of a stack for users: an option of every command and of `[transport]`.

    Attributes
    ----------
    help : its purpose.
    names : of a word, the list of the core that has all of them (`mptune.testbeds.names`).
    bounds : of a number.
    unset : the value that holds where none is given, for the help.
    sysctl : the kernel's setting for it; without one it is what the kernel is.
    in_kernel : of a word, those that a kernel may have, by the simulator's: its own names for them.
    """

    help: str
    names: Literal["schedulers", "accountings"] | None = None
    bounds: tuple[int, int] | None = None
    unset: str = "the stack's"
    sysctl: str = ""
    in_kernel: Mapping[str, str] = field(default_factory=dict)

    def told(self, value: object) -> str | None:
        """The value as it is written to the sysctl; None if no kernel takes it."""
        if not self.sysctl:
            return None
        return self.in_kernel.get(value) if isinstance(value, str) else str(int(cast("int", value)))


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour of a stack; the defaults are those of upstream Linux.

    Each field, a *member*, has the name that the core has for it (`mptcp/members.rs`; `mss` and what names an
    algorithm are in its `TrialSpec`). A trial has them too.

    Attributes
    ----------
    scheduler : name from the core's list.
    accounting : what the buffers are charged with: "payload", or "linux" for socket memory, with everything
        that follows from it (docs/explanation/buffers.md); "linux-7.3" as that release counts it.
    opportunistic : opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012, section 4.2).
    olia_integers : OLIA grows in whole 1/1024 of a segment for each ACK (`net/mptcp/mptcp_olia.c` of the
        fork), so that two equal subflows stop at 256 segments each.
    tso : segments leave in bursts, as with segmentation offload, also with a scheduler that keeps no send
        queues; with `kernel` they always do.
    mss : bytes of a full segment over IPv4. With the accounting "linux" they include the DSS option,
        otherwise not. Over IPv6 the packet is as long, and its header takes 20 of them (RFC 8200 section 3).
    ecn : data is ECN-capable (RFC 3168), so that links that mark do not have to drop it.
    stale_loss_cnt : silent periods of the connection's timer after which a subflow is given up and its data
        sent on others, with the accounting of a kernel; 0 never.
    rto_min_us, rto_max_ms : bounds of the retransmission timeout, of both hosts; Linux 7.3's connections have
        the least one as their period, earlier ones 200 ms.
    """

    scheduler: Annotated[
        str,
        Member(
            "Another scheduler.",
            names="schedulers",
            sysctl="net.mptcp.scheduler",
            in_kernel={"kernel": "default", "hold": "hold"},
        ),
    ] = "kernel"
    accounting: Annotated[str, Member("What counts as buffer use.", names="accountings")] = "linux"
    opportunistic: Annotated[bool, Member("Opportunistic retransmission and penalisation.")] = False
    olia_integers: Annotated[bool, Member("OLIA grows in whole 1/1024 of a segment for each ACK.")] = False
    tso: Annotated[bool, Member("Segments leave in bursts, as with offload.")] = False
    mss: Annotated[
        int, Member("Bytes of a full segment over IPv4; over IPv6 20 fewer fit.", bounds=(64, 8960))
    ] = 1448
    ecn: Annotated[
        bool,
        Member(
            "Send ECN-capable data, which links can mark instead of dropping.",
            unset="on",
            sysctl="net.ipv4.tcp_ecn",
        ),
    ] = True
    stale_loss_cnt: Annotated[
        int,
        Member(
            "Silent periods after which a subflow is given up; 0 never.",
            bounds=(0, 255),
            unset="4",
            sysctl="net.mptcp.stale_loss_cnt",
        ),
    ] = 4
    rto_min_us: Annotated[
        int,
        Member(
            "Least retransmission timeout beyond the RTT, microseconds.",
            bounds=(1_000, 1_000_000),
            unset="200000",
            sysctl="net.ipv4.tcp_rto_min_us",
        ),
    ] = 200_000
    rto_max_ms: Annotated[
        int,
        Member(
            "Longest retransmission timeout, milliseconds.",
            bounds=(1_000, 120_000),
            unset="120000",
            sysctl="net.ipv4.tcp_rto_max_ms",
        ),
    ] = 120_000


class Stack(Members, frozen=True, kw_only=True):
    """A stack."""


#: The stack `linux`: net/mptcp of this release. Another release whose members differ is a line of `STACKS`,
#: called by its release: "linux-6.12".
LINUX_VERSION: Final = "6.18"

#: Every stack by its name. 1500 bytes on the wire are 1448 after the headers of IPv4 and TCP with timestamps,
#: and 1428 after a DSS option with 32-bit DATA_ACK, 32-bit DSN and checksum (RFC 8684 section 3.3).
STACKS: Final[Mapping[str, Stack]] = {
    "linux": Stack(),
    "linux-7.3": Stack(accounting="linux-7.3"),
    "v0.9x": Stack(
        scheduler="minrtt", accounting="payload", opportunistic=True, olia_integers=True, mss=1428
    ),
}

#: Payload of a full segment of plain TCP in a packet of 1500 bytes, whatever the stack.
_TCP_MSS: Final = 1448

#: Stack of version 0.1, which knew no stacks: stores and campaigns of that version mean it.
VERSION_0_1: Final = Stack(scheduler="minrtt", accounting="payload")

#: The stack of a trial that names none.
DEFAULT_STACK: Final = "linux"


def _members() -> Iterator[tuple[str, Member]]:
    hints = get_type_hints(Members, include_extras=True)
    for name in Members.__struct_fields__:
        (member,) = hints[name].__metadata__
        yield name, member


#: The members of a stack by their names.
DECLARED: Final = dict(_members())

#: Their names.
MEMBERS: Final = tuple(DECLARED)

#: Members that can be set in a kernel; the others are part of it.
TOLD: Final = tuple(name for name, member in DECLARED.items() if member.sysctl)


def flag(member: str) -> str:
    """Its flag on the command line."""
    return f"--{member.replace('_', '-')}"


def in_a_kernel(members: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Members that a kernel has to be told, since they are not its defaults: sysctl and value, by member."""
    plain = Members()
    changed = [name for name in TOLD if members[name] != getattr(plain, name)]
    told = {name: DECLARED[name].told(members[name]) for name in changed}
    return {name: (DECLARED[name].sysctl, value) for name, value in told.items() if value is not None}


def sysctls_of(members: Mapping[str, Any]) -> dict[str, str]:
    """The same as settings of a kernel: value by sysctl."""
    return dict(in_a_kernel(members).values())


def of_tcp(stack: Stack) -> Stack:
    """The bundle as plain TCP has it: a full packet, without a DSS option to leave room for."""
    return msgspec.structs.replace(stack, mss=_TCP_MSS)


def of_mptcp(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a bundle that `of_tcp` may have changed, as MPTCP has them."""
    same = [name for name in MEMBERS if name != "mss"]
    for stack in STACKS.values():
        if members["mss"] == _TCP_MSS and all(members[name] == getattr(stack, name) for name in same):
            return {**members, "mss": stack.mss}
    return dict(members)


def title(members: Mapping[str, Any], release: str = LINUX_VERSION) -> str:
    """MPTCP implementation, as sentences name it: "Linux 6.18's MPTCP".

    Parameters
    ----------
    release : of the Linux kernel, where the stack is `linux`; others have theirs in their name.
    """
    name, _, changes = describe(members).partition(" ")
    family, _, named = name.partition("-")
    whose = f"Linux {named or release}'s MPTCP" if family == "linux" else f"MPTCP {name}"
    return f"{whose} {changes}" if changes else whose


def release_of(members: Mapping[str, Any]) -> str:
    """Release of upstream Linux that a stack with these members follows; empty of a fork."""
    family, _, named = describe(members).partition(" ")[0].partition("-")
    return (named or LINUX_VERSION) if family == DEFAULT_STACK else ""


def describe(members: Mapping[str, Any]) -> str:
    """Name of the stack with these members, with the members in which it differs from the nearest one.

    Examples: "linux"; "v0.9x with opportunistic off".
    """
    differing = {
        name: [member for member in MEMBERS if members[member] != getattr(stack, member)]
        for name, stack in STACKS.items()
    }
    name = min(differing, key=lambda text: len(differing[text]))
    changes = [f"{member} {_word(members[member])}" for member in differing[name]]
    return f"{name} with {', '.join(changes)}" if changes else name


def refusal(members: Mapping[str, Any], only: str, testbed: str) -> tuple[str, str] | None:
    """Setting refused by a testbed with one stack ("stack" or the first other member), and what it expects.

    None if the members are those of that stack, or of the one of the release that the testbed's name ends
    with, apart from those that can be set in a kernel (`TOLD`).
    """
    told = {name: members[name] for name in TOLD if DECLARED[name].told(members[name]) is not None}
    expected = msgspec.structs.asdict(STACKS[only]) | told
    released = STACKS.get(f"{only}-{testbed.partition(':')[2]}", STACKS[only])
    if members in (expected, msgspec.structs.asdict(released) | told):
        return None
    name, wanted, found = "stack", only, describe(members)
    if found not in STACKS:
        name = next(member for member in MEMBERS if members[member] != expected[member])
        wanted, found = _word(expected[name]), _word(members[name])
    return name, f"expected {wanted}, the only one of the testbed {testbed}, found {found}"


def _word(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
