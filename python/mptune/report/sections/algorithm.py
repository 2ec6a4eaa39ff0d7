"""The section of MPCOA's Algorithm 1: what each step gave, under the number of its equation."""

from collections.abc import Iterator

from mptune.report.choices import Choices
from mptune.report.sections._base import Section, Table
from mptune.result.run_data import RunData


def algorithm(run: RunData, choices: Choices) -> Iterator[Section]:
    """The steps of a run with --as-papers."""
    steps = () if run.answer is None else run.answer.algorithm
    if not steps:
        return
    rows = [{"step": step.step, "equation": step.equation, "outcome": step.outcome} for step in steps]
    yield Section(
        name="algorithm",
        title="Algorithm 1",
        lead="MPCOA (Electronics 2021), section 3: the steps with their equations, and what each gave. The "
        "confirmation and whatever else the report shows are not part of the paper's algorithm.",
        open=[Table(title="Steps", rows=rows, source="result.json")],
    )
