"""A trial in a guest, by the testbed namespaces.

`python -m mptune.testbeds._virtual_inside` is the guest's first process.
"""

import base64
import pickle
from typing import Any

import msgspec

from mptune.errors import InputError, MptuneError
from mptune.guest import inside
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.trial import Observation, Trial


class Refused(msgspec.Struct, frozen=True):
    """Why the guest would not run a trial; `parts` are those of an InputError."""

    message: str
    parts: tuple[str, str, str] | None = None


class Answer(msgspec.Struct, frozen=True):
    """What a guest gives back."""

    observation: Observation | None = None
    refused: Refused | None = None


def work(trial: Trial, phase_ns: int) -> dict[str, object]:
    """A trial as the work of a guest."""
    return {"trial": base64.b64encode(pickle.dumps(trial)).decode(), "phase_ns": phase_ns}


def _run(work: dict[str, Any]) -> bytes:
    # It comes from the same package on the same machine, by a file that nobody else may write.
    trial: Trial = pickle.loads(base64.b64decode(work["trial"]))
    try:
        answer = Answer(observation=NamespacesTestbed().run(trial))
    except InputError as error:
        answer = Answer(refused=Refused(str(error), (error.where, error.key, error.expected)))
    except MptuneError as error:
        answer = Answer(refused=Refused(str(error)))
    return msgspec.json.encode(answer)


if __name__ == "__main__":
    inside.serve(_run)
