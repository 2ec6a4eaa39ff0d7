"""The ensemble against closed forms: what is determined, what is not, and the same numbers every time."""

import numpy as np
import pytest

from mptune.calibration.likelihood import Floats
from mptune.calibration.sampling import evaluations, sample

SCALES = np.array([0.1, 0.1, 0.1])


def line(u: Floats) -> Floats:
    """Three errors: two of u0, one of u1 + u2; u3 does nothing."""
    return np.stack([u[:, 0] - 0.8, u[:, 0] - 0.8, u[:, 1] + u[:, 2] - 1.0], axis=1)


def test_determined_undetermined_and_determined_together() -> None:
    ensemble = sample(line, SCALES, [0.0] * 4, 1200, 1)
    mean, spread = ensemble.members.mean(axis=0), ensemble.members.std(axis=0)
    assert mean[0] == pytest.approx(0.8, abs=0.06) and spread[0] < 0.15
    assert spread[3] == pytest.approx(1, abs=0.25)
    # Of the sum 1 each is 1/2 +- 1/sqrt(2), by symmetry.
    assert mean[1] == pytest.approx(0.5, abs=0.35) and 0.4 < spread[1] < 1.0
    both = ensemble.members[:, 1] + ensemble.members[:, 2]
    assert both.mean() == pytest.approx(1, abs=0.15) and both.std() < 0.25


def test_the_best_explains_the_data() -> None:
    assert np.abs(line(sample(line, SCALES, [0.0] * 4, 600, 3).best[None])).max() < 0.2


def test_one_wrong_number_does_not_decide() -> None:
    def model(u: Floats) -> Floats:
        right = np.repeat(u[:, :1] - 0.5, 5, axis=1)
        return np.concatenate([right, np.full((len(u), 1), 3.0) + 0.1 * u[:, :1]], axis=1)

    members = sample(model, np.full(6, 0.1), [0.0, 0.0], 800, 1).members
    assert members[:, 0].mean() == pytest.approx(0.5, abs=0.1)


def test_the_same_seed_gives_the_same_members_within_the_budget() -> None:
    counted = []

    def model(u: Floats) -> Floats:
        counted.append(len(u))
        return line(u)

    first = sample(model, SCALES, [0.0] * 4, 400, 5)
    assert sum(counted) <= 400
    again = sample(line, SCALES, [0.0] * 4, 400, 5)
    assert np.array_equal(first.members, again.members)
    assert not np.array_equal(first.members, sample(line, SCALES, [0.0] * 4, 400, 6).members)


def test_ctrl_c_keeps_what_is_known() -> None:
    calls = 0

    def model(u: Floats) -> Floats:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return line(u)

    ensemble = sample(model, SCALES, [0.0] * 4, 400, 5)
    assert not ensemble.complete and len(ensemble.evaluated) == 3 * evaluations(400)[0]
    assert np.isfinite(ensemble.best).all()

    def never(u: Floats) -> Floats:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sample(never, SCALES, [0.0] * 4, 400, 5)
