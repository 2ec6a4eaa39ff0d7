"""The simulator's error learnt from a drawn set: coverage where the errors are known, and pooling."""

import importlib
import math
import random

import pytest

from mptune.decision.kinds import factors, loss_regime, outside
from mptune.statistics import log_mean_variance

COUNTS = ("1", "2", "3 or 4", "5 to 8")
#: Factors as of the candidate with all of them.
ALL = dict.fromkeys(("buffer", "loss", "congestion control", "buffer mode", "sent"), 0.25) | {"subflows": 1.0}
#: True spreads.
SPREADS = {"1": 0.02, "2": 0.05, "3 or 4": 0.1, "5 to 8": 0.3}


@pytest.fixture
def learning(monkeypatch):
    return importlib.import_module("benchmarks.fidelity._drawn_error")


@pytest.fixture
def made(learning):
    """Errors of made-up networks: what a network has in common, and what each configuration has itself."""

    def made(networks, seed, *, heavy=True, centre=0.0, scatter=0.0):
        chance = random.Random(seed)
        errors = []
        for network in range(networks):
            common = chance.gauss(0, 0.3)
            for _ in range(8):
                count = chance.choice(COUNTS)
                kind = {
                    "subflows": count,
                    "buffer": chance.choice(["0.1 to 0.3", "2.7 to 8"]),
                    "loss": chance.choice(["none", "heavy"]),
                    "congestion control": chance.choice(["reno", "cubic", "olia", "bbr"]),
                    "buffer mode": chance.choice(["fixed", "auto"]),
                    "sent": "saturated",
                }
                far = chance.gauss(0, 1) / (math.sqrt(chance.gammavariate(1.5, 2) / 3) if heavy else 1.0)
                log = SPREADS[count] * (0.9 * far + common + centre) + chance.gauss(0, scatter)
                errors.append(learning.Error(f"n{network}", kind, log, scatter**2, 50.0, 50 * math.exp(log)))
        return errors

    return made


def held(learnt, errors):
    """Share of the kernel's means of a fresh draw inside, and by number of subflows."""
    inside: dict[str, list[bool]] = {count: [] for count in COUNTS}
    for error in errors:
        low, high = learnt.scale.interval(error.simulated, error.kind, error.variance)
        inside[error.kind["subflows"]].append(low <= error.kernel <= high)
    every = [hit for hits in inside.values() for hit in hits]
    return sum(every) / len(every), {count: sum(hits) / len(hits) for count, hits in inside.items()}


class TestCoverage:
    @pytest.mark.parametrize("heavy", [False, True])
    def test_a_fresh_draw_is_inside_as_often_as_stated(self, learning, made, heavy):
        """Over several draws: one alone has the luck of its networks."""
        errors = [
            held(learning.learn(made(28, seed, heavy=heavy)), made(60, seed + 1000, heavy=heavy))[0]
            for seed in range(4)
        ]
        assert 0.92 <= sum(errors) / len(errors) <= 0.975

    def test_every_number_of_paths_is_covered(self, learning, made):
        """One width for all would hold everything on one path, and too little on many."""
        _, by_count = held(learning.learn(made(40, 1)), made(200, 2))
        assert all(0.86 <= share <= 1.0 for share in by_count.values()), by_count

    def test_networks_left_out_predict_the_coverage_of_a_fresh_draw(self, learning, made):
        learnt = learning.learn(made(40, 3))
        checked = sum(check.inside for check in learnt.checked) / len(learnt.checked)
        assert abs(checked - held(learnt, made(200, 4))[0]) < 0.05

    def test_scatter_of_the_runs_is_no_error_of_the_model(self, learning, made):
        """Where runs scatter by more than the model errs, the spread stays the model's."""
        noisy = learning.fit(made(60, 5, heavy=False, scatter=0.1), ALL)
        error = next(candidate for candidate in made(60, 5) if candidate.kind["subflows"] == "1")
        assert noisy.spread(error.kind) < 0.06


