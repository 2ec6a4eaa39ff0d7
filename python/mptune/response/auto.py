"""The model that best predicts what it has not seen: chosen among the others by cross-validation.

Observations are held out by buffer *and* by run: a fold leaves out some buffers and some runs, the
models are fitted to the other buffers of the other runs, and are judged by the left-out runs at the
left-out buffers.

- By buffer, because an optimum lies between the swept buffers. If only runs were held out, a curve through
every mean would win, whatever it does between them.
- By run too, because runs with the same number share their seed in all configurations: with one of them in
the fit, a model could seem to predict what it has only seen at the neighbouring buffer.
- The smallest and the largest buffer are never held out: no answer lies beyond them, and how a
  model extrapolates should not decide.

One model is chosen for all combinations, by the squared error over all of them in Mbit/s, since they are
later compared with one another on that scale.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mptune.errors import MptuneError
from mptune.response._base import Curve, Mean, ModelError, Response, ResponseModel, Sample, means
from mptune.trial import Combination

#: Folds by buffer and by run; fewer where there are fewer.
BUFFER_FOLDS = 5
RUN_FOLDS = 3


class Auto:
    """Fits the candidate with the smallest cross-validated error.

    Parameters
    ----------
    candidates : name -> model, the simplest first; the first of equal ones is chosen.
    uneven : fitted where no candidate can be judged, because some combinations have too few buffers.
    """

    name = "auto"
    #: Two ends, and one to hold out.
    min_buffers = 3
    is_formula = False

    def __init__(self, candidates: Mapping[str, ResponseModel], uneven: ResponseModel) -> None:
        self.candidates, self._uneven = candidates, uneven

    def fit(self, samples: Sequence[Sample]) -> Response:
        """Compare the candidates and fit the best to all observations.

        Raises
        ------
        MptuneError : nothing was delivered at all.
        """
        errors = tuple(cross_validate(model, samples) for model in self.candidates.values())
        judged = [error for error in errors if error.rms_mbps is not None]
        if not judged:
            return msgspec.structs.replace(self._uneven.fit(samples), comparison=errors)
        best = min(judged, key=lambda error: error.rms_mbps or 0.0)
        return msgspec.structs.replace(self.candidates[best.model].fit(samples), comparison=errors)

    def curves(self, configurations: Sequence[Mean]) -> dict[Combination, Curve]:
        """Refuse: the choice needs runs, which means do not have.

        Raises
        ------
        TypeError : always. Ask the model that `fit` has chosen.
        """
        raise TypeError("auto has no curves of its own")


def cross_validate(model: ResponseModel, samples: Sequence[Sample]) -> ModelError:
    """Error of a model at held-out buffers and runs."""
    squares: dict[str, list[float]] = {}
    try:
        for train, test in _folds(samples):
            curves = model.curves(means(train))
            for sample in test:
                residual = sample.value - curves[sample.combination].predict(sample.buffer_mib)
                squares.setdefault(sample.combination.pm, []).append(residual**2)
    except (MptuneError, KeyError):
        squares = {}
    every = [square for ones in squares.values() for square in ones]
    return ModelError(
        model=model.name,
        rms_mbps=_rms(every) if every else None,
        by_pm={pm: _rms(ones) for pm, ones in squares.items()},
    )


def _folds(samples: Sequence[Sample]) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """Training and test observations of every fold that has both."""
    inner = sorted({sample.buffer_mib for sample in samples})[1:-1]
    runs = sorted({sample.run for sample in samples})
    buffer_fold = {buffer: i % BUFFER_FOLDS for i, buffer in enumerate(inner)}
    run_fold = {run: i % RUN_FOLDS for i, run in enumerate(runs)}
    for b in sorted(set(buffer_fold.values())):
        for r in sorted(set(run_fold.values())):
            test = [s for s in samples if buffer_fold.get(s.buffer_mib) == b and run_fold[s.run] == r]
            # A single run cannot be held out: nothing would be left to fit.
            train = [
                s
                for s in samples
                if buffer_fold.get(s.buffer_mib) != b and (len(runs) == 1 or run_fold[s.run] != r)
            ]
            if train and test:
                yield train, test


def _rms(squares: Sequence[float]) -> float:
    """Root of the mean."""
    return math.sqrt(math.fsum(squares) / len(squares))
