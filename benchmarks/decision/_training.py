"""Training of a small network of rectified units, in numpy.

Not a benchmark. Adam with decoupled decay of the weights (Loshchilov and Hutter, ICLR 2019), whose step
falls along half a cosine. A seed gives the same network on the same machine.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]

#: Of Adam: memories of the gradient and of its square; and the steps until the full one.
_FIRST, _SECOND, _TINY, _WARM = 0.9, 0.999, 1e-8, 200


class Course(NamedTuple):
    """How it is trained: layers between, times through the data, trials a step, size of a step, decay."""

    layers: tuple[int, ...] = (64, 64)
    epochs: int = 100
    batch: int = 256
    rate: float = 3e-3
    decay: float = 1e-2


def trained(inputs: Singles, targets: Singles, seed: int, course: Course) -> list[Singles]:
    """Matrices of a network, each with a last row that is added.

    Parameters
    ----------
    inputs : shape (trials, features), each feature about 0 with a spread of 1.
    targets : one for each trial.
    """
    chance = np.random.default_rng(seed)
    sizes = [inputs.shape[1], *course.layers, 1]
    matrices = [_initial(rows, columns, chance) for rows, columns in itertools.pairwise(sizes)]
    matrices[-1] *= 0.3
    matrices[-1][-1] = targets.mean()
    means = [np.zeros_like(matrix) for matrix in matrices]
    squares = [np.zeros_like(matrix) for matrix in matrices]
    each = len(inputs) // course.batch
    for step in range(1, course.epochs * each + 1):
        if (step - 1) % each == 0:
            order = chance.permutation(len(inputs))
        first = (step - 1) % each * course.batch
        chosen = order[first : first + course.batch]
        gradients = _gradients(matrices, inputs[chosen], targets[chosen])
        fall = 0.5 * (1 + math.cos(math.pi * step / (course.epochs * each)))
        rate = course.rate * fall * min(1.0, step / _WARM)
        for matrix, gradient, mean, square in zip(matrices, gradients, means, squares, strict=True):
            mean += (1 - _FIRST) * (gradient - mean)
            square += (1 - _SECOND) * (gradient * gradient - square)
            size = np.sqrt(square / (1 - _SECOND**step)) + _TINY
            matrix[:-1] -= rate * course.decay * matrix[:-1]
            matrix -= rate * mean / (1 - _FIRST**step) / size
    return matrices


def _initial(rows: int, columns: int, chance: np.random.Generator) -> Singles:
    """He et al., ICCV 2015."""
    weights = chance.standard_normal((rows, columns)).astype(np.float32) * np.float32(math.sqrt(2 / rows))
    return np.vstack([weights, np.zeros((1, columns), dtype=np.float32)])


def _gradients(matrices: Sequence[Singles], inputs: Singles, targets: Singles) -> list[Singles]:
    """Of half the mean square of the error."""
    values = [inputs]
    for number, matrix in enumerate(matrices):
        output = values[-1] @ matrix[:-1] + matrix[-1]
        values.append(np.maximum(output, 0) if number < len(matrices) - 1 else output)
    wrong = (values.pop()[:, 0] - targets)[:, None] / np.float32(len(targets))
    gradients = []
    for matrix, before in zip(reversed(matrices), reversed(values), strict=True):
        gradients.append(np.vstack([before.T @ wrong, wrong.sum(axis=0)]))
        wrong = (wrong @ matrix[:-1].T) * (before > 0)
    return gradients[::-1]
