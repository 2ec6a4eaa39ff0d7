"""The Python face: its names, their examples, and how they agree with the commands."""

import doctest
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import mptune
from mptune.api import _functions, _keywords, _kinds, _options, keyword_types
from mptune.cli import app
from mptune.errors import InputError
from mptune.options import declared

PUBLIC = sorted(set(mptune.__all__) - {"__version__", "version"})

#: Keyword types by function.
TYPES = {
    "run": _keywords.RunKeywords,
    "impact_factors": _keywords.ImpactFactorsKeywords,
    "sweep": _keywords.SweepKeywords,
    "optimise": _keywords.OptimiseKeywords,
    "fit": _keywords.FitKeywords,
    "calibrate": _keywords.CalibrateKeywords,
    "compare": _keywords.CompareKeywords,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(getattr(mptune, name)) or "", {}, name, None, None
    )
    assert example.examples
    lines: list[str] = []
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=lines.append)
    assert failed.failed == 0, "".join(lines)


def test_the_import_loads_nothing_that_takes_time():
    heavy = ("typing", "pandas", "altair", "numpy", "msgspec", "mptune.api", "mptune.campaign", "typer")
    code = f"import sys, mptune; print([one for one in {heavy!r} if one in sys.modules], dir(mptune))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == f"[] {sorted(mptune.__all__)}\n"


def test_the_commands_do_not_load_the_face():
    code = "import sys, mptune.cli; mptune.cli.app; print('mptune.api' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "False\n"


def test_types_are_those_of_the_declarations():
    assert Path(_keywords.__file__).read_text() == keyword_types.source()


@pytest.mark.parametrize("name", TYPES)
def test_every_flag_is_a_keyword(name):
    for kind in _kinds.KINDS[name]:
        for option in declared(kind):
            assert option.option.file_only or _options.name_of(option) in TYPES[name].__annotations__


def test_a_trial_is_that_of_the_command():
    arguments = ["run", "UiT-HAW", "--duration", "2s", "--cc", "reno", "--buffer", "1MiB", "--json"]
    printed = json.loads(CliRunner().invoke(app, arguments).stdout)
    here = mptune.run("UiT-HAW", duration="2s", cc="reno", buffer=1)
    assert json.loads(json.dumps(here.as_dict())) == printed
    total = here.series().groupby("t_s")["throughput_mbps"].sum()
    assert here.frame()["throughput_mbps"].sum() == pytest.approx(total.mean(), rel=0.01)


def test_reverse_and_loaded_topologies():
    network = mptune.load("UiT-HAW")
    there = mptune.run("UiT-HAW", reverse=True, duration="2s").frame()
    assert there["path"].tolist() == ["D-P", "D-T"]
    assert there.equals(mptune.run(network.reversed(), duration="2s").frame())
    assert "P-D" in network._repr_html_()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"durations": "2s"}, "durations"),
        ({"buffer": "big"}, "buffer"),
        ({"duration": "2s", "transfer": "1MiB"}, "transfer"),
        ({"cc": object()}, "cc"),
    ],
)
def test_an_error_names_the_keyword(options, where):
    with pytest.raises(mptune.InputError) as caught:
        mptune.run("UiT-HAW", **options)
    assert caught.value.where == where and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "swept"
    return mptune.sweep(
        "UiT-HAW", out=place, pm="fullmesh", cc=("cubic", "reno"), buffers="1MiB,2MiB", runs=2, duration="2s"
    ), place


def test_a_sweep_is_kept_and_quiet(swept, capsys):
    swept_frame, place = swept
    assert (place / "report.html").is_file() and capsys.readouterr().err == ""
    assert mptune.open_run(place) == swept_frame
    table = pd.read_csv(place / "observations.csv")
    assert sorted(swept_frame.frame()["throughput_mbps"].round(6)) == sorted(
        table["throughput_mbps"].round(6)
    )
    assert len(swept_frame.subflows()) == 2 * len(swept_frame.frame())


