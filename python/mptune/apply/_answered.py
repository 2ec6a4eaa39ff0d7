"""The parts of a finished run that matter to machines: its answer, its network, and its testbed.

It reads and checks; what follows for the machines is `mptune.apply.plan`'s business.
"""

from pathlib import Path
from typing import Any

import msgspec

from mptune.errors import InputError
from mptune.files import name_of
from mptune.result.answer import Answer, settings_of
from mptune.result.reading import read_run
from mptune.result.run_data import RunData
from mptune.topology import REVERSED, Topology
from mptune.trial import DEFAULT_FAMILY

#: Beginning of the titles of stacks that are not upstream's (`mptune.trial.stacks.title`).
_NOT_LINUX = "MPTCP "


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A run with one answer for one network.

    Attributes
    ----------
    answer : of an answer by an objective what it sets (`mptune.result.answer.settings_of`).
    topology : as measured: its sender sends the data.
    """

    directory: Path
    run: RunData
    answer: Answer
    topology: Topology

    @property
    def testbed(self) -> str:
        """The testbed of the run; empty if that is unknown."""
        return str(self.options.get("testbed") or "")

    @property
    def options(self) -> dict[str, Any]:
        """Of the run, as the user gave them."""
        return self.run.config.options

    @property
    def objective(self) -> str:
        """Objective of the answer; empty for throughput."""
        return "" if self.run.by_objective is None else self.run.by_objective.objective

    @property
    def is_reversed(self) -> bool:
        """True if data go to the file's sender: a download by whoever opens the connections."""
        return self.topology.name.endswith(REVERSED)

    @property
    def other_stack(self) -> str:
        """Whose MPTCP was measured, where that is not upstream Linux as it is; empty otherwise."""
        stack = self.answer.stack or ""
        return stack if stack.startswith(_NOT_LINUX) or " with " in stack else ""

    @property
    def omegas(self) -> dict[str, float]:
        """Mean impact factors under the answer's congestion control, by path, as far as they are known."""
        for impact in self.run.impact:
            if impact.cc == self.answer.occ:
                means = ((path, omega.get("mean")) for path, omega in impact.omega.items())
                return {path: mean for path, mean in means if mean is not None}
        return {}


def read_answered(directory: Path) -> Answered:
    """Read a run directory.

    Raises
    ------
    InputError : as `read_run`, or the run has not one answer for one network.
    """
    where = str(directory)
    run = read_run(directory, name_of(directory))
    if run.by_size is not None:
        expected = "expected one answer for the machine, found one for each size of transfer; "
        raise InputError(where, "result.json", f"{expected}`mptune exec` sets one for a single program")
    answer = run.answer if run.by_objective is None else settings_of(run.by_objective)
    if answer is None:
        raise InputError(where, "", "expected a run with an answer (mptune optimise), found a sweep")
    if run.topology is None:
        expected = "expected a run with a topology: measurements made elsewhere name no machines"
        raise InputError(where, "config.json: topology", expected)
    topology = run.topology.over(answer.family or DEFAULT_FAMILY)
    return Answered(directory=directory, run=run, answer=answer, topology=topology)
