"""The functions of the face. Each builds the options of its command, and calls what that calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, overload

from mptune import interrupts
from mptune.api._fitted import Calibrated, Fit, StatedFit
from mptune.api._kinds import KINDS
from mptune.api._options import build
from mptune.api._records import Agreement, ImpactFactors, OneTrial, Run, of_directory
from mptune.api._wording import speaking
from mptune.calibration.written import new_file, write_calibrated
from mptune.campaign.definition import Definition
from mptune.campaign.execution import start
from mptune.decision.comparison import measure as measure_both
from mptune.errors import InputError, TrialError
from mptune.files import check_writable, name_of
from mptune.impact import measure_alone
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.options import words
from mptune.papers.glm.analysis import analyse
from mptune.papers.glm.asked import statement_of
from mptune.papers.glm.stated import fit_stated
from mptune.report.files import draw_run
from mptune.result.reading import read_run
from mptune.runner.one_trial import measure_one
from mptune.runner.progress import Reporter
from mptune.table import ReadOptions, read_measurements
from mptune.table.configured import read_configured
from mptune.topology import Topology, load
from mptune.trial import DEFAULT_FAMILY

if TYPE_CHECKING:
    from mptune.api._keywords import (
        CalibrateKeywords,
        CompareKeywords,
        FitKeywords,
        ImpactFactorsKeywords,
        OptimiseKeywords,
        RunKeywords,
        SweepKeywords,
    )

#: A topology, its file, or the name of a shipped scenario.
Network = Topology | str | Path


def _loaded(topology: Network, *, reverse: bool, family: str) -> Topology:
    loaded = (topology if isinstance(topology, Topology) else load(topology)).over(family)
    return loaded.reversed() if reverse else loaded


@speaking("run")
def run(
    topology: Network,
    *,
    capture: str | Path | None = None,
    progress: bool = False,
    **options: Unpack[RunKeywords],
) -> OneTrial:
    """Run one trial, as `mptune run` does.

    Parameters
    ----------
    topology : a topology, its file, or the name of a shipped scenario.
    capture : pcapng file for the packets of both ends.
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
    file = None if capture is None else Path(capture)
    if file is not None:
        check_writable(file, "--capture")
    with interrupts.noting():
        trial, observation = measure_one(
            _loaded(topology, reverse=where.reverse, family=chosen.family),
            chosen,
            testbed=where.testbed,
            reporter=Reporter(quiet=not progress),
            capture=file,
        )
    if observation.failed:
        raise TrialError(f"the trial failed: {observation.failed}", observation.failed.kind)
    return OneTrial(trial=trial, observation=observation)


