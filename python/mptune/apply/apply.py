"""Settings made on machines, all or none, and put back: the agent's role `settings` on each of them.

Here are the machines and the order in which they are asked. What happens on one of them, and what is noted
there, is the agent's business (crates/mptune-agent/src/settings); which settings are good ones is
`mptune.apply.plan`'s.
"""

import base64
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol, TypeVar

from mptune.apply import records
from mptune.apply.records import Applied, Confirmed, Present, RolledBack, Setting, Status
from mptune.errors import MptuneError, TrialError
from mptune.linux import bpf
from mptune.linux.talker import Message, Talker
from mptune.machines import LocalMachine, Looked, SshMachine, ssh

#: Seconds for an order: loading BPF programs takes longest.
_ANSWER_S = 120.0

T = TypeVar("T")


class Refused(MptuneError):
    """A machine did nothing; `because` is what code asks for, "input" is the user's to mend."""

    def __init__(self, machine: str, because: str, reason: str) -> None:
        super().__init__(f"{machine}: {reason}{_REMEDIES.get(because, '')}")
        self.because = because
        self.exit_code = 2 if because == "input" else 1


#: Remedies, beside the one in the reason.
_REMEDIES = {
    "foreign": ": let it go on with --despite NAME, or stop it",
    "drift": "; --force overwrites it",
    "journal": "; nothing was changed",
    "daemon": "; nothing was changed",
}


class Place(Protocol):
    """A machine in use."""

    name: str

    def start(self, role: str, name: str | None = None) -> Talker:
        """Start the agent in a role."""
        ...

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> Looked:
        """Facts of the machine."""
        ...

    def close(self) -> None:
        """It is not used any more."""
        ...


class Target(NamedTuple):
    """A machine, by its name for people and the one for ssh; None is this machine."""

    name: str
    ssh: str | None = None


#: This machine.
HERE = Target("this machine")


class Wanted(NamedTuple):
    """Settings for a machine: `settings` once its facts are known."""

    target: Target
    settings: Callable[[Place], Sequence[Setting]]


def apply(
    requests: Sequence[Wanted],
    *,
    run: str,
    confirm_within_s: int | None = None,
    despite: Sequence[str] = (),
    force: bool = False,
) -> list[tuple[str, Applied]]:
    """Make settings on machines: on all of them or on none.

    Parameters
    ----------
    run : what they come from, for people.
    confirm_within_s : everything is put back unless somebody confirms by then.
    despite : other programs that manage the same, and that may lose.
    force : overwrite what somebody else has changed since the last time.

    Returns
    -------
    list[tuple[str, Applied]] : by the machines' names.

    Raises
    ------
    Refused : one of the machines; those before it were rolled back.
    MptuneError : one of them cannot be reached.
    """
    with use([target.target for target in requests]) as places:
        orders = ready(requests, places, despite)
        return make(orders, run=run, confirm_within_s=confirm_within_s, despite=despite, force=force)


#: Machines in use, and what each is to have.
Orders = Sequence[tuple[Place, Sequence[Setting]]]


def ready(requests: Sequence[Wanted], places: Sequence[Place], despite: Sequence[str] = ()) -> Orders:
    """Orders for machines in use, once their facts are known; nothing is changed.

    Raises
    ------
    Refused : one of the machines would do nothing.
    MptuneError : one of them is gone.
    """
    orders = [
        (place, _with_objects(request.settings(place)))
        for request, place in zip(requests, places, strict=True)
    ]
    for place, settings in orders:
        _refuse_early(place, settings, despite)
    return orders


def make(
    orders: Orders,
    *,
    run: str,
    confirm_within_s: int | None = None,
    despite: Sequence[str] = (),
    force: bool = False,
) -> list[tuple[str, Applied]]:
    """Make settings on machines in use; as `apply`."""
    done: list[tuple[Place, Applied]] = []
    for place, settings in orders:
        order = {
            "action": "apply",
            "settings": settings,
            "run": run,
            "confirm_within_s": confirm_within_s,
            "despite": list(despite),
            "force": force,
        }
        try:
            done.append((place, records.record(ask(place, order, "applied"), Applied)))
        except MptuneError as error:
            _take_back([place for place, _ in done], error)
            raise
    return [(place.name, applied) for place, applied in done]


def confirm(targets: Sequence[Target]) -> list[tuple[str, Confirmed]]:
    """Keep what was made.

    Raises
    ------
    MptuneError : a machine cannot be reached, or has nothing to confirm.
    """
    return _each(targets, confirm_on)


def status(targets: Sequence[Target]) -> list[tuple[str, Status]]:
    """Settings of mptune on machines, and their present state.

    Raises
    ------
    MptuneError : a machine cannot be reached.
    """
    return _each(targets, status_of)


