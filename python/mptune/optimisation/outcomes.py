"""The kinds of results of the main job: one for each kind of question."""

from mptune.optimisation.by_objective import ObjectiveResult
from mptune.optimisation.by_size import SizesResult
from mptune.optimisation.main_job import Result

#: Throughput, transfers of some sizes, or messages.
Outcome = Result | SizesResult | ObjectiveResult