@speaking("impact_factors")
def impact_factors(
    topology: Network, *, progress: bool = False, **options: Unpack[ImpactFactorsKeywords]
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
    loaded = _loaded(topology, reverse=measuring.reverse, family=chosen.family)
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
        row per trial. With `transfer` it is `answer_by_size`, with completion times in s; with `workload`
        `answer_by_objective`, with delays in ms.

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
    loaded = _loaded(topology, reverse=measuring.reverse, family=options.family)
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


#: Values by the names of columns, as text ("B=10,CC=olia") or as a mapping.
Given = str | Mapping[str, str | float]


@overload
def fit(
    data: str | Path,
    *,
    model: None = None,
    validate: str | Path | None = None,
    throughput_unit: str | None = None,
    buffer_unit: str | None = None,
    columns: Mapping[str, str] | None = None,
    factors: Sequence[str] = (),
    cc: Sequence[str] = (),
    **options: Unpack[FitKeywords],
) -> Fit: ...
@overload
def fit(
    data: str | Path,
    *,
    model: str,
    references: Mapping[str, str] | None = None,
    predict: Given | Sequence[Given] = (),
    solve: Given | Sequence[Given] = (),
    units: str | Sequence[str] = (),
    throughput_unit: str | None = None,
    buffer_unit: str | None = None,
    columns: Mapping[str, str] | None = None,
    factors: Sequence[str] = (),
    cc: Sequence[str] = (),
    **options: Unpack[FitKeywords],
) -> StatedFit: ...
@speaking("fit")
def fit(
    data: str | Path,
    *,
    model: str | None = None,
    references: Mapping[str, str] | None = None,
    predict: Given | Sequence[Given] = (),
    solve: Given | Sequence[Given] = (),
    units: str | Sequence[str] = (),
    validate: str | Path | None = None,
    throughput_unit: str | None = None,
    buffer_unit: str | None = None,
    columns: Mapping[str, str] | None = None,
    factors: Sequence[str] = (),
    cc: Sequence[str] = (),
    **options: Unpack[FitKeywords],
) -> Fit | StatedFit:
    r"""Find a formula for throughput over buffer and congestion control, or fit a stated one: `mptune fit`.

    Parameters
    ----------
    data : CSV file with a header: one row per observation, units in the header.
    model : fit this model as PROC GLM of SAS does, such as "T ~ B + B^2 + CC + B:CC", instead of finding one.
    references : with a model, the level that others are compared with, by factor ({"CC": "vegas"}).
    predict : with a model, where to predict the response, such as {"B": 10, "CC": "olia"}, or several.
    solve : with a model, what is wanted and given, without the number to find ({"T": 30, "CC": "olia"}).
    units : with a model, those to show throughputs and buffers in ("bit/s,B").
    validate : without a model, more measurements, to test the prediction on.
    throughput_unit, buffer_unit : if the header has none ("Mbit/s", "MiB").
    columns : role -> header, for columns with other names ({"cc": "algorithm"}).
    factors : headers of further columns to test; with a model, of its columns that hold levels.
    cc : use only these congestion controls; empty uses all.
    options : those of the command, as keywords.

    Returns
    -------
    Fit
        Its frame has a row per coefficient: Mbit/s per power of MiB.
    StatedFit
        With a model. Its frame has a row per coefficient, in the units of the columns.

    Raises
    ------
    InputError : no such file or keyword, a file without the columns, a model that does not parse, or a value
        that cannot be.

    Examples
    --------
    >>> import mptune
    >>> rows = ["cc,buffer_mib,throughput_mbps", *(f"cubic,{b},{9 * b - b * b / 2}" for b in range(1, 9))]
    >>> from pathlib import Path
    >>> _ = Path("measured.csv").write_text("\n".join(rows))
    >>> mptune.fit("measured.csv", forms="quadratic").form
    'quadratic'
    >>> mptune.fit("measured.csv", model="T ~ B + B^2").frame()["value"].round(6).tolist()
    [0.0, 9.0, -0.5]
    """
    (chosen,) = build(options, *KINDS["fit"])
    how = ReadOptions(
        throughput_unit=throughput_unit,
        buffer_unit=buffer_unit,
        columns=dict(columns or {}),
        factors=tuple(factors),
        ccs=tuple(cc),
    )
    statement = statement_of(
        model,
        chosen,
        validated=validate is not None,
        references=[f"{name}={level}" for name, level in (references or {}).items()],
        predictions=_each(predict),
        inverses=_each(solve),
        units=words(units if isinstance(units, str) else ",".join(units)),
    )
    if statement is not None:
        return StatedFit(stated=fit_stated(str(data), statement, how))
    fresh = None if validate is None else read_measurements(str(validate), how)
    return Fit(analysis=analyse(read_measurements(str(data), how), chosen, fresh))


def _each(given: Given | Sequence[Given]) -> list[str]:
    """Values by name, one or several of them, as they are written on the command line."""
    several = [given] if isinstance(given, str | Mapping) else given
    return [
        topology
        if isinstance(topology, str)
        else ",".join(f"{name}={value}" for name, value in topology.items())
        for topology in several
    ]


@speaking("calibrate")
def calibrate(
    topology: Network,
    data: str | Path,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
    **options: Unpack[CalibrateKeywords],
) -> Calibrated:
    r"""Infer from measured throughput what of a network nobody measured, as `mptune calibrate` does.

    Parameters
    ----------
    topology : as for `run`.
    data : CSV file with a header: one row per measurement, with its configuration.
    out : write the calibrated topology to this file; needs the topology's file, or its name.
    force : replace an existing `out`.
    progress : show a progress bar on stderr.
    options : those of the command, as keywords.

    Returns
    -------
    Calibrated
        Its frame has a row per value with its interval, its rows every measurement beside what is simulated,
        its topology is the likeliest network. After Ctrl-C the best network so far, which is not `complete`.

    Raises
    ------
    InputError : no such topology, file or keyword, a value that cannot be, or data that no network explains.

    Examples
    --------
    >>> import mptune
    >>> from pathlib import Path
    >>> _ = Path("measured.csv").write_text("cc,buffer_mib,throughput_mbps,duration_s\ncubic,4,0.6,5")
    >>> quick = {"budget": 150, "longest": "3s", "values": "queue,loss", "stack": "v0.9x"}
    >>> found = mptune.calibrate("UiT-HAW", "measured.csv", **quick)
    >>> found.rows()["configuration"].tolist(), found.topology.name
    (['fullmesh, cubic'], 'UiT-HAW')
    """
    from mptune.calibration.job import calibrate as infer

    (chosen,) = build(options, *KINDS["calibrate"])
    if out is not None and isinstance(topology, Topology):
        raise InputError("--out", "", "expected with the topology's file, or the name of a shipped scenario")
    target = None if out is None else new_file(str(out), force=force)
    loaded = _loaded(topology, reverse=False, family=DEFAULT_FAMILY)
    rows = read_configured(str(data), [path.label for path in loaded.paths], chosen.stack)
    with interrupts.noting():
        found = infer(loaded, rows, chosen, data=Path(data).name, reporter=Reporter(quiet=not progress))
    if found.complete and not found.explains:
        raise InputError(str(data), "", found.unexplained)
    if target is not None:
        write_calibrated(target, found, str(topology))
    return Calibrated(calibration=found)


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
    mptune.errors.InputError: testbed: expected one of virtual, ..., found 'simulated'
    """
    chosen, where = build(options, *KINDS["compare"])
    loaded = _loaded(topology, reverse=where.reverse, family=chosen.family)
    with interrupts.noting():
        comparison = measure_both(
            loaded,
            chosen,
            testbed=where.testbed,
            workers=where.jobs,
            reporter=Reporter(quiet=not progress),
        )
    return Agreement(topology=loaded, comparison=comparison)
