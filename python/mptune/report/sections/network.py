"""The section of the network: both sites, the paths between them, which values are measured or assumed."""

from collections.abc import Iterator

from mptune._text import digits
from mptune.report.choices import Choices
from mptune.report.drawing import NARROW, WIDE, Flow, draw
from mptune.report.sections._base import Rows, Section, Table
from mptune.result.answer import Answer
from mptune.result.run_data import RunData


def network(run: RunData, choices: Choices) -> Iterator[Section]:
    """The topology drawn with its rates and RTTs."""
    topology = run.topology
    if topology is None:
        return
    carrying = () if run.answer is None else run.answer.subflows
    carried = {} if run.answer is None else _carried(run.answer)
    rows: Rows = [
        {
            "path": path.label,
            "rate_mbps": _in(1e6, known.rate_bps),
            "base_rtt_ms": _in(1e6, known.base_rtt_ns),
            "queue_kib": _in(1024, known.queue_bytes),
            "loss_percent": path.loss_ppb / 1e7,
            **({"carries_data": path.label in carrying} if carrying else {}),
            **{f"carries_{when}_mbps": flow.mbps.get(path.label, 0.0) for when, flow in carried.items()},
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
    if carried:
        lead += " Lines are as thick as what paths carry: in all more than arrives, where data are repeated."
    elif carrying:
        lead += " Thick lines carry data in the recommended configuration."
    if topology.shared:
        lead += " Knots stand where paths share a segment."
    if assumed:
        lead += " Assumed values are listed below, with the reasons."
    if topology.missing:
        lead += " Question marks stand for rates and RTTs that are not known."
    listed = (
        ("Segments that paths share", shared),
        ("Measurements and their methods", measured),
        ("Assumptions and their reasons", assumed),
    )
    flows = tuple(carried.values())
    yield Section(
        name="topology",
        title="The network",
        lead=lead,
        drawing=(draw(topology, carrying, WIDE, flows), draw(topology, carrying, NARROW, flows)),
        tables=[
            Table(title="Paths", rows=rows, source="config.json"),
            *(Table(title=title, rows=entries, source="config.json") for title, entries in listed if entries),
        ],
    )


def _carried(answer: Answer) -> dict[str, Flow]:
    """Load of the paths now, if hosts use a single one, and as recommended; nothing if that is unknown."""
    beside = answer.baselines
    if beside is None or not any(beside.carried.values()):
        return {}
    flows = {}
    if beside.now is not None and beside.now.mean is not None and len(beside.now.subflows) == 1:
        mbps = {beside.now.subflows[0]: beside.now.mean}
        flows["now"] = Flow(title=f"Now: {digits(beside.now.mean)} Mbit/s", mbps=mbps)
    ours = answer.confirmed.mean
    title = "Recommended" if ours is None else f"Recommended: {digits(ours)} Mbit/s"
    return {**flows, "recommended": Flow(title=title, mbps=beside.carried)}


def _in(unit: float, value: int | None) -> float | None:
    """A value in another unit, if it is known."""
    return None if value is None else value / unit
