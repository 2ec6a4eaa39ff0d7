"""The stack as an option: its name, and single members that are to differ.

Every command and campaign that measures has `StackOptions` as a parameter or as a field. The bundles are in
`mptune.trial.stacks`.
"""

from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec

from mptune import testbeds
from mptune.options._declared import Option, Options, Place, by_flag, error_about
from mptune.options._kinds import TOGGLE, Kind, choice, count
from mptune.trial.stacks import DECLARED, DEFAULT_STACK, MEMBERS, STACKS, Member, Stack, of_tcp, refusal


class _OfStack(Options, frozen=True, kw_only=True):
    """Whose MPTCP is measured; the members left at None are the stack's."""

    stack: Annotated[
        str,
        Option(
            choice(lambda: STACKS),
            "MPTCP implementation: upstream Linux, or v0.9x, the papers' kernels.",
            key="stack",
        ),
    ] = DEFAULT_STACK

    @property
    def given(self) -> dict[str, Any]:
        """The members that were given, by name."""
        return {name: value for name in MEMBERS if (value := getattr(self, name)) is not None}

    def chosen(self, stack: str | None = None, protocol: str = "mptcp") -> Stack:
        """The bundle, of another stack if one is given, with the members that were given."""
        whole = STACKS[stack or self.stack]
        return msgspec.structs.replace(of_tcp(whole) if protocol == "tcp" else whole, **self.given)

    def check_on(self, testbed: str, place: Place = by_flag) -> None:
        """Refuse a stack or a member that a testbed does not have.

        Raises
        ------
        InputError : naming the option where it was written.
        """
        only = testbeds.only_stack(testbed)
        if only is None:
            return
        if refused := refusal(msgspec.structs.asdict(self.chosen()), only, testbeds.resolved(testbed)):
            name, expected = refused
            raise error_about(type(self), (name,), expected, place)


def _kind(member: Member, plain: type) -> Kind[Any]:
    if (names := member.names) is not None:
        return choice(lambda: testbeds.names(names))
    return TOGGLE if plain is bool else count(*(member.bounds or ()))


def _with_members() -> Any:
    types = get_type_hints(Stack)
    fields = []
    for name, member in DECLARED.items():
        kind = _kind(member, types[name])
        option = Option(kind, member.help, key=f"transport.{name}", unset=member.unset, rare=True)
        fields.append((name, Annotated[types[name] | None, option], None))
    return msgspec.defstruct(
        "StackOptions", fields, bases=(_OfStack,), module=__name__, frozen=True, kw_only=True
    )


if TYPE_CHECKING:
    StackOptions = _OfStack
else:
    StackOptions = _with_members()
