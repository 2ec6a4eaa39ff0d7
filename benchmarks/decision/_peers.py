"""Optimisers that others wrote, asked the same question: Optuna's TPE and GP, SMAC3, irace.

Not a benchmark, and none of them a dependency. Install them beside the environment, into a folder of their
own, and name it with --peers (GPSampler needs PyTorch, which is large):

    python -m pip install --target /tmp/peers optuna smac torch

What is not there is skipped, and listed as skipped. irace needs R; it asks by running a command of its own
for every trial, and is not driven from here.

They choose from the same arms, as subflows x congestion control (two categories), and buffers (an integer,
the index into the grid, which is geometric). Two things to minimise were tried on the development networks
(random-1 to random-10): the miss of the throughput alone, or with a price for the buffer (2 % of the
throughput for each factor of 1.25, as in the targets of the benchmark). With the throughput alone
TPE and GP found more good answers: they look around the best, and the smallest sufficient buffer is read from
what they saw. SMAC3 did better with the price. Likewise tried were 10, 24 and 40 random trials to begin with,
up to 3 or 8 runs of a configuration (SMAC3), and another reading of the answer (the belief of the adaptive
strategy after the same trials). What is compared is the best of these.

They receive throughputs as shares of the best mean so far; when that mean changes by more than 1 %, they
receive all earlier results again, rescaled.
"""

import importlib
import importlib.util
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.decision._replay import LARGER, ROOM, Plan, Setting

#: A miss weighs this many times a larger buffer, up to `MOST`: a throughput that misses by far is worth less
#: than any buffer, however far.
SLOWER, MOST = 3.0, 1.5

#: A change of the best mean by this share changes what everything is worth.
CHANGED = 0.01


#: Points that SMAC3 compares before each trial.
CHALLENGERS = 500


class Space(NamedTuple):
    """The choices: sets of subflows (with their path manager), congestion controls, buffers.

    Attributes
    ----------
    arms : index by set and congestion control.
    """

    sets: tuple[str, ...]
    ccs: tuple[str, ...]
    sizes: int
    arms: dict[tuple[str, str], int]

    @classmethod
    def of(cls, setting: Setting) -> "Space":
        """Every set must come with every congestion control."""
        words = [
            ("+".join((arm.combination.manager, *arm.combination.subflows)), arm.combination.cc)
            for arm in setting.known.arms
        ]
        sets, ccs = (tuple(dict.fromkeys(ones)) for ones in zip(*words, strict=True))
        assert len(words) == len(sets) * len(ccs), "an arm is missing"
        return cls(sets, ccs, len(setting.known.buffers), {word: i for i, word in enumerate(words)})


class Objective:
    """The worths of trials, rescaled when the best is known.

    Parameters
    ----------
    weight : of the buffer; 0 to maximise the throughput alone.
    """

    def __init__(self, setting: Setting, weight: float = 0.0) -> None:
        steps = np.log(np.array(setting.known.buffers) / setting.known.buffers[0]) / math.log(LARGER)
        self._larger, self._kept = weight * ROOM * steps, 1 - setting.sacrifice if weight else 1.0
        self._seen: dict[tuple[int, int], list[float]] = {}
        self._best = 0.0

    def noted(self, place: tuple[int, int], mbps: float) -> bool:
        """True if all worths changed."""
        self._seen.setdefault(place, []).append(mbps)
        best = max(sum(values) / len(values) for values in self._seen.values())
        if abs(best - self._best) <= CHANGED * self._best:
            return False
        self._best = best
        return True

    def loss(self, place: tuple[int, int], mbps: float) -> float:
        """To be minimised."""
        allowed = max(self._kept * self._best, 1e-9)
        return min(SLOWER * max(0.0, 1 - mbps / allowed), MOST) + float(self._larger[place[1]])


def optuna(setting: Setting, sampler: Callable[[Any], Any], weight: float) -> Plan:
    """Ask and tell."""
    package = importlib.import_module("optuna")
    package.logging.set_verbosity(package.logging.ERROR)
    space, objective = Space.of(setting), Objective(setting, weight)
    distributions = {
        "subflows": package.distributions.CategoricalDistribution(space.sets),
        "cc": package.distributions.CategoricalDistribution(space.ccs),
        "buffer": package.distributions.IntDistribution(0, space.sizes - 1),
    }
    chosen, reports = sampler(package.samplers), []
    study = package.create_study(sampler=chosen)
    while True:
        trial = study.ask(distributions)
        place = space.arms[trial.params["subflows"], trial.params["cc"]], trial.params["buffer"]
        mbps = yield place
        reports.append((trial.params, place, mbps))
        if not objective.noted(place, mbps):
            study.tell(trial, objective.loss(place, mbps))
            continue
        study = package.create_study(sampler=chosen)
        study.add_trials(
            [
                package.trial.create_trial(
                    params=params, distributions=distributions, value=objective.loss(where, value)
                )
                for params, where, value in reports
            ]
        )


