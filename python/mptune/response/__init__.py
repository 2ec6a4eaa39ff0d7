"""Response models by name: the one list from which `--model` and the documentation draw.

The seam itself is in `_base.py`, each model in a file of its own.
"""

from mptune.response._base import (
    MAX_P,
    MIN_R_SQUARED,
    Combination,
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
from mptune.response.auto import Auto
from mptune.response.monotone import Monotone
from mptune.response.quadratic import Quadratic
from mptune.response.saturating import Saturating
from mptune.response.smooth import Smooth

__all__ = [
    "MAX_P",
    "MIN_R_SQUARED",
    "MODELS",
    "Combination",
    "Curve",
    "FitQuality",
    "Mean",
    "ModelError",
    "Response",
    "ResponseModel",
    "Sample",
    "acceptance_warnings",
    "means",
    "t_value",
]

#: Models with a shape of their own, the one with the fewest freedoms first.
_SHAPES: tuple[ResponseModel, ...] = (Quadratic(), Saturating(), Monotone(), Smooth())

#: Name -> model.
MODELS: dict[str, ResponseModel] = {
    **{model.name: model for model in _SHAPES},
    Auto.name: Auto({model.name: model for model in _SHAPES}),
}
