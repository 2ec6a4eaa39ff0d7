"""Factors that a campaign leaves out because its testbed lacks them: only those nobody named.

A default is a proposal, for which another kernel, another user's rights or a module that is not loaded is no
reason to refuse a campaign. What was written by name is never left out: the testbed refuses it.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from mptune.campaign.definition import Definition, SweepOptions
from mptune.errors import InputError
from mptune.optimisation.job import configuration
from mptune.optimisation.options import DEFAULT_CC, OptimiseOptions
from mptune.options import left_alone
from mptune.runner.planning import plan_run
from mptune.testbeds import Testbed
from mptune.trial import Trial
from mptune.units import format_size

T = TypeVar("T", str, int)


def possible(definition: Definition, testbed: Testbed) -> tuple[Definition, str]:
    """The campaign without those of its default factors that the testbed lacks, and what that was.

    Parameters
    ----------
    testbed : asked by `check_there`.

    Returns
    -------
    The campaign, and a sentence; an empty one where nothing is left out.

    Raises
    ------
    InputError : nothing of a default is possible; as the testbed refuses the first of it.
    MptuneError : it cannot be asked.
    """
    options = definition.options

    def why_not(pm: str, cc: str, buffer_bytes: int) -> InputError | None:
        try:
            testbed.check_there(_trial(definition, pm, cc, buffer_bytes))
        except InputError as error:
            return error
        return None

    least = min(options.buffers)
    first = DEFAULT_CC if left_alone(options, "ccs") else options.ccs[0]
    pms = _those(options, "pms", lambda text: why_not(text, first, least))
    ccs = _those(options, "ccs", lambda text: why_not(pms[0], text, least))
    # What limits buffers is a largest size.
    buffers = _those(
        options, "buffers", lambda buffer_bytes: why_not(pms[0], ccs[0], buffer_bytes), max(options.buffers)
    )
    missing = [name for name in (*options.pms, *options.ccs) if name not in (*pms, *ccs)]
    if len(buffers) < len(options.buffers):
        missing.append(f"buffers of more than {format_size(max(buffers), 4)}")
    if not missing:
        return definition, ""
    sentence = (
        f"Left out, as they cannot be had there: {', '.join(missing)} (asking for one by name shows why)."
    )
    changed = replace(options, pms=pms, ccs=ccs, buffers=buffers)
    if isinstance(changed, OptimiseOptions):
        # Their buffer was the largest of all.
        most = min(changed.impact.buffer_bytes, max(buffers))
        changed = replace(changed, impact=replace(changed.impact, buffer_bytes=most))
    return replace(definition, options=changed), sentence


def _those(
    options: OptimiseOptions | SweepOptions,
    field: str,
    why_not: Callable[[T], InputError | None],
    hardest: T | None = None,
) -> tuple[T, ...]:
    """The values of a field that are not refused; all of those that were asked for by name.

    Parameters
    ----------
    hardest : if this one is not refused, none is.

    Raises
    ------
    InputError : all are refused.
    """
    values: tuple[T, ...] = getattr(options, field)
    if not left_alone(options, field) or (hardest is not None and why_not(hardest) is None):
        return values
    refused = {value: error for value in values if (error := why_not(value)) is not None}
    if len(refused) == len(values):
        raise next(iter(refused.values()))
    return tuple(value for value in values if value not in refused)


def _trial(definition: Definition, pm: str, cc: str, buffer_bytes: int) -> Trial:
    """A trial of the campaign."""
    options = definition.options
    configured = configuration(
        pm,
        cc,
        buffer_bytes,
        {},
        stack=options.stack.chosen(),
        buffer_mode=options.mode_of_trials,
        family=options.family,
        workload=options.workloads[0],
    )
    planned = plan_run(
        definition.topology,
        configured,
        purpose="sweep",
        run=0,
        base_seed=options.seed,
    )
    return planned.trial
