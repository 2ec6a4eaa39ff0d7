"""Values of a command line as they are given: text, lists of text, and switches.

Typer has pydantic look at every value, and importing that takes a third of a command's start. These kinds
need nothing of it: what is wrong with a value is found by its option's declaration (`mptune.options`).
Whatever else comes is left to typer.
"""

from __future__ import annotations

from typing import Any

__all__ = ["as_given"]


class _AsGiven:
    """Takes the place of what typer makes of a parameter's type (`typer._coercion.RuntimeParam`)."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Value that typer would give: the same for these kinds."""
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if kind in (str, bool) and type(value) is kind:
            return value
        if kind == list[str] and type(value) in (list, tuple) and all(type(one) is str for one in value):
            return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_AS_GIVEN = _AsGiven()


def as_given(parameters: list[Any]) -> list[Any]:
    """The parameters of a command, whose values typer then takes as they are.

    A release of typer that knows nothing of it goes on as it does.
    """
    for parameter in parameters:
        if getattr(parameter, "_runtime_param", ...) is None:
            parameter._runtime_param = _AS_GIVEN
    return parameters
