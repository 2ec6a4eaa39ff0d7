"""Options of several commands: the contents of trials, their number, and where they are run.

A command or a campaign has such an option if its options struct has a field of this type, with its default.
"""

from typing import Annotated

from mptune import testbeds
from mptune.options._declared import Option, Options, Place, by_flag, declared, value_of
from mptune.options._kinds import SWITCH, TOGGLE, Kind, choice, count, names, several, size, texts, time
from mptune.options.buffers import BUFFER, BUFFERS
from mptune.topology import Topology
from mptune.trial import FAMILY_CHOICES, PROTOCOLS, ScriptedAction
from mptune.trial.stacks import STACKS

#: The label of a path, which must be in the trial's topology.
LABEL = Kind[str]("PATH", str.strip, labels=True)
LABELS = texts("PATH,...", labels=True)


def _path_managers() -> list[str]:
    return testbeds.names("path_managers")


def _congestion_controls() -> list[str]:
    return testbeds.congestion_controls()


def scheduler_names() -> list[str]:
    """Schedulers, from the core's list."""
    return testbeds.names("schedulers")


def buffer_modes() -> list[str]:
    """Modes of the buffers, from the core's list."""
    return testbeds.names("buffer_modes")


# ---- one trial, or many that are alike ------------------------------------------------------------

#: Path managers without --pm, by protocol.
USUAL_PMS = {"mptcp": "fullmesh", "tcp": "default"}
Pm = Annotated[
    str | None,
    Option(
        choice(_path_managers),
        "Path manager.",
        flag="--pm",
        unset=f"{USUAL_PMS['mptcp']}; {USUAL_PMS['tcp']} with --protocol tcp",
    ),
]
Cc = Annotated[str, Option(choice(_congestion_controls), "Congestion control of all subflows.", flag="--cc")]
Buffer = Annotated[
    int, Option(BUFFER, "Send and receive buffer of the connection; a bare number is MiB.", flag="--buffer")
]
ReceiveBuffer = Annotated[
    int | None,
    Option(
        BUFFER,
        "Receive buffer of the connection, where it is another.",
        flag="--receive-buffer",
        rare=True,
        unset="as --buffer",
    ),
]
BufferMode = Annotated[
    str,
    Option(
        choice(buffer_modes),
        "fixed: the buffers have that size; auto: they grow up to it, as tcp_rmem and tcp_wmem allow.",
        key="buffer_mode",
        rare=True,
        alone=True,
    ),
]
Protocol = Annotated[
    str,
    Option(
        choice(lambda: PROTOCOLS),
        "Transport protocol; tcp is plain TCP on the initial path.",
        flag="--protocol",
    ),
]
Family = Annotated[
    str,
    Option(
        choice(lambda: FAMILY_CHOICES),
        "Addresses of the subflows: of one family, or of both, with a path A-B/6 over IPv6 beside each A-B.",
        key="transport.family",
        rare=True,
        alone=True,
    ),
]
InitialPath = Annotated[
    str | None,
    Option(LABEL, "Path of the first handshake.", flag="--initial-path", unset="the topology's"),
]
TransferSize = Annotated[
    int | None, Option(size(), "Send this much data instead of a --duration.", flag="--transfer")
]
SizeKnown = Annotated[
    bool,
    Option(
        TOGGLE,
        "The path manager knows beforehand how much there is to send; otherwise pcdc goes by the bytes sent.",
        key="trials.size_known",
        rare=True,
    ),
]
Seed = Annotated[
    int, Option(count(), "Base of all seeds; the same base gives the same results.", key="seed", alone=True)
]


def sending_time(unset: str) -> Option[int]:
    """Declare how long to send, as an alternative to a transfer; `unset` applies without either."""
    return Option(time(positive=True), "Send for this long.", flag="--duration", unset=unset)


# ---- what is varied -------------------------------------------------------------------------------

Pms = Annotated[
    tuple[str, ...], Option(names(_path_managers), "Path managers; repeat, or use commas.", key="factors.pm")
]
Ccs = Annotated[
    tuple[str, ...],
    Option(names(_congestion_controls), "Congestion controls; repeat, or use commas.", key="factors.cc"),
]
Buffers = Annotated[
    tuple[int, ...],
    Option(
        BUFFERS,
        "Send and receive buffers, as low:high:step or a,b,c; a bare number is MiB.",
        key="factors.buffers",
    ),
]
InitialPaths = Annotated[
    tuple[str, ...], Option(LABELS, "Paths of the first handshake.", key="factors.initial_path", rare=True)
]
BufferModes = Annotated[
    tuple[str, ...],
    Option(several(choice(buffer_modes)), "Modes of the buffers (fixed, auto).", key="factors.buffer_mode"),
]
Schedulers = Annotated[
    tuple[str, ...],
    Option(several(choice(scheduler_names)), "Schedulers.", key="factors.scheduler"),
]
StackNames = Annotated[
    tuple[str, ...],
    Option(
        several(choice(lambda: STACKS)),
        "MPTCP implementations (linux, linux-7.3, v0.9x).",
        key="factors.stack",
    ),
]
#: The word for plain TCP on every path.
EVERY_PATH = "all"
TcpPaths = Annotated[
    tuple[str, ...],
    Option(
        LABELS,
        f"Plain TCP on these paths beside MPTCP; {EVERY_PATH} for every path.",
        key="factors.tcp",
        flag="--tcp-on",
    ),
]
Transfers = Annotated[tuple[int, ...], Option(several(size()), "Sizes of transfers.", key="factors.transfer")]

# ---- how many, how long, where --------------------------------------------------------------------

Runs = Annotated[
    int, Option(count(1), "Runs of each configuration, each with its own seed.", key="trials.runs")
]
Duration = Annotated[int, Option(time(positive=True), "Length of each trial.", key="trials.duration")]
#: One of the testbeds; `virtual:7.3` names the release of its kernel too.
_TESTBED = Kind("NAME", str.strip, str, testbeds.check_name, known=lambda: tuple(testbeds.TESTBEDS))
Testbed = Annotated[str, Option(_TESTBED, "Where to measure.", key="testbed")]
Reverse = Annotated[
    bool,
    Option(SWITCH, "Swap sender and receiver of the topology; path A-B becomes B-A.", key="reverse"),
]
Jobs = Annotated[
    int | None,
    Option(
        count(1),
        "Number of trials run in parallel.",
        flag="--jobs",
        unset="one per core; on the kernel, as many as the machine can take",
    ),
]


def check_labels(options: Options, topology: Topology, place: Place = by_flag) -> None:
    """Refuse labels of paths that the topology does not have.

    Raises
    ------
    InputError : naming the option where it was written.
    """
    for declaration in declared(type(options)):
        if not declaration.option.kind.labels:
            continue
        value = value_of(options, declaration.fields)
        for text in (value,) if isinstance(value, str) else value or ():
            if text == EVERY_PATH and declaration.fields == ("tcp_paths",):
                continue
            label = text.path if isinstance(text, ScriptedAction) else text
            topology.path(label, ": ".join(filter(None, place(declaration))))


class MeasuringOptions(Options, frozen=True, kw_only=True):
    """Testbed, direction and parallelism of trials."""

    testbed: Testbed = "simulated"
    reverse: Reverse = False
    jobs: Jobs = None