class TestPooling:
    def test_spreads_differ_where_there_are_many(self, learning, made):
        fitted = learning.fit(made(60, 6, heavy=False), ALL)
        effects = fitted.effects["subflows"]
        assert 0.5 < (effects["5 to 8"] - effects["1"]) / math.log(15) < 1.3

    def test_a_single_case_has_little_effect(self, learning, made):
        """A regime with one large error keeps to the whole; with many it does not."""
        errors = made(20, 7, heavy=False)
        kind = errors[0].kind | {"congestion control": "vegas"}

        def effect(number):
            log = 4 * SPREADS[kind["subflows"]]
            more = [learning.Error(f"n{n}", kind, log, 0.0, 50.0, 50 * math.exp(log)) for n in range(number)]
            return learning.fit([*errors, *more], ALL).effects["congestion control"]["vegas"]

        assert 0 < effect(1) < 0.3 < effect(12)

    def test_factors_that_matter_are_selected_and_others_left(self, learning, made):
        """The true spreads differ by a factor of 15 with the subflows, and by nothing else."""
        assert learning.learn(made(28, 14)).strengths.get("subflows")
        alike = [error for error in made(60, 15) if error.kind["subflows"] == "2"]
        assert learning.learn(alike).strengths == {}

    def test_what_is_no_different_has_no_effect(self, learning, made):
        """The true spread depends on the paths alone."""
        effects = learning.fit(made(100, 8, heavy=False), ALL).effects
        assert all(abs(value) < 0.25 for value in effects["loss"].values())
        assert effects["sent"]["saturated"] == pytest.approx(0.0, abs=0.15)

    def test_a_few_huge_errors_do_not_widen_everything(self, learning, made):
        errors = made(28, 9, heavy=False)
        wild = [error._replace(log=3.0, kernel=50 * math.exp(3.0)) for error in errors[:3]]
        calm, shaken = (
            learning.fit(some, ALL).spread(errors[-1].kind) for some in (errors, [*wild, *errors[3:]])
        )
        assert shaken < 2 * calm


class TestTheCentre:
    def test_it_is_0_unless_the_networks_prove_otherwise(self, learning, made):
        assert learning.learn(made(28, 10)).scale.centre == 0.0

    def test_an_error_in_one_direction_moves_it(self, learning, made):
        assert learning.learn(made(28, 11, centre=1.0)).scale.centre > 0.3


class TestTheDocument:
    def test_too_few_are_refused(self, learning, made):
        with pytest.raises(SystemExit, match="expected at least"):
            learning.learn(made(3, 12))

    def test_the_order_of_the_configurations_means_nothing(self, learning, made):
        errors = made(10, 13)
        fitted, other = (learning.fit(some, ALL) for some in (errors, errors[::-1]))
        assert fitted.base == pytest.approx(other.base, abs=1e-3)

    def test_means_that_change_change_the_digest(self, learning):
        assert learning.digest([1.0, 2.0]) != learning.digest([1.0, 2.001])

    def test_what_was_drawn_was_compared_and_is_of_the_regime_it_was_dealt(
        self, learning, tmp_path, monkeypatch
    ):
        drawing = importlib.import_module("benchmarks.fidelity._drawn")
        drawn = list(drawing.networks(5, 24, 8, 10**10, tmp_path))
        cases = [case for network in drawn for case in network.cases]
        compared = learning.compared(cases, 10**10)
        for case in cases:
            assert not outside(case.trial, compared)
            assert (loss_regime(case.trial.topology),) == case.factors["loss"]
            shared = {name: value for name, value in factors(case.trial).items() if name in case.factors}
            assert {name: (value,) for name, value in shared.items()} == {
                name: case.factors[name] for name in shared
            }


def test_an_interval_score_is_the_width_and_what_is_missed(learning):
    """Of an interval of a factor e about the truth, and of one that misses by a factor e."""
    error = learning.Error("n", {}, 0.0, 0.0, 1.0, 1.0)
    inside = learning.Checked(error, math.exp(-0.5), math.exp(0.5))
    outside_ = learning.Checked(error, math.e, math.e**2)
    assert learning.score([inside]) == pytest.approx(1.0)
    assert learning.score([inside, outside_]) == pytest.approx((1 + 1 + 40) / 2)


def test_scatter_of_both_means_is_counted():
    """Of 4 values with a variance of 4 / 3 about a mean of 10, and of a mean of 2 further ones."""
    assert log_mean_variance([9.0, 9.0, 11.0, 11.0], 2) == pytest.approx(4 / 3 / 100 * (1 / 4 + 1 / 2))
    assert log_mean_variance([9.0], 2) == 0.0
