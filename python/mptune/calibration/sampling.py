"""An ensemble of parameters that moves from the prior to the posterior, with few evaluations of the model.

First an iterated ensemble smoother: the ensemble's own covariances between parameters and results give how to
move each member towards the data (ensemble smoother with multiple data assimilation; Emerick and Reynolds,
Computers & Geosciences 55, 2013). It reaches the right region within a few evaluations of each member, but
takes the model for linear. Then sweeps of differential evolution MCMC (ter Braak, Statistics and Computing
16, 2006), whose steps are accepted by the posterior itself.

Parameters are standard normal before any data. The model is any function of them; what it means is not known
here. The same seed gives the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from mptune.calibration.likelihood import DEGREES, Floats, log_likelihood

#: Steps of the smoother; each uses the data with this multiple of their variance.
_STEPS: Final = 4

#: Members of the ensemble: a share of the evaluations, within bounds.
_MEMBER_SHARE, _FEWEST, _MOST = 0.1, 24, 160

#: Sampled correlations below this many times 1 / sqrt(members) are taken for noise.
_NOISE: Final = 1.5

#: Bound of a parameter, standard deviations of its prior.
_BOUND: Final = 3.5

#: Share of steps of the chain that draw some parameters anew from the prior.
_ANEW: Final = 0.3

#: Sweeps at the end whose members all count.
_KEPT: Final = 3

#: From (networks, parameters) to (networks, errors).
Model = Callable[[Floats], Floats]


class Ensemble(msgspec.Struct):
    """Members, and everything evaluated on the way.

    Attributes
    ----------
    members : (members, parameters); after the last sweeps those of several.
    evaluated, posteriors : all parameters that were evaluated, with the logarithm of their posterior.
    """

    members: Floats
    evaluated: Floats
    posteriors: Floats
    complete: bool = False

    @property
    def best(self) -> Floats:
        """The likeliest parameters that were evaluated."""
        return np.asarray(self.evaluated[int(np.argmax(self.posteriors))])


def evaluations(budget: int) -> tuple[int, int]:
    """Members and sweeps of a number of evaluations."""
    members = int(np.clip(round(budget * _MEMBER_SHARE), _FEWEST, _MOST))
    return members, max(1, (budget - (_STEPS + 1) * members) // members)


def sample(model: Model, scales: Floats, stated: Sequence[float], budget: int, seed: int) -> Ensemble:
    """Sample the posterior of parameters.

    Parameters
    ----------
    model : errors of many parameters at once, in the order of `scales`.
    scales : of the errors.
    stated : the parameters that are believed without data: the first member.
    budget : evaluations of the model, roughly.

    Returns
    -------
    Ensemble
        Incomplete if Ctrl-C came after the first evaluations; before that it is raised.
    """
    rng = np.random.default_rng(seed)
    number, sweeps = evaluations(budget)
    members = _first(number, stated, rng)
    errors = model(members)
    ensemble = Ensemble(members, members, posterior(members, errors / scales))
    try:
        for _ in range(_STEPS):
            members = _moved(members, errors, scales, rng)
            errors = model(members)
            _note(ensemble, members, posterior(members, errors / scales))
            ensemble.members = members
        _sweeps(ensemble, model, scales, sweeps, rng)
        ensemble.complete = True
    except KeyboardInterrupt:
        pass
    return ensemble


def _first(number: int, stated: Sequence[float], rng: np.random.Generator) -> Floats:
    """Members of the prior: the stated values, and a Latin hypercube."""
    from scipy.special import ndtri

    count = len(stated)
    cells = np.argsort(rng.random((count, number)), axis=1).T
    members = np.asarray(ndtri((cells + rng.random((number, count))) / number))
    members[0] = stated
    return np.asarray(np.clip(members, -_BOUND, _BOUND))


def _moved(members: Floats, errors: Floats, scales: Floats, rng: np.random.Generator) -> Floats:
    """One step of the smoother."""
    number = len(members)
    from_mean, spread = members - members.mean(axis=0), errors - errors.mean(axis=0)
    cross = from_mean.T @ spread / (number - 1)
    deviations = np.outer(from_mean.std(axis=0, ddof=1), spread.std(axis=0, ddof=1))
    correlations = np.abs(cross) / np.maximum(deviations, 1e-12)
    cross = cross * np.clip(correlations * np.sqrt(number) / _NOISE - 0.5, 0.0, 1.0)
    # An error that is far from what any member has counts less, as Student's t has it.
    variance = spread.var(axis=0, ddof=1)
    far = errors.mean(axis=0) ** 2 / (scales**2 + 4 * variance)
    noise = _STEPS * scales**2 * np.maximum(1.0, (DEGREES + far) / (DEGREES + 1))
    covariance = spread.T @ spread / (number - 1) + np.diag(noise)
    wanted = -errors + rng.standard_normal(errors.shape) * np.sqrt(noise)
    step = np.linalg.solve(covariance, wanted.T).T @ cross.T
    return np.asarray(np.clip(members + step, -_BOUND, _BOUND))


def _sweeps(ensemble: Ensemble, model: Model, scales: Floats, sweeps: int, rng: np.random.Generator) -> None:
    """Differential evolution of the members, in place; the last sweeps are kept."""
    members = ensemble.members.copy()
    number, count = members.shape
    posteriors = ensemble.posteriors[-number:].copy()
    kept = []
    for sweep in range(sweeps):
        proposed = members.copy()
        correction = np.zeros(number)
        for i in range(number):
            if rng.random() < _ANEW:
                some = rng.permutation(count)[: rng.integers(1, max(2, count // 3) + 1)]
                proposed[i, some] = np.clip(rng.standard_normal(len(some)), -_BOUND, _BOUND)
                # Drawn from the prior, so that the likelihood alone decides.
                correction[i] = _prior(members[i]) - _prior(proposed[i])
            else:
                a, b = rng.choice(np.delete(np.arange(number), i), 2, replace=False)
                some = np.flatnonzero(rng.random(count) < rng.choice([0.3, 0.6, 1.0]))
                length = 1.0 if rng.random() < 0.1 else 2.38 / np.sqrt(2 * max(1, len(some)))
                step = length * (members[a] - members[b]) + 0.02 * rng.standard_normal(count)
                proposed[i, some] += step[some]
        inside = np.all(np.abs(proposed) <= _BOUND, axis=1)
        proposed[~inside] = members[~inside]
        errors = model(proposed)
        fresh = posterior(proposed, errors / scales)
        accepted = np.log(rng.random(number)) < fresh - posteriors + correction
        members[accepted], posteriors[accepted] = proposed[accepted], fresh[accepted]
        _note(ensemble, proposed, fresh)
        if sweep >= sweeps - _KEPT:
            kept.append(members.copy())
        ensemble.members = np.concatenate(kept) if kept else members.copy()


def _note(ensemble: Ensemble, members: Floats, posteriors: Floats) -> None:
    ensemble.evaluated = np.concatenate([ensemble.evaluated, members])
    ensemble.posteriors = np.concatenate([ensemble.posteriors, posteriors])


def _prior(u: Floats) -> Floats:
    """Logarithm of the standard normal density, up to a constant."""
    return np.asarray(-0.5 * (u**2).sum(axis=-1))


def posterior(u: Floats, scaled: Floats) -> Floats:
    """Logarithm of the posterior, up to a constant, of parameters and their errors over the scales."""
    return _prior(u) + log_likelihood(scaled)
