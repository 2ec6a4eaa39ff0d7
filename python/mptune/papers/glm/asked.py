"""Choice between the two fits: the procedure of the study, or a model that is stated.

Both belong to one command, and each refuses the options of the other.
"""

from collections.abc import Sequence

from mptune.errors import InputError
from mptune.papers.glm.analysis import AnalysisOptions
from mptune.papers.glm.stated import Statement


def statement_of(
    model: str | None,
    options: AnalysisOptions,
    *,
    validated: bool = False,
    references: Sequence[str] = (),
    predictions: Sequence[str] = (),
    inverses: Sequence[str] = (),
    units: Sequence[str] = (),
    drawn: bool = False,
) -> Statement | None:
    """The statement of a model; None without a model, for which the procedure is meant.

    Parameters
    ----------
    validated : there is a second file.
    drawn : a figure of the model is wanted.

    Raises
    ------
    InputError : an option that belongs to the other fit.
    """
    default = AnalysisOptions()
    of_model = {
        "--reference": bool(references),
        "--units": bool(units),
        "--predict": bool(predictions),
        "--solve": bool(inverses),
        "--out": drawn,
    }
    of_procedure = {
        "--validate": validated,
        "--forms": options.forms != default.forms,
        "--ignore": options.ignore != default.ignore,
    }
    refused, expected = (of_model, "with") if model is None else (of_procedure, "without")
    for flag, given in refused.items():
        if given:
            raise InputError(flag, "", f"expected {expected} --model")
    if model is None:
        return None
    return Statement(
        model=model,
        references=tuple(references),
        predictions=tuple(predictions),
        inverses=tuple(inverses),
        units=tuple(units),
        alpha=options.alpha,
        target_mbps=options.target_mbps,
    )