def test_subflows_join_their_trials_and_are_the_same_again(swept):
    frame, place = swept
    names = ["cc", "buffer_bytes", "run", "path", "throughput_mbps"]
    joined = frame.subflows().join(frame.frame()[names[:3]], on="trial")[names]
    table = pd.read_csv(place / "subflows.csv")[names]
    assert sorted(map(tuple, joined.round(6).values)) == sorted(map(tuple, table.round(6).values))
    again = mptune.sweep(
        "UiT-HAW", pm="fullmesh", cc=("cubic", "reno"), buffers="1MiB,2MiB", runs=2, duration="2s", jobs=1
    )
    assert again.subflows().equals(frame.subflows())
    assert again.frame().drop(columns="started").equals(frame.frame().drop(columns="started"))


def test_every_figure_is_a_chart_that_can_be_saved(swept, tmp_path):
    table, _ = swept
    for name in table.figures:
        table.chart(name).save(tmp_path / f"{name}.svg")
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")
    with pytest.raises(mptune.InputError, match="expected one of"):
        table.chart("none")


def test_other_charts_can_be_saved(tmp_path):
    factors = mptune.impact_factors("UiT-HAW", runs=2, duration="2s")
    (tmp_path / "data.csv").write_text(
        "cc,buffer_mib,throughput_mbps\n" + "".join(f"cubic,{b},{9 * b - b * b / 2}\n" for b in range(1, 9))
    )
    fitted = mptune.fit(tmp_path / "data.csv")
    answers: list[Any] = [mptune.run("UiT-HAW", duration="2s"), factors, fitted]
    for number, answer in enumerate(answers):
        answer.chart().save(tmp_path / f"{number}.svg")
        assert "<table" in answer._repr_html_()


def test_a_stated_model_is_that_of_the_command(tmp_path):
    slopes = {"cubic": 2.0, "olia": 3.0}
    rows = [f"{cc},{b},{4 + slopes[cc] * b + b % 3}" for cc in slopes for b in range(1, 12)]
    data = tmp_path / "data.csv"
    data.write_text("\n".join(["cc,buffer_mib,throughput_mbps", *rows]))
    asked = ["--predict", "B=5MiB,CC=olia", "--solve", "T=20,CC=cubic", "--reference", "CC=cubic"]
    arguments = ["fit", str(data), "--model", "T ~ B + CC + B:CC", *asked, "--json"]
    printed = json.loads(CliRunner().invoke(app, arguments).stdout)
    here = mptune.fit(
        data,
        model="T ~ B + CC + B:CC",
        predict=[{"B": "5MiB", "CC": "olia"}],
        solve={"T": 20, "CC": "cubic"},
        references={"CC": "cubic"},
    )
    pairs = [
        (here.frame()["value"], [row["value"] for row in printed["estimates"]]),
        (here.predictions()["mean"], [row["mean"]["value"] for row in printed["predictions"]]),
        (here.inverses()["value"], [row["value"] for row in printed["inverses"]]),
        (here.tests().query("type == 3")["f"], [row["type_iii"]["f"] for row in printed["terms"]]),
    ]
    for ours, theirs in pairs:
        assert ours.tolist() == pytest.approx(theirs, rel=1e-6)
    assert set(here.means()["CC"]) == {"cubic", "olia"} and here.units == {"T": "Mbit/s", "B": "MiB"}
    here.chart().save(tmp_path / "model.svg")
    assert "B:CC" in here._repr_html_()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"predict": {"B": 1}}, "predict"),
        ({"model": "T ~ B", "forms": "quadratic"}, "forms"),
        ({"model": "T ~ B", "references": {"CC": "none"}}, "references"),
    ],
)
def test_a_fit_refuses_the_keywords_of_the_other(tmp_path, options, where):
    data = tmp_path / "data.csv"
    data.write_text("cc,buffer_mib,throughput_mbps\n" + "".join(f"cubic,{b},{b * b}\n" for b in range(1, 9)))
    with pytest.raises(mptune.InputError) as caught:
        mptune.fit(data, **options)
    assert caught.value.where == where and "--" not in str(caught.value)


