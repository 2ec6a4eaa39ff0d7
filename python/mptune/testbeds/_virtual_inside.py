"""A trial in a guest, by the testbed namespaces.

`python -m mptune.testbeds._virtual_inside` is the guest's first process.
"""

import base64
import pickle
from pathlib import Path
from typing import Any

import msgspec

from mptune.errors import InputError, MptuneError
from mptune.guest import inside
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.trial import Observation, Trial, memory

#: The file of the network's driver (crates/mptune-emulator/src/driver.rs).
_DRIVER = Path("/dev/mptune-network")

#: Pages that the kernel charges to all its TCP sockets: in a guest to those of both hosts.
_TCP_MEMORY = Path("/proc/sys/net/ipv4/tcp_mem")


class Refused(msgspec.Struct, frozen=True):
    """Why the guest would not run a trial; `parts` are those of an InputError."""

    message: str
    parts: tuple[str, str, str] | None = None


class Recorded(msgspec.Struct, frozen=True):
    """Packets and samples of a run, as the bytes of their tables (`mptune.capture.Run`)."""

    packets: bytes
    samples: bytes
    unrecorded: int


class Answer(msgspec.Struct, frozen=True):
    """Answer of a guest."""

    observation: Observation | None = None
    recorded: Recorded | None = None
    refused: Refused | None = None


def work(trial: Trial, begin_ns: int, *, record: bool, driver: bool = True) -> dict[str, object]:
    """A trial as the work of a guest.

    Parameters
    ----------
    begin_ns : when its network starts, after the guest's start.
    driver : the kernel emulates the network, if it can.
    """
    packed = base64.b64encode(pickle.dumps(trial)).decode()
    return {"trial": packed, "begin_ns": begin_ns, "record": record, "driver": driver}


def _measured(trial: Trial, begin_ns: int, *, record: bool) -> Answer:
    _TCP_MEMORY.write_text(" ".join(map(str, memory.BOTH_PAGES)))
    testbed = NamespacesTestbed(ready=lambda: inside.start_at(begin_ns), in_guest=True)
    if not record:
        return Answer(observation=testbed.run(trial))
    observation, run = testbed.record(trial)
    recorded = Recorded(run.packets.tobytes(), run.samples.tobytes(), run.unrecorded)
    return Answer(observation=observation, recorded=recorded)


def run(work: dict[str, Any]) -> bytes:
    """Run a trial in this guest; the `Answer`, as JSON."""
    # It comes from the same package on the same machine, by a file that nobody else may write.
    trial: Trial = pickle.loads(base64.b64decode(work["trial"]))
    if not work["driver"]:
        _DRIVER.unlink(missing_ok=True)
    try:
        answer = _measured(trial, work["begin_ns"], record=work["record"])
    except InputError as error:
        answer = Answer(refused=Refused(str(error), (error.where, error.key, error.expected)))
    except MptuneError as error:
        answer = Answer(refused=Refused(str(error)))
    return msgspec.json.encode(answer)


if __name__ == "__main__":
    inside.serve(run)
