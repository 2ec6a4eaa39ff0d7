"""Response models by name: the one list from which `--model` and the documentation draw.

The seam itself is in `_base.py`, each model in a file of its own.
"""

from mptune.response._base import (
    Combination,
    Curve,
    FitQuality,
    Response,
    ResponseModel,
    Sample,
    acceptance_warnings,
)
from mptune.response.quadratic import Quadratic

__all__ = [
    "MODELS",
    "Combination",
    "Curve",
    "FitQuality",
    "Response",
    "ResponseModel",
    "Sample",
    "acceptance_warnings",
]

#: Name -> model.
MODELS: dict[str, ResponseModel] = {
    "quadratic": Quadratic(),
}
