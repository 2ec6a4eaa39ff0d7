"""The functions of the face. Each builds the options of its command, and calls what that calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from mptune import interrupts
from mptune.api._keywords import (
    CompareKeywords,
    FitKeywords,
    ImpactKeywords,
    OptimiseKeywords,
    RunKeywords,
    SweepKeywords,
)
from mptune.api._kinds import KINDS
from mptune.api._options import build
from mptune.api._records import Agreement, Fit, ImpactFactors, OneTrial, Run, of_directory
from mptune.api._wording import speaking
from mptune.campaign.definition import Definition
from mptune.campaign.execution import start
from mptune.decision.comparison import measure as measure_both
from mptune.errors import TrialError
from mptune.files import name_of
from mptune.impact import measure_alone
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.papers.glm.analysis import analyse
from mptune.report.files import draw_run
from mptune.result.reading import read_run
from mptune.runner.one_trial import measure_one
from mptune.runner.progress import Reporter
from mptune.table import ReadOptions, read_measurements
from mptune.topology import Topology, load

#: A topology, its file, or the name of a shipped scenario.
Network = Topology | str | Path


def _loaded(topology: Network, *, reverse: bool) -> Topology:
    loaded = topology if isinstance(topology, Topology) else load(topology)
    return loaded.reversed() if reverse else loaded


@speaking("run")
def run(topology: Network, *, progress: bool = False, **options: Unpack[RunKeywords]) -> OneTrial:
    """Run one trial, as `mptune run` does.

    Parameters
    ----------
    topology : a topology, its file, or the name of a shipped scenario.
    progress : print on stderr what to expect.
    options : those of the command, as keywords.

    Returns
    -------
    OneTrial
        Its frame has a row per subflow (Mbit/s, ms), its series a row per subflow and 100 ms.

    Raises
    ------
    InputError : no such topology or keyword, or a value that cannot be.
    MptuneError : the trial failed, or there is no such testbed on this machine.

    Examples
    --------
    >>> import mptune
    >>> one = mptune.run("UiT-HAW", cc="reno", buffer="1MiB", duration="2s", seed=7)
    >>> one.trial.cc, one.trial.buffer_bytes, len(one.series())
    ('reno', 1048576, 40)
    """
    chosen, where = build(options, *KINDS["run"])
    with interrupts.noting():
        trial, observation = measure_one(
            _loaded(topology, reverse=where.reverse),
            chosen,
            testbed=where.testbed,
            reporter=Reporter(quiet=not progress),
        )
    if observation.failed:
        raise TrialError(f"the trial failed: {observation.failed}", observation.failed.kind)
    return OneTrial(trial=trial, observation=observation)


@speaking("impact_factors")
def impact_factors(
    topology: Network, *, progress: bool = False, **options: Unpack[ImpactKeywords]
) -> ImpactFactors:
    """Measure how much each subflow contributes, as `mptune impact` does.

    Parameters
    ----------
    topology, options : as for `run`.
    progress : show a progress bar on stderr.

    Returns
    -------
    ImpactFactors
        Its frame has a row per path: factors are shares of the throughput, without unit, RTTs in ms.

    Raises
    ------
    InputError : no such topology or keyword, or a value that cannot be.
    MptuneError : no trial gave a number, or no dask scheduler answers.

    Examples
    --------
    >>> import mptune
    >>> mptune.impact_factors("UiT-HAW", cc="cubic", runs=2, duration="2s").frame().shape[0]
    2
    """
    chosen, algorithm, measuring, where, stack = build(options, *KINDS["impact_factors"])
    loaded = _loaded(topology, reverse=measuring.reverse)
    with interrupts.noting():
        measured = measure_alone(
            loaded,
            algorithm.cc,
            chosen,
            measuring,
            stack,
            executor=where.create(measuring.jobs),
            reporter=Reporter(quiet=not progress),
        )
    return ImpactFactors(topology=loaded, impact=measured)


@speaking("sweep")
def sweep(
    topology: Network,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
    **options: Unpack[SweepKeywords],
) -> Run:
    """Measure every combination of the factors, as a campaign of the kind "sweep" does.

    Parameters
    ----------
    topology, options : as for `run`.
    out : run directory, which keeps every trial from the first on, so that `mptune campaign resume` continues
        it after an interruption. None keeps nothing but what is returned.
    force : replace an earlier run in `out`.
    progress : show a progress bar on stderr.

    Returns
    -------
    Run
        Its frame has a row per trial: MiB, Mbit/s, s.

    Raises
    ------
    InputError : no such topology or keyword, or a value or directory that cannot be.
    MptuneError : the directory cannot be written, or no dask scheduler answers.
    KeyboardInterrupt : Ctrl-C; its notes list what is kept.

    Examples
    --------
    >>> import mptune
    >>> few = mptune.sweep("UiT-HAW", pm="fullmesh", cc=["cubic", "reno"], buffers=[1, 2], duration="2s")
    >>> few.frame().groupby("cc")["throughput_mbps"].count().to_dict()
    {'cubic': 18, 'reno': 18}
    """
    return _campaign(topology, build(options, *KINDS["sweep"]), out, force=force, progress=progress)


@speaking("optimise")
def optimise(
    topology: Network,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
    as_papers: bool = False,
    **options: Unpack[OptimiseKeywords],
) -> Run:
    """Find the best configuration, as `mptune optimise` does: the main job.

    Parameters
    ----------
    topology, out, force, progress, options : as for `sweep`.
    as_papers : MPCOA's Algorithm 1, whose defaults are other ones (`mptune optimise --help`).

    Returns
    -------
    Run
        Its `answer` has the buffer in MiB, the throughput in Mbit/s, and 95 % intervals; its frame has a
        row per trial. With `transfer` it is `answer_by_size`, with completion times in s.

    Raises
    ------
    InputError : no such topology or keyword, or a value or directory that cannot be.
    MptuneError : too many trials failed for an answer, the directory cannot be written, or no dask scheduler
        answers.
    KeyboardInterrupt : Ctrl-C; its notes list what is kept.

    Examples
    --------
    >>> import mptune
    >>> quick = {"runs": 2, "duration": "3s", "impact_duration": "2s", "off_by": 0, "resamples": 0}
    >>> best = mptune.optimise("UiT-HAW", cc="cubic", buffers="512KiB,1MiB,2MiB,4MiB", **quick)
    >>> best.answer.occ, best.answer.obs_mib <= 4
    ('cubic', True)
    """
    _, *rest = KINDS["optimise"]
    kinds = [MpcoaOptions, *rest] if as_papers else KINDS["optimise"]
    return _campaign(topology, build(options, *kinds), out, force=force, progress=progress)


def _campaign(
    topology: Network, built: Sequence[Any], out: str | Path | None, *, force: bool, progress: bool
) -> Run:
    """Run a campaign in its directory, or in one that is gone afterwards, and read it."""
    options, measuring, where = built
    loaded = _loaded(topology, reverse=measuring.reverse)
    definition = Definition(name=loaded.name, topology=loaded, testbed=measuring.testbed, options=options)
    reporter = Reporter(quiet=not progress)
    with _directory(out, loaded.name) as directory, interrupts.noting():
        try:
            start(
                definition,
                directory,
                force=force,
                workers=measuring.jobs,
                executor=where.create(measuring.jobs),
                reporter=reporter,
            )
        except KeyboardInterrupt as error:
            note = "nothing is kept: `out` was not given"
            if out is not None:
                note = f"finished trials are kept; continue with: mptune campaign resume {directory}"
            error.add_note(note)
            raise
        if out is not None:
            draw_run(directory)
        return open_run(directory)


@contextmanager
def _directory(out: str | Path | None, name: str) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with TemporaryDirectory(prefix="mptune-") as temporary:
        yield Path(temporary) / name


def open_run(directory: str | Path) -> Run:
    """Open the directory of a finished run.

    Parameters
    ----------
    directory : of `optimise` or `sweep`, or of the commands.

    Returns
    -------
    Run
        The same as the function that made it returned.

    Raises
    ------
    InputError : not a run directory, a run that is not finished, or a damaged file in it.
    MptuneError : its store is locked against reading.

    Examples
    --------
    >>> import mptune
    >>> few = {"pm": "fullmesh", "cc": "cubic", "buffers": "1MiB", "runs": 1, "duration": "2s"}
    >>> made = mptune.sweep("UiT-HAW", out="runs/few", **few)
    >>> mptune.open_run("runs/few").frame().equals(made.frame())
    True
    """
    place = Path(directory)
    return of_directory(place, read_run(place, name_of(place)))


@speaking("fit")
def fit(
    data: str | Path,
    *,
    validate: str | Path | None = None,
    throughput_unit: str | None = None,
    buffer_unit: str | None = None,
    columns: Mapping[str, str] | None = None,
    factors: Sequence[str] = (),
    cc: Sequence[str] = (),
    **options: Unpack[FitKeywords],
) -> Fit:
    r"""Find a formula for throughput over buffer and congestion control, as `mptune fit` does.

    Parameters
    ----------
    data : CSV file with a header: one row per observation, units in the header.
    validate : more measurements, to test the prediction on.
    throughput_unit, buffer_unit : if the header has none ("Mbit/s", "MiB").
    columns : role -> header, for columns with other names ({"cc": "algorithm"}).
    factors : headers of further columns to test.
    cc : use only these congestion controls; empty uses all.
    options : those of the command, as keywords.

    Returns
    -------
    Fit
        Its frame has a row per coefficient: Mbit/s per power of MiB.

    Raises
    ------
    InputError : no such file or keyword, a file without the columns, or a value that cannot be.

    Examples
    --------
    >>> import mptune
    >>> rows = ["cc,buffer_mib,throughput_mbps", *(f"cubic,{b},{9 * b - b * b / 2}" for b in range(1, 9))]
    >>> from pathlib import Path
    >>> _ = Path("measured.csv").write_text("\n".join(rows))
    >>> mptune.fit("measured.csv", forms="quadratic").form
    'quadratic'
    """
    (chosen,) = build(options, *KINDS["fit"])
    how = ReadOptions(
        throughput_unit=throughput_unit,
        buffer_unit=buffer_unit,
        columns=dict(columns or {}),
        factors=tuple(factors),
        ccs=tuple(cc),
    )
    fresh = None if validate is None else read_measurements(str(validate), how)
    return Fit(analysis=analyse(read_measurements(str(data), how), chosen, fresh))


@speaking("compare")
def compare(topology: Network, *, progress: bool = False, **options: Unpack[CompareKeywords]) -> Agreement:
    """Measure the same configurations in the simulator and on a kernel, as `mptune compare` does.

    Parameters
    ----------
    topology, options : as for `run`.
    progress : show a progress bar on stderr.

    Returns
    -------
    Agreement
        Its frame has a row per configuration: bytes, Mbit/s, the error as a share.

    Raises
    ------
    InputError : no such topology or keyword, or a value that cannot be.
    MptuneError : this machine cannot run trials on its kernel (`mptune doctor` has the reason).

    Examples
    --------
    >>> import mptune
    >>> mptune.compare("UiT-HAW", testbed="simulated")
    Traceback (most recent call last):
    ...
    mptune.errors.InputError: testbed: expected one of namespaces, hosts, found 'simulated'
    """
    chosen, where = build(options, *KINDS["compare"])
    loaded = _loaded(topology, reverse=where.reverse)
    with interrupts.noting():
        comparison = measure_both(
            loaded,
            chosen,
            testbed=where.testbed,
            workers=where.jobs,
            reporter=Reporter(quiet=not progress),
        )
    return Agreement(topology=loaded, comparison=comparison)