def test_a_calibration_is_that_of_the_command(tmp_path):
    data, out = tmp_path / "data.csv", tmp_path / "mine.toml"
    data.write_text("cc,buffer_mib,throughput_mbps,duration_s\ncubic,4,0.6,5\nolia,4,0.55,5\n")
    quick: Any = {"budget": 150, "longest": "3s", "values": "queue,loss", "stack": "v0.9x"}
    calibrated = mptune.calibrate("UiT-HAW", data, out=out, **quick)
    flags = [text for name, value in quick.items() for text in (f"--{name}", str(value))]
    printed = json.loads(
        CliRunner().invoke(app, ["calibrate", "UiT-HAW", str(data), *flags, "--json"]).stdout
    )
    assert calibrated.frame()["value_text"].tolist() == [row["value"] for row in printed["inferred"]]
    assert calibrated.rows()["calibrated"].tolist() == [row["simulated"] for row in printed["fitted"]]
    assert mptune.load(out).paths == calibrated.topology.paths and calibrated.complete
    calibrated.chart().save(tmp_path / "rows.svg")
    assert "<table" in calibrated._repr_html_()
    for again, wrong in (
        ({"out": out}, "out: expected a new file, or force=True"),
        ({"budget": 1}, "budget: expected 150"),
    ):
        with pytest.raises(mptune.InputError, match=wrong):
            mptune.calibrate("UiT-HAW", data, **{**quick, **again})
    with pytest.raises(mptune.InputError, match="out: expected with the topology's file"):
        mptune.calibrate(mptune.load("UiT-HAW"), data, out=out, **quick)


def test_ctrl_c_prints_what_is_kept(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_functions, "start", interrupted)
    for out, words in ((None, "nothing is kept"), (tmp_path / "run", "mptune campaign resume")):
        with pytest.raises(KeyboardInterrupt) as caught:
            mptune.sweep("UiT-HAW", out=out, pm="fullmesh", cc="cubic")
        assert words in caught.value.__notes__[0]


