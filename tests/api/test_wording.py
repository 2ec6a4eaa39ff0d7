"""Errors and warnings that were written for the command line, as Python's callers read them."""

import pytest

import mptune
from mptune.api import _kinds, _wording


@pytest.mark.parametrize(
    ("function", "written", "spoken"),
    [
        ("run", "--testbed", "testbed"),
        ("run", "expected either --duration or --transfer, found both", "either duration or transfer,"),
        ("run", "expected default with --protocol tcp, found fullmesh", "with protocol='tcp', found"),
        (
            "impact_factors",
            "a smaller --buffer or a longer --duration",
            "smaller buffer or a longer duration",
        ),
        ("optimise", "grid with --model, --selection or --on-grid", "model, selection or on_grid=True"),
        ("optimise", "when that one fails (--no-tcp keeps MPTCP)", "(tcp=False keeps MPTCP)"),
        ("optimise", "only with --strategy adaptive: grid has", "strategy='adaptive': grid"),
        ("optimise", "--off-by 0 does not measure it", "off_by=0 does"),
        ("optimise", "found an earlier run in a--force (see --force)", "in a--force (see force=True)"),
        ("sweep", "Repeat at this interval, with --for.", "with for_."),
        ("sweep", "with --executor dask.", "executor='dask'."),
        ("fit", "levels of --factor isp", "levels of factors isp"),
        ("fit", "(mptune fit --factor tests it)", "(mptune fit --factor tests it)"),
        ("run", "not an option: --nonsense", "--nonsense"),
    ],
)
def test_flags_become_keywords(function, written, spoken):
    assert spoken in _wording.in_python(function)(written)


@pytest.mark.parametrize(
    ("function", "options", "where"),
    [
        ("run", {"scheduler": "blest", "testbed": "namespaces"}, "scheduler"),
        ("run", {"protocol": "tcp", "pm": "fullmesh"}, "pm"),
        ("impact_factors", {"impact": "eq5", "testbed": "nowhere"}, "testbed"),
        ("sweep", {"executor": "dask"}, "dask_scheduler"),
        ("sweep", {"pm": "fullmesh", "active": "P-D"}, "active"),
        ("optimise", {"strategy": "grid", "budget": "1min"}, "budget"),
        ("optimise", {"every": "1h"}, "for_"),
        ("run", {"workload": "messages:200B/1s", "transfer": "1MiB"}, "workload"),
        ("optimise", {"at_most_delay": "1s"}, "at_most_delay"),
        ("optimise", {"workload": "messages:200B/1s", "sacrifice": "5%"}, "sacrifice"),
        ("optimise", {"workload": "messages:200B/1s", "objective": "completion"}, "objective"),
        ("compare", {"duration": "1s", "transfer": "1MiB"}, "transfer"),
    ],
)
def test_an_error_names_keywords_wherever_it_arises(function, options, where):
    with pytest.raises(mptune.InputError) as caught:
        getattr(mptune, function)("UiT-HAW", **options)
    assert caught.value.where == where and str(caught.value).startswith(f"{where}: ")
    assert "--" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_directory_that_is_taken_is_refused_with_its_keywords(tmp_path):
    (tmp_path / "other").touch()
    with pytest.raises(mptune.InputError, match=r"^out: expected a new or empty directory"):
        mptune.sweep("UiT-HAW", out=tmp_path)


def test_files_of_measurements_too(tmp_path):
    (tmp_path / "data.csv").write_text("cc,buffer,throughput_mbps\nreno,1,2\n")
    with pytest.raises(mptune.InputError) as caught:
        mptune.fit(tmp_path / "data.csv", columns={"nonsense": "cc"})
    assert caught.value.where == "columns"
    with pytest.raises(mptune.InputError) as caught:
        mptune.fit(tmp_path / "data.csv")
    assert "--" not in str(caught.value) and "buffer_unit" in str(caught.value)


def test_every_function_has_its_words():
    assert all(_wording.in_python(name)("fine") == "fine" for name in _kinds.KINDS)
