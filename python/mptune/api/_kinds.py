"""Options of each function: the structs of its command, and the options that the command adds to them."""

from mptune.calibration import CalibrationOptions
from mptune.campaign.definition import SweepOptions
from mptune.decision.comparison import CompareOptions
from mptune.impact import ImpactOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.options import Options
from mptune.options.stacks import StackOptions
from mptune.options.trials import Cc, Jobs, MeasuringOptions, Reverse, Testbed
from mptune.papers.glm.analysis import AnalysisOptions
from mptune.runner.executors import ExecutorOptions
from mptune.runner.one_trial import RunOptions


class OneTrialOptions(Options, frozen=True, kw_only=True):
    """Testbed and execution of one trial."""

    testbed: Testbed = "simulated"
    reverse: Reverse = False


class ComparedOptions(Options, frozen=True, kw_only=True):
    """Testbed on which the simulator is compared with a kernel."""

    testbed: Testbed = "namespaces"
    reverse: Reverse = False
    jobs: Jobs = None


class OneCcOptions(Options, frozen=True, kw_only=True):
    """The one congestion control of impact factors."""

    cc: Cc = "cubic"


#: The structs whose options each function has as keywords.
KINDS: dict[str, tuple[type[Options], ...]] = {
    "run": (RunOptions, OneTrialOptions),
    "impact_factors": (ImpactOptions, OneCcOptions, MeasuringOptions, ExecutorOptions, StackOptions),
    "sweep": (SweepOptions, MeasuringOptions, ExecutorOptions),
    "optimise": (OptimiseOptions, MeasuringOptions, ExecutorOptions),
    "fit": (AnalysisOptions,),
    "calibrate": (CalibrationOptions,),
    "compare": (CompareOptions, ComparedOptions),
}

#: Other parameters of a function, by the flags that its command has for them.
OWN: dict[str, dict[str, str]] = {
    "run": {"--capture": "capture"},
    "sweep": {"--out": "out", "--force": "force"},
    "optimise": {"--out": "out", "--force": "force", "--as-papers": "as_papers"},
    "fit": {
        "--validate": "validate",
        "--throughput-unit": "throughput_unit",
        "--buffer-unit": "buffer_unit",
        "--column": "columns",
        "--factor": "factors",
        "--cc": "cc",
        "--model": "model",
        "--reference": "references",
        "--predict": "predict",
        "--solve": "solve",
        "--units": "units",
    },
    "calibrate": {"--out": "out", "--force": "force"},
}
