"""A dashboard of the daemon's metrics for Grafana: `dashboard.json`, which is written by hand."""

from pathlib import Path

from mptune import files


def text() -> str:
    """The dashboard, as Grafana imports it."""
    return files.read_text(Path(__file__).with_name("dashboard.json"))
