"""JSON document of the GLM procedure: what `mptune fit --json` prints. Mbit/s and MiB."""

from typing import Any

import msgspec

from mptune.cli._stated_document import tested
from mptune.papers.glm.analysis import Analysis
from mptune.papers.glm.fit import FormFit
from mptune.response.equation import Equation
from mptune.result.making import document
from mptune.trial import Combination


def fit_document(analysis: Analysis) -> dict[str, Any]:
    """Everything the analysis found."""
    data, best = analysis.measurements, analysis.best
    return document(
        {
            "file": data.path,
            "observations": len(data.rows),
            "failed": data.failed,
            "unused_columns": list(data.unused),
            "alpha": analysis.options.alpha,
            "factors": {
                factor: {"levels": list(levels), "reference": levels[-1]}
                for factor, levels in best.coding.levels.items()
            },
            "constant": analysis.constant,
            "forms": [_form(fit, analysis) for fit in analysis.fits],
            "form": best.form,
            "model": str(best.formula),
            "estimates": [msgspec.to_builtins(estimate) for estimate in best.estimates()],
            "terms": [{"name": term_test.name, **tested(term_test.test)} for term_test in best.term_tests()],
            "matters": {
                verdict.family: {
                    "in_model": verdict.in_model,
                    **tested(verdict.test),
                    "robust_p": verdict.robust_p,
                    "r_squared_gain": verdict.gain,
                }
                for verdict in analysis.verdicts
            },
            "equations": [_equation(key, equation, analysis) for key, equation in analysis.equations.items()],
            "target_mbps": analysis.options.target_mbps,
            "ranking": [msgspec.to_builtins(rank) for rank in analysis.ranking],
            "validation": None if analysis.validation is None else msgspec.to_builtins(analysis.validation),
            "warnings": list(analysis.warnings),
        }
    )


def _form(fit: FormFit, analysis: Analysis) -> dict[str, Any]:
    """One form: its quality, and the steps of its forward inclusion."""
    regressor = fit.design.form.regressor
    return {
        "form": fit.form,
        **msgspec.to_builtins(fit.quality()),
        "validation_error": None if analysis.validation is None else analysis.validation.errors[fit.form],
        "steps": [
            {
                "terms": [term.label(regressor) for term in step.terms],
                "removed": step.removed,
                **tested(step.test),
            }
            for step in fit.steps
        ],
    }


def _equation(key: Combination, equation: Equation, analysis: Analysis) -> dict[str, Any]:
    """One equation with its vertex and the buffer for the target."""
    vertex, target = equation.vertex(), analysis.targets.get(key)
    return {
        "pm": key.pm or None,
        "cc": key.cc or None,
        "formula": equation.formula(digits=6),
        **msgspec.to_builtins(equation),
        "vertex": None if vertex is None else vertex._asdict(),
        "buffer_at_target_mib": target if isinstance(target, float) else None,
        "no_buffer_at_target": target if isinstance(target, str) else None,
    }
