"""The interface of a testbed: `run(trial) -> Observation`.

It stands between the users of trials (campaigns, impact factors, the CLI) and the places where they are
measured (simulator, kernel namespaces, hosts). A new testbed is one file next to this one and one line in
`mptune.testbeds`.
"""

from typing import Protocol

from mptune.trial import Observation, Trial


class Testbed(Protocol):
    """Where trials are run."""

    name: str
    #: Number of trials that can run in parallel without disturbing each other (None: one per core).
    parallel: int | None

    def run(self, trial: Trial) -> Observation:
        """Run one trial.

        Raises
        ------
        InputError : the trial itself is impossible (unknown path, buffer below one segment).
        """
        ...
