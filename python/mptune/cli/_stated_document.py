"""JSON document of a stated model: what `mptune fit --model` prints with --json, in the units it names."""

from typing import Any

import msgspec

from mptune.papers.glm.formula import term_name
from mptune.papers.glm.linear import FTest
from mptune.papers.glm.stated import Stated
from mptune.result.making import document


def stated_document(stated: Stated) -> dict[str, Any]:
    """Everything that was worked out."""
    fit, columns = stated.fit, stated.columns
    lack = fit.lack_of_fit()
    return document(
        {
            "file": columns.path,
            "model": str(stated.formula),
            "response": stated.formula.response,
            "model_terms": [term_name(term) for term in stated.formula.terms],
            "intercept": stated.formula.intercept,
            "units": columns.units,
            "alpha": fit.alpha,
            "observations": len(fit.data.y),
            "failed": columns.failed,
            "factors": {
                factor: {"levels": list(levels), "reference": levels[-1]}
                for factor, levels in fit.data.levels.items()
            },
            "quality": {
                "n": len(fit.data.y),
                "parameters": len(fit.kept),
                "mean": float(fit.data.y.mean()),
                "r_squared": fit.r_squared,
                "adjusted": fit.adjusted,
                "root_mse": fit.root_mse,
                "cv_percent": fit.cv_percent,
                "model_squares": max(fit.total - fit.squares, 0.0),
                "error_squares": fit.squares,
                "total_squares": fit.total,
                **tested(fit.whole()),
                "lack_of_fit": None if lack is None else tested(lack),
            },
            "terms": [
                {
                    "name": row.name,
                    "type_i": {"squares": row.squares_one, **tested(row.type_one)},
                    "type_iii": {"squares": row.squares_three, **tested(row.type_three)},
                }
                for row in stated.terms
            ],
            "estimates": [msgspec.to_builtins(estimate) for estimate in fit.estimates()],
            "least_squares_means": [msgspec.to_builtins(mean) for mean in stated.means],
            "predictions": [msgspec.to_builtins(prediction) for prediction in stated.predictions],
            "inverses": [msgspec.to_builtins(inverse) for inverse in stated.inverses],
            "warnings": list(stated.warnings),
        }
    )


def tested(test: FTest) -> dict[str, Any]:
    """An F test; an infinite F (nothing left to explain) is null."""
    return {
        "f": None if test.f == float("inf") else test.f,
        "df": test.df,
        "df_resid": test.df_resid,
        "p": test.p,
    }
