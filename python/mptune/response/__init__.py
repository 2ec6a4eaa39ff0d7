"""Response models by name: the one list behind `--model` and the documentation.

The interface is in `_base.py`, each model in its own file.
"""

from mptune.response._base import (
    MAX_P,
    MIN_R_SQUARED,
    Curve,
    FitQuality,
    Mean,
    ModelError,
    Response,
    ResponseModel,
    Sample,
    acceptance_warnings,
    means,
    t_value,
)
from mptune.response._polyline import Polyline
from mptune.response.auto import Auto
from mptune.response.belief import Belief
from mptune.response.monotone import Monotone
from mptune.response.process import Arm, Points, Process
from mptune.response.quadratic import Quadratic
from mptune.response.saturating import Saturating
from mptune.response.smooth import Smooth
from mptune.trial import Combination

__all__ = [
    "BELIEF",
    "FORMULAS",
    "MAX_P",
    "MIN_R_SQUARED",
    "MODELS",
    "Arm",
    "Combination",
    "Curve",
    "FitQuality",
    "Mean",
    "ModelError",
    "Points",
    "Polyline",
    "Process",
    "Response",
    "ResponseModel",
    "Sample",
    "acceptance_warnings",
    "means",
    "t_value",
]

#: Models with their own shape, the one with the fewest degrees of freedom first.
_SHAPES: tuple[ResponseModel, ...] = (Quadratic(), Saturating(), Monotone(), Smooth())

#: Name -> model.
MODELS: dict[str, ResponseModel] = {
    **{model.name: model for model in _SHAPES},
    Belief.name: Belief(),
    Auto.name: Auto({model.name: model for model in _SHAPES}, Belief()),
}

#: Name of the one whose curves all combinations share.
BELIEF = Belief.name

#: Names of those that are one formula over all buffers; the others follow the observations.
FORMULAS = frozenset(model.name for model in _SHAPES if model.is_formula)
