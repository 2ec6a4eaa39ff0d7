"""The dashboard for Grafana: held against the table of metrics, and against what Grafana takes for one."""

import json
import re

import pytest
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


def test_it_is_a_dashboard_as_grafana_has_them(dashboard):
    """The types and bounds of Grafana's own schema (kinds/dashboard/dashboard_kind.cue, schema 36)."""
    assert 8 <= len(dashboard["uid"]) <= 40 and dashboard["title"]
    assert dashboard["schemaVersion"] == 36 and dashboard["graphTooltip"] in (0, 1, 2)
    assert set(dashboard["time"]) == {"from", "to"} and "id" not in dashboard
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("timeseries", "stat") and panel["title"] and panel["description"]
        assert isinstance(panel["options"], dict)
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        for of in (panel, *panel["targets"]):
            assert of["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        fields = panel["fieldConfig"]
        assert set(fields) == {"defaults", "overrides"} and fields["defaults"]["unit"]
        steps = fields["defaults"].get("thresholds", {"steps": []})["steps"]
        values = [step["value"] for step in steps]
        assert values[:1] in ([], [None]) and values[1:] == sorted(values[1:])
        for override in fields["overrides"]:
            assert set(override) == {"matcher", "properties"} and "id" in override["matcher"]
    kinds = {variable["name"]: variable["type"] for variable in dashboard["templating"]["list"]}
    assert kinds == {"datasource": "datasource", "instance": "query", "policy": "query"}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(dashboard)))
    assert used == {"datasource", "instance", "policy"}


def test_panels_lie_beside_each_other(dashboard):
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert 0 < place["w"] <= 24 and place["h"] > 0 and 0 <= place["x"] <= 24 - place["w"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