def tpe(setting: Setting, *, weight: float = 0.0, startup: int = 10) -> Plan:
    """Tree-structured Parzen estimators (Bergstra et al., NIPS 2011), all parameters together."""

    def sampler(samplers: Any) -> Any:
        return samplers.TPESampler(seed=setting.seed, multivariate=True, n_startup_trials=startup)

    return optuna(setting, sampler, weight)


def gp(setting: Setting, *, weight: float = 0.0, startup: int = 24) -> Plan:
    """A Gaussian process with noise, and the logarithm of the expected improvement."""

    def sampler(samplers: Any) -> Any:
        return samplers.GPSampler(seed=setting.seed, n_startup_trials=startup, deterministic_objective=False)

    return optuna(setting, sampler, weight)


def smac(setting: Setting, *, weight: float = 1.0, startup: int = 10, calls: int = 3) -> Plan:
    """SMAC3's facade for hyperparameters (Lindauer et al., JMLR 23, 2022): a random forest.

    The forest is the facade's, but with one thread: starting more takes longer than what they do. It learns
    the logarithm of the cost, hence the 1: a miss by a thousandth is no better than one by a hundredth.
    """
    spaces, package = importlib.import_module("ConfigSpace"), importlib.import_module("smac")
    worth = importlib.import_module("smac.runhistory.dataclasses").TrialValue
    forest = importlib.import_module("smac.model.random_forest").RandomForest
    facade_of = package.HyperparameterOptimizationFacade
    space, objective = Space.of(setting), Objective(setting, weight)
    choices = spaces.ConfigurationSpace(seed=setting.seed)
    choices.add(
        spaces.Categorical("subflows", space.sets),
        spaces.Categorical("cc", space.ccs),
        spaces.Integer("buffer", (0, space.sizes - 1)),
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about joblib
        scenario = package.Scenario(
            choices,
            seed=setting.seed,
            deterministic=False,
            n_trials=10**6,
            output_directory=Path(folder),
        )
        facade = facade_of(
            scenario,
            target_function=lambda config, seed=0: 0.0,
            initial_design=facade_of.get_initial_design(scenario, n_configs=startup),
            model=forest(
                choices,
                log_y=True,
                n_trees=10,
                ratio_features=1.0,
                min_samples_split=2,
                min_samples_leaf=1,
                seed=setting.seed,
                n_jobs=1,
            ),
            # The space has some hundreds of points: thousands of challengers only take time.
            acquisition_maximizer=facade_of.get_acquisition_maximizer(scenario, challengers=CHALLENGERS),
            intensifier=facade_of.get_intensifier(scenario, max_config_calls=calls),
            overwrite=True,
            logging_level=50,
        )
        reports = []
        while True:
            info = facade.ask()
            place = space.arms[info.config["subflows"], info.config["cc"]], int(info.config["buffer"])
            mbps = yield place
            reports.append((info, place, mbps))
            changed = objective.noted(place, mbps)
            facade.tell(info, worth(cost=1 + objective.loss(place, mbps)), save=False)
            for earlier, where, value in reports if changed else ():
                cost = 1 + objective.loss(where, value)
                facade.runhistory.add(earlier.config, cost, seed=earlier.seed, force_update=True)


class Peer(NamedTuple):
    """A peer as it is compared: its plan, what it needs, and whether it thinks for long."""

    plan: Callable[..., Plan]
    needs: tuple[str, ...]
    slow: bool = False


PEERS: dict[str, Peer] = {
    "Optuna, TPE": Peer(tpe, ("optuna",)),
    "Optuna, GP": Peer(gp, ("optuna", "torch"), slow=True),
    "SMAC3": Peer(smac, ("smac",), slow=True),
}


def reachable(folders: Sequence[Path]) -> None:
    """Let Python find packages in these folders, after its own."""
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]


def missing(peer: Peer) -> list[str]:
    """Missing requirements."""
    return [need for need in peer.needs if importlib.util.find_spec(need) is None]
