"""`mptune run`: one trial from the command line, as a table and as JSON."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app


def run(*arguments):
    return CliRunner().invoke(app, ["run", "UiT-HAW", "--duration", "5s", *arguments])


def test_json_has_the_shape_that_tools_read():
    result = json.loads(run("--json", "--cc", "reno", "--buffer", "1MiB", "--seed", "7").stdout)
    assert (result["pm"], result["cc"], result["scheduler"]) == ("fullmesh", "reno", "minrtt")
    assert (result["seed"], result["testbed"], result["buffer_bytes"]) == (7, "simulated", 1 << 20)
    assert {subflow["path"] for subflow in result["subflows"]} == {"P-D", "T-D"}
    series = result["series"]
    assert len(series["t_s"]) == len(series["throughput_mbps"]) == 50
    mean = sum(series["throughput_mbps"]) / 50
    assert result["throughput_mbps"] == pytest.approx(mean)
    assert "failed" not in result and "completion_s" not in result


def test_a_transfer_reports_its_completion_time():
    arguments = ["run", "UiT-HAW", "--transfer", "64KiB", "--json"]
    result = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert result["completion_s"] == result["duration_s"] > 0
    bits = sum(
        rate * min(0.1, result["duration_s"] - start)
        for start, rate in zip(result["series"]["t_s"], result["series"]["throughput_mbps"], strict=True)
    )
    assert bits * 1e6 == pytest.approx(64 * 1024 * 8)


def test_the_table_names_every_subflow_with_its_role():
    shown = run("--pm", "pcdc", "--active", "P-D").stdout
    assert "P-D" in shown and "T-D" in shown
    assert shown.count("standby") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cc", "tahoe"], "--cc: expected one of reno, cubic"),
        (["--pm", "mesh"], "--pm: expected one of default, fullmesh"),
        (["--scheduler", "fifo"], "--scheduler: expected one of minrtt"),
        (["--buffer", "1000B"], "--buffer: expected at least one segment (1448 B)"),
        (["--buffer", "4"], "--buffer: "),
        (["--duration", "0s"], "--duration: expected more than 0"),
        (["--transfer", "1MiB"], "--transfer: expected either --duration or --transfer"),
        (["--active", "P-D"], "--active: expected only with --pm pcdc"),
        (["--pm", "pcdc", "--active", "P-X"], "--active: expected a path of UiT-HAW (P-D, T-D)"),
        (["--initial-path", "X-D"], "--initial-path: expected a path of UiT-HAW (P-D, T-D)"),
        (["--testbed", "moon"], "--testbed: "),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
