"""`mptune why`: why all paths together give less than their sum, with evidence and remedies.

What is measured and concluded is `mptune.diagnosis`'; this finds the network and shows the answer.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import (
    JsonOption,
    QuietOption,
    add,
    complete_scenarios,
    console,
    emit_json,
    load_topology,
)
from mptune.diagnosis.options import WhyOptions
from mptune.errors import InputError
from mptune.options import SWITCH, Option
from mptune.options.trials import Testbed, check_labels
from mptune.runner.executors import ExecutorOptions

if TYPE_CHECKING:
    from mptune.diagnosis.measuring import Own
    from mptune.runner.progress import Reporter
    from mptune.testbeds import Testbed as Bench
    from mptune.topology import Topology

OneWay = Annotated[
    bool, Option(SWITCH, "Only from sender to receiver; both directions otherwise.", flag="--one-way")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        why,
        "mptune why my-sites.toml --buffer 1MiB                     # in the simulator",
        "mptune why my-sites.toml --testbed namespaces --one-way    # on this machine's kernel",
        "mptune why laptop root@server.example --budget 2min        # two hosts: probed, then measured",
    )


def why(
    first: Annotated[
        str,
        typer.Argument(
            metavar="TOPOLOGY|HOST",
            help="A topology file or a shipped scenario; with a second host, the one that sends.",
            autocompletion=complete_scenarios,
        ),
    ],
    options: WhyOptions,
    where: ExecutorOptions,
    second: Annotated[
        str | None, typer.Argument(metavar="HOST", help="The other host, as ssh knows it.")
    ] = None,
    testbed: Testbed = "simulated",
    one_way: OneWay = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find out why all paths together give less than their sum.

    Plain TCP is measured on every path and MPTCP on all, in both directions, with the settings of now
    (--buffer, --pm, --cc). If something is missing, further trials decide between causes: larger buffers,
    without the slow paths, a subflow on every path, four on a path that loses packets, two paths at a time.
    Every cause is shown with its share in Mbit/s, its evidence, and what removes it. Between two hosts their
    paths are probed first.
    """
    from mptune import testbeds
    from mptune.cli._why_screen import document, show
    from mptune.diagnosis.measuring import ask, notice
    from mptune.runner.progress import Reporter
    from mptune.testbeds.simulated import SimulatedTestbed

    reporter = Reporter(quiet=quiet)
    name = testbed if second is None else "hosts"
    if testbed not in (SimulatedTestbed.name, name):
        raise InputError("--testbed", "", f"expected hosts between two hosts, found {testbed}")
    options.check()
    options.stack.check_on(name)
    topology = load_topology(first, reverse=False) if second is None else _probed(first, second, reporter)
    check_labels(options, topology)
    if len(topology.paths) < 2:
        raise InputError(topology.file, "", "expected two paths at least: all are compared with each")
    bench = testbeds.create(name)
    bench.check_network(topology)
    directions = 1 if one_way else 2
    reporter.notice(notice(topology, bench, options, directions))
    found = ask(
        topology,
        bench,
        options,
        directions=directions,
        own=_own(bench, topology, chosen=options.pm is not None),
        executor=where.create(None),
        reporter=reporter,
    )
    if as_json:
        emit_json(document(found))
    else:
        show(console(), found)


def _own(bench: Bench, topology: Topology, *, chosen: bool) -> Own:
    """Settings of the hosts as they are; their subflows unless a path manager was chosen for the trials."""
    from mptune.diagnosis.measuring import Own
    from mptune.testbeds import host_doctor
    from mptune.testbeds.hosts import HostsTestbed

    between = None
    if not chosen and isinstance(bench, HostsTestbed):
        between = host_doctor.examine(topology).subflows  # before trials have their own session there
    buffers = bench.largest_buffers(topology)
    if between is None:
        return Own(buffers=buffers)
    lines = [f"on {host}: {'; '.join(commands)}" for host, commands in between.lines.items() if commands]
    return Own(
        buffers=buffers,
        subflows=tuple(path.path for path in between.paths if path.comes_up is not False),
        lines="; ".join(lines),
    )


def _probed(sender: str, receiver: str, reporter: Reporter) -> Topology:
    """The network between two hosts, as a probe finds it."""
    from mptune.cli.probe import ProbeOptions, machines_of, wish_of
    from mptune.probe import course, file
    from mptune.tables import parse_toml
    from mptune.topology import from_tables

    with ExitStack() as stack:
        machines = machines_of(stack, {"sender": sender, "receiver": receiver})
        progress = stack.enter_context(reporter.phase("probe", "stages"))
        probed = course.probe(machines, wish_of(ProbeOptions(), sender, receiver), advance=progress)
    name = "probed"
    return from_tables(parse_toml(file.text(probed, name).encode(), name), name, name)
