"""The section of the network: both sites, the paths between them, which values are measured or assumed."""

from collections.abc import Iterator

from mptune.report.choices import Choices
from mptune.report.drawing import NARROW, WIDE, draw
from mptune.report.sections._base import Rows, Section, Table
from mptune.result.run_data import RunData


def network(run: RunData, choices: Choices) -> Iterator[Section]:
    """The topology drawn with its rates and RTTs."""
    topology = run.topology
    if topology is None:
        return
    carrying = () if run.answer is None else run.answer.subflows
    rows: Rows = [
        {
            "path": path.label,
            "rate_mbps": _in(1e6, known.rate_bps),
            "base_rtt_ms": _in(1e6, known.base_rtt_ns),
            "queue_kib": _in(1024, known.queue_bytes),
            "loss_percent": path.loss_ppb / 1e7,
            **({"carries_data": path.label in carrying} if carrying else {}),
        }
        for path in topology.paths
        for known in (topology.known(path),)
    ]
    measured: Rows = [
        {"value of": name, "is": provenance.value, "measured": provenance.measured}
        for name, provenance in topology.provenance.items()
        if provenance.measured is not None
    ]
    assumed: Rows = [
        {"value of": name, "is": provenance.value, "assumed because": provenance.assumed}
        for name, provenance in topology.provenance.items()
        if provenance.assumed is not None
    ]
    shared: Rows = [
        {
            "segment": name,
            "paths": ", ".join(path.label for path in topology.paths if segment in path.shared),
            "rate_mbps": _in(1e6, segment.rate_bps),
        }
        for name, segment in topology.shared.items()
    ]
    lead = "Rates of the access links; for each path its RTT with empty queues and its slowest link's rate."
    if carrying:
        lead += " Thick lines carry data in the recommended configuration."
    if assumed:
        lead += " Assumed values are listed below, with the reasons."
    if topology.missing:
        lead += " Question marks stand for rates and RTTs that are not known."
    listed = (
        ("Segments that paths share", shared),
        ("Measurements and their methods", measured),
        ("Assumptions and their reasons", assumed),
    )
    yield Section(
        name="topology",
        title="The network",
        lead=lead,
        drawing=(draw(topology, carrying, WIDE), draw(topology, carrying, NARROW)),
        tables=[
            Table(title="Paths", rows=rows, source="config.json"),
            *(Table(title=title, rows=entries, source="config.json") for title, entries in listed if entries),
        ],
    )


def _in(unit: float, value: int | None) -> float | None:
    """A value in another unit, if it is known."""
    return None if value is None else value / unit
