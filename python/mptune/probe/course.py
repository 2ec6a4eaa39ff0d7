"""The course of a probe: its steps in their order, within limits of time and data.

    preparation -> echoes -> routes -> connections -> trains -> links -> transfers -> queues -> joins
    -> losses -> conclusion

Each step has its own module and takes what those before it gave; `orders` has what is sent, `estimates` and
`verdicts` what follows from it. Paths are measured one after the other, because they share links; only losses
and round-trip times, which take time and hardly any data, are measured on all of them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from mptune.machines import SshMachine
from mptune.probe.conclusion import Conclusion
from mptune.probe.connections import connect
from mptune.probe.echoes import greet, measure_losses
from mptune.probe.ends import ENDS, End
from mptune.probe.links import Links
from mptune.probe.mptcp import judge
from mptune.probe.preparation import Machine, Wish, prepare
from mptune.probe.queues import measure_queues
from mptune.probe.result import Probed
from mptune.probe.routes import trace_routes
from mptune.probe.trains import Trains
from mptune.probe.transfers import transfer

_STAGES = (
    "machines",
    "paths",
    "routes",
    "MPTCP",
    "rates",
    "shared links",
    "TCP",
    "queues",
    "joins",
    "losses",
)

Advance = Callable[..., None]


def probe(
    machines: Mapping[End, Machine],
    wish: Wish,
    *,
    advance: Advance | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Probed:
    """Find out what the paths between two machines are like.

    Parameters
    ----------
    advance : called with the number of stages done, how many there are, and the one that begins.
    interrupted : called regularly; True ends the probe.

    Raises
    ------
    InputError : an interface that the user asked for does not exist.
    TrialError : a machine refuses or is gone, or no path lets anything through.
    KeyboardInterrupt : it was interrupted.
    """

    def begin(stage: str) -> None:
        if advance is not None:
            done = _STAGES.index(stage) if stage else len(_STAGES)
            advance(done, len(_STAGES), stage)

    with ExitStack() as stack:
        try:
            return _probe(machines, wish, stack, begin, interrupted)
        except KeyboardInterrupt:
            for machine in machines.values():
                if isinstance(machine, SshMachine):
                    machine.hurry()  # before anybody is waited for
            raise


def _probe(
    machines: Mapping[End, Machine],
    wish: Wish,
    stack: ExitStack,
    begin: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> Probed:
    """All steps."""
    begin("machines")
    prepared = prepare(machines, wish, stack, interrupted)
    begin("paths")
    greeted = greet(prepared)
    begin("routes")
    routes = trace_routes(prepared.ends, greeted.udp, greeted.longest_ns)
    begin("MPTCP")
    connections = connect(prepared, greeted)
    begin("rates")
    trains = Trains(prepared, greeted)
    trains.measure_rates()
    begin("shared links")
    links = Links(prepared, trains)
    links.share()
    begin("TCP")
    links.update(transfer(prepared, connections, trains, links))
    begin("queues")
    queues = measure_queues(prepared, trains, links)
    begin("joins")
    verdicts, notes = judge(prepared, connections)
    begin("losses")
    rates = {
        path: [rate.value for end in ENDS if (rate := links.rate(end, path)) is not None]
        for path in greeted.udp
    }
    losses = measure_losses(prepared, greeted, rates)
    begin("")
    return Conclusion(prepared, greeted, connections, links, queues, losses, routes).probed(verdicts, notes)
