"""Sessions with several machines, ended with the block; Ctrl-C does not wait for one that is silent."""

from collections.abc import Iterator
from contextlib import contextmanager

from mptune.machines.ssh import SshMachine

#: Seconds within which a host restores its settings that nobody speaks to any more: 8 s of silence, and time
#: to do it.
ALONE_S = 10


@contextmanager
def ended(machines: list[SshMachine]) -> Iterator[None]:
    """End the sessions in the list with the block; the block adds to it.

    Raises
    ------
    KeyboardInterrupt : Ctrl-C; its notes name any host that could not be reached.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        for machine in machines:
            machine.hurry()
        _close(machines)
        for sentence in unheard(machines):
            error.add_note(sentence)
        raise
    except BaseException:
        _close(machines)
        raise
    else:
        _close(machines)


def _close(machines: list[SshMachine]) -> None:
    for machine in reversed(machines):
        machine.close()


def unheard(machines: list[SshMachine]) -> list[str]:
    """A sentence about each host whose session ended without its farewell."""
    return [
        f"{machine.name} could not be reached; it restores its settings within {ALONE_S} s"
        for machine in machines
        if machine.unheard
    ]
