"""The section of the network: both sites, the paths between them, and which values are assumed."""

from collections.abc import Iterator

from mptune.report.choices import Choices
from mptune.report.drawing import NARROW, WIDE, draw
from mptune.report.run_data import RunData
from mptune.report.sections._base import Rows, Section, Table


def network(run: RunData, choices: Choices) -> Iterator[Section]:
    """The topology drawn with its rates and RTTs."""
    topology = run.topology
    if topology is None:
        return
    carrying = () if run.answer is None else run.answer.subflows
    rows: Rows = [
        {
            "path": path.label,
            "rate_mbps": path.rate_bps / 1e6,
            "base_rtt_ms": path.base_rtt_ns / 1e6,
            "queue_kib": path.queue_bytes / 1024,
            "loss_percent": path.loss_ppb / 1e7,
            **({"carries_data": path.label in carrying} if carrying else {}),
        }
        for path in topology.paths
    ]
    assumed: Rows = [
        {"value of": name, "is": one.value, "assumed because": one.assumed}
        for name, one in topology.provenance.items()
        if one.assumed is not None
    ]
    lead = "Rates of the access links; for each path its RTT with empty queues and its slowest link's rate."
    if carrying:
        lead += " Thick lines carry data in the recommended configuration."
    if assumed:
        lead += " Assumed values are listed below, with the reasons."
    yield Section(
        name="topology",
        title="The network",
        lead=lead,
        drawing=(draw(topology, carrying, WIDE), draw(topology, carrying, NARROW)),
        tables=[
            Table(title="Paths", rows=rows, source="config.json"),
            *(
                [Table(title="What is assumed, and why", rows=assumed, source="config.json")]
                if assumed
                else ()
            ),
        ],
    )