def roll_back(targets: Sequence[Target], *, force: bool = False) -> list[tuple[str, RolledBack]]:
    """Put everything back, to what it was before the first apply.

    Parameters
    ----------
    force : also what somebody else has changed since.

    Raises
    ------
    MptuneError : a machine cannot be reached, or refuses; the others are as before.
    """
    return _each(targets, lambda place: roll_back_on(place, force=force))


def confirm_on(place: Place) -> Confirmed:
    """Keep what was made on a machine in use."""
    return records.record(ask(place, {"action": "confirm"}, "confirmed"), Confirmed)


def status_of(place: Place) -> Status:
    """Settings of mptune on a machine in use."""
    return records.record(ask(place, {"action": "status"}, "status"), Status)


def roll_back_on(place: Place, *, force: bool = False) -> RolledBack:
    """Put back what was made on a machine in use."""
    order = {"action": "rollback", "force": force}
    return records.record(ask(place, order, "rolled-back"), RolledBack)


def _each(targets: Iterable[Target], act: Callable[[Place], T]) -> list[tuple[str, T]]:
    """Do something on each machine; one that fails does not keep the others from it."""
    done: list[tuple[str, T]] = []
    failed: list[MptuneError] = []
    for target in targets:
        try:
            with use([target]) as (place,):
                done.append((place.name, act(place)))
        except MptuneError as error:
            failed.append(error)
    if failed:
        first, *others = failed
        if not others:
            raise first
        raise MptuneError("; ".join(map(str, failed)))
    return done


def _take_back(places: Sequence[Place], error: MptuneError) -> None:
    """Undo the changes on other machines, and report it in the error."""
    for place in reversed(places):
        try:
            left = roll_back_on(place).kept
            outcome = f"{place.name} was rolled back" + ("" if not left else f" but for {left[0].name}")
        except MptuneError as another:
            outcome = f"{place.name} could not be rolled back: {another}"
        error.args = (f"{error}; {outcome}",)


def _refuse_early(place: Place, settings: Sequence[Setting], despite: Sequence[str]) -> None:
    """Refuse before anything is changed anywhere, as far as that can be known without changing anything."""
    seen = records.record(ask(place, {"action": "read", "settings": settings}, "read"), Present)
    others = [name for name in seen.foreign if name not in despite]
    if others:
        raise Refused(place.name, "foreign", f"{', '.join(others)} manages the same settings on this machine")


def _with_objects(settings: Sequence[Setting]) -> list[Setting]:
    """Give the congestion controls of mptune their programs."""
    return [_with_object(setting) for setting in settings]


def _with_object(setting: Setting) -> Setting:
    cc = bpf.registered_as(str(setting.get("name", "")))
    if setting.get("kind") != "congestion" or "object" in setting or cc is None:
        return setting
    if (reason := bpf.lacking(cc)) is not None:
        raise MptuneError(f"{cc}: {reason}")
    content = (bpf.OBJECTS / f"{cc}.bpf.o").read_bytes()
    return {**setting, "object": base64.b64encode(content).decode()}


@contextmanager
def _place(target: Target) -> Iterator[Place]:
    """A machine in use until the end of the block."""
    place: Place = LocalMachine() if target.ssh is None else ssh.connect(target.ssh, target.name)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def use(targets: Sequence[Target]) -> Iterator[list[Place]]:
    """Machines in use until the end of the block.

    At Ctrl-C one that is silent is not waited for.
    """
    with ExitStack() as stack:
        places = [stack.enter_context(_place(target)) for target in targets]
        with hurrying(places):
            yield places


@contextmanager
def hurrying(places: Sequence[Place]) -> Iterator[None]:
    """At Ctrl-C give up machines that are silent, before anybody is waited for."""
    try:
        yield
    except KeyboardInterrupt:
        for place in places:
            if isinstance(place, SshMachine):
                place.hurry()
        raise


def ask(place: Place, order: Mapping[str, object], event: str) -> Message:
    """Give an order to the role `settings` on a machine; its answer.

    Raises
    ------
    Refused : it did nothing.
    TrialError : it is gone, or silent.
    """
    with place.start("settings") as role, hurrying([place]):
        role.tell(order)
        end = time.monotonic() + _ANSWER_S
        while True:
            for message in role.take():
                if message.get("event") == event:
                    return message
                if message.get("event") == "refused":
                    raise Refused(place.name, message["because"], message["reason"])
                if message.get("event") == "error":
                    raise TrialError(f"{place.name}: {message.get('reason')}", "refused")
            if role.ended:
                raise TrialError(role.death(), role.kind)
            if time.monotonic() > end:
                raise TrialError(f"{place.name}: no answer within {_ANSWER_S:g} s")
            select.select([role], [], [], max(0.0, end - time.monotonic()))