#: What a function does not need: how a command writes, where it reads from.
ELSEWHERE = {"run": {"series", "csv"}, "optimise": {"from", "throughput_unit", "buffer_unit", "column"}}
PRINTING = {"help", "help_all", "details", "json", "quiet", "out", "force"}
COMMANDS = {name: name for name in TYPES if name != "sweep"} | {"impact_factors": "impact"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_the_command_is_a_keyword(name):
    own = _kinds.OWN.get(name, {})
    assert set(own.values()) <= set(inspect.signature(getattr(mptune, name)).parameters)
    command: Any = typer.main.get_command(app)
    command = command.commands[COMMANDS[name]]
    flags = {
        max(param.opts, key=len).removeprefix("--").replace("-", "_")
        for param in command.params
        if param.param_type_name == "option"
    }
    flags -= PRINTING | {flag.removeprefix("--").replace("-", "_") for flag in own}
    theirs = {f"{flag}_" if flag == "for" else flag for flag in flags}
    assert theirs - ELSEWHERE.get(name, set()) == set(TYPES[name].__annotations__)


@pytest.mark.parametrize(
    ("function", "runs_them"),
    [("sweep", "start"), ("optimise", "start"), ("impact_factors", "measure_alone")],
)
def test_trials_are_run_by_the_executor_that_was_asked_for(function, runs_them, monkeypatch):
    used = []

    def stopped(*_, executor, **__):
        used.append(executor.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(_functions, runs_them, stopped)
    for options in ({}, {"executor": "dask", "dask_scheduler": "tcp://127.0.0.1:1"}):
        with pytest.raises(KeyboardInterrupt):
            getattr(mptune, function)("UiT-HAW", **options)
    assert used == ["threads", "dask"]


def test_a_console_shows_a_line_and_a_notebook_a_table(swept):
    table, _ = swept
    few = mptune.run("UiT-HAW", duration="2s")
    for answer in (table, few, mptune.load("UiT-HAW")):
        assert repr(answer).startswith(f"<{type(answer).__name__}") and len(repr(answer)) < 200
    assert table._repr_html_().count("<tr") == 1 + 4  # each of the configurations once
    assert "P-D" in few._repr_html_()


def test_what_there_is_not_is_left_blank_in_a_notebook(tmp_path):
    rows = "".join(f"cubic,{size},{9 * size - size * size}\n" for size in range(1, 9))
    (tmp_path / "exact.csv").write_text("cc,buffer_mib,throughput_mbps\n" + rows)
    fitted = mptune.fit(tmp_path / "exact.csv", forms="quadratic")
    assert fitted.frame()["error"].isna().all() and "None" not in fitted._repr_html_()


def test_a_notebook_shows_times_where_transfers_were_measured():
    result = mptune.sweep(
        "UiT-HAW", pm="fullmesh", cc="cubic", buffers="1MiB", transfer="64KiB,128KiB", runs=2
    )
    html = result._repr_html_()
    assert "completion_s" in html and "throughput" not in html and html.count("<tr") == 3


def test_algorithm_1_in_python_has_its_own_defaults() -> None:
    few: Any = {"cc": "cubic", "buffers": "1,2,4", "runs": 2, "confirm_runs": 1, "resamples": 0}
    short: Any = {"duration": "2s", "impact_duration": "2s", "impact_runs": 2}
    best = mptune.optimise("UiT-HAW", as_papers=True, **few, **short)
    assert best.answer is not None and best.answer.selection == "global"
    assert best.answer.algorithm[0].equation == "3"
    with pytest.raises(InputError, match="expected grid with"):
        mptune.optimise("UiT-HAW", as_papers=True, strategy="adaptive")


MESSAGES: Any = {"workload": "messages:200B/100ms", "duration": "3s"}


def test_a_trial_of_messages_has_their_delays():
    one = mptune.run("UiT-HAW", **MESSAGES)
    assert len(one.times_ms) == 30 and min(one.times_ms) > 0 and one.completion_s is None
    assert repr(one).startswith("<OneTrial: 30 messages of 200 B: delay p99 ")
    assert mptune.run("UiT-HAW", duration="2s").times_ms == ()


def test_an_answer_for_messages_is_that_of_the_command(tmp_path):
    few: Any = {"cc": "cubic", "buffers": "0.05,0.5", "runs": 2, "confirm_runs": 2}
    limits: Any = {"objective": "delay:p95", "at_most_gap": "9s", "at_most_delay": "9s"}
    best = mptune.optimise("UiT-HAW", out=tmp_path / "calls", **MESSAGES, **few, **limits)
    answer = best.answer_by_objective
    assert best.answer is None and best.answer_by_size is None and answer is not None
    assert answer.objective == "delay p95" and len(answer.limits) == 2
    written = json.loads((tmp_path / "calls" / "result.json").read_text())
    assert written["figures"][0]["recommended"]["mean"] == answer.figures[0].recommended.mean
    assert best.figures == ("delays", "reached") and best.chart() is not None
    assert repr(best) == f"<Run: {answer.answer[0]}>"
    html = best._repr_html_()
    assert "delay p95 (ms)" in html and "better by" in html and html.count("<tr") == 1 + 6
    frame = best.frame()
    assert frame.loc[frame["purpose"] == "sweep", "p99_ms"].notna().all()
    assert mptune.open_run(tmp_path / "calls").answer_by_objective == answer


def test_a_notebook_shows_delays_where_messages_were_measured():
    result = mptune.sweep("UiT-HAW", pm="fullmesh", cc="cubic", buffers="0.1,1", runs=2, **MESSAGES)
    assert result.answer_by_objective is None and result.figures == ("delays",)
    html = result._repr_html_()
    assert "p99_ms" in html and "throughput" not in html and html.count("<tr") == 3
