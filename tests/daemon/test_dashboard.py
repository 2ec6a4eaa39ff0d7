"""The dashboard for Grafana: held against the table of metrics, and against the classes of Grafana itself."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as dashboards
from grafana_foundation_sdk.models import prometheus, stat, timeseries
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins.needs import ROOT

#: The table of families in the agent: a name, and a kind that says how names of samples end.
METRICS = ROOT / "crates/mptune-agent/src/daemon/metrics.rs"
SUFFIXES = {"Gauge": "", "Counter": "_total", "Info": "_info"}
#: A name of a metric in a query, which no bracket and no equals sign follows.
NAME = re.compile(r"\bmptune_\w+")


@pytest.fixture(scope="module")
def dashboard():
    printed = CliRunner().invoke(app, ["daemon", "--dashboard"])
    assert printed.exit_code == 0
    return json.loads(printed.output)


def given() -> set[str]:
    """Names of samples that the agent writes."""
    families = re.findall(r'"(\w+)",\s*Kind::(\w+)', METRICS.read_text(encoding="utf-8"))
    return {f"mptune_{name}{SUFFIXES[kind]}" for name, kind in families}


def queries(dashboard) -> list[str]:
    variables = [variable["query"] for variable in dashboard["templating"]["list"]]
    return [
        *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]),
        *(query["query"] for query in variables if isinstance(query, dict)),
    ]


def test_it_asks_for_metrics_that_there_are(dashboard):
    asked = {name for query in queries(dashboard) for name in NAME.findall(query)}
    assert asked <= given()
    # What changes with the connections is on it, all of it but what is a detail of something else.
    left_out = {name for name in given() - asked if "_daemon_" not in name}
    assert left_out == set()


def test_counters_are_rates_and_gauges_are_not(dashboard):
    for query in queries(dashboard):
        for name in NAME.findall(query):
            is_rate = f"rate({name}{{" in query
            assert is_rate == name.endswith("_total"), query


def test_grafana_knows_all_of_it(dashboard):
    """Its own classes (grafana-foundation-sdk, made of its schemas) read it and lose nothing."""
    whole = {key: value for key, value in dashboard.items() if key != "panels"}
    # What the list of variables shows for a query is not among those classes.
    definitions = {f"/templating/list/{number}/definition" for number in (1, 2)}
    assert set(lost(whole, written(dashboards.Dashboard, whole))) == definitions
    for panel in dashboard["panels"]:
        assert not list(lost(panel, written(dashboards.Panel, panel)))
        kind = {"stat": stat, "timeseries": timeseries}[panel["type"]]
        assert not list(lost(panel["options"], written(kind.Options, panel["options"])))
        for target in panel["targets"]:
            assert not list(lost(target, written(prometheus.Dataquery, target)))
        if custom := panel["fieldConfig"]["defaults"].get("custom"):
            assert not list(lost(custom, written(timeseries.FieldConfig, custom)))


def written(kind: Any, given: Any) -> Any:
    """A document as a class of Grafana's writes it after reading it."""
    return json.loads(JSONEncoder().encode(kind.from_json(given)))


def lost(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Places of what is not there any more, or is something else; what was added is nothing to say."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after.get(key), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from lost(*pair, f"{place}/{number}")
    elif before != after:
        yield place


def test_panels_name_what_they_show(dashboard):
    """Things that Grafana's classes leave open."""
    assert 8 <= len(dashboard["uid"]) <= 40 and dashboard["title"] and "id" not in dashboard
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"] and panel["description"]
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        for of in (panel, *panel["targets"]):
            assert of["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        defaults = panel["fieldConfig"]["defaults"]
        values = [step["value"] for step in defaults.get("thresholds", {"steps": []})["steps"]]
        assert defaults["unit"] and values[:1] in ([], [None]) and values[1:] == sorted(values[1:])
    kinds = {variable["name"]: variable["type"] for variable in dashboard["templating"]["list"]}
    assert kinds == {"datasource": "datasource", "instance": "query", "policy": "query"}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(dashboard)))
    assert used == {"datasource", "instance", "policy"}
