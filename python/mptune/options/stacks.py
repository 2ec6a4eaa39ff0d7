"""The stack as an option: its name, and single members that are to differ.

Every command and campaign that measures has `StackOptions` as a parameter or as a field. The bundles are in
`mptune.trial.stacks`.
"""

from typing import Annotated

import msgspec

from mptune import testbeds
from mptune.options._declared import Option, Options, Place, by_flag, error_about
from mptune.options._kinds import TOGGLE, choice, count
from mptune.options.trials import scheduler_names
from mptune.trial.stacks import DEFAULT_STACK, MEMBERS, STACKS, Stack, of_tcp, refusal

#: What holds where a member is not given.
_UNSET = "the stack's"


def _accountings() -> list[str]:
    return testbeds.names("accountings")


class StackOptions(Options, frozen=True, kw_only=True):
    """Whose MPTCP is measured; the members left at None are the stack's."""

    stack: Annotated[
        str,
        Option(
            choice(lambda: STACKS),
            "MPTCP implementation: upstream Linux, or v0.9x, the papers' kernels.",
            key="stack",
        ),
    ] = DEFAULT_STACK
    scheduler: Annotated[
        str | None,
        Option(choice(scheduler_names), "Another scheduler.", key="transport.scheduler", unset=_UNSET),
    ] = None
    accounting: Annotated[
        str | None,
        Option(
            choice(_accountings),
            "What counts as buffer use.",
            key="transport.accounting",
            unset=_UNSET,
        ),
    ] = None
    opportunistic: Annotated[
        bool | None,
        Option(
            TOGGLE,
            "Opportunistic retransmission and penalisation.",
            key="transport.opportunistic",
            unset=_UNSET,
        ),
    ] = None
    tso: Annotated[
        bool | None,
        Option(TOGGLE, "Segments leave in bursts, as with offload.", key="transport.tso", unset=_UNSET),
    ] = None
    mss: Annotated[
        int | None,
        Option(
            count(64, 8960),
            "Bytes of a full segment over IPv4; over IPv6 20 fewer fit.",
            key="transport.mss",
            unset=_UNSET,
        ),
    ] = None

    ecn: Annotated[
        bool | None,
        Option(
            TOGGLE,
            "Send ECN-capable data, which links can mark instead of dropping.",
            key="transport.ecn",
            unset="on",
        ),
    ] = None

    def chosen(self, stack: str | None = None, protocol: str = "mptcp") -> Stack:
        """The bundle, of another stack if one is given, with the members that were given."""
        values = {name: getattr(self, name) for name in MEMBERS}
        given = {name: value for name, value in values.items() if value is not None}
        whole = STACKS[stack or self.stack]
        return msgspec.structs.replace(of_tcp(whole) if protocol == "tcp" else whole, **given)

    def check_on(self, testbed: str, place: Place = by_flag) -> None:
        """Refuse a stack or a member that a testbed does not have.

        Raises
        ------
        InputError : naming the option where it was written.
        """
        only = testbeds.only_stack(testbed)
        if only is None:
            return
        if refused := refusal(msgspec.structs.asdict(self.chosen()), only, testbed):
            name, expected = refused
            raise error_about(StackOptions, (name,), expected, place)
