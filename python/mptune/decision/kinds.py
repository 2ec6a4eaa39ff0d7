"""Kind of network and configuration of a trial, and whether that kind was compared with a kernel.

The error of the simulator is learnt by kind (`mptune.decision.model_error`) from drawn networks
(benchmarks/fidelity/throughput.py), whose figures have the same regimes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from mptune.topology import BOTH, TcpBackground, Topology, together_bps
from mptune.trial import DEFAULT_FAMILY, PLAIN_TCP, SENDER, Programs, Transfer, Trial
from mptune.trial.stacks import DEFAULT_STACK, STACKS, describe
from mptune.units import format_rate, format_size, format_time

#: Bounds of the regimes of the buffer, in products: the sum of the rates times the largest RTT.
BOUNDS: Final = ("0.1", "0.3", "0.9", "2.7", "8")
REGIMES: Final = tuple(f"{low} to {high}" for low, high in pairwise(BOUNDS))

#: Losses up to this many parts per billion are light.
LIGHT_PPB: Final = 1_000_000

#: Subflows of ndiffports by default (`crates/mptune-core/src/pathmanager/ndiffports.rs`).
_NDIFFPORTS = 2

#: Durations of saturated trials as shares of the compared one: others start, and lose, too differently.
DURATIONS: Final = (0.5, 6.0)

_BIT_NS_PER_BYTE = 8 * 10**9

Range = tuple[float, float]


class Compared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Range of the comparison with a kernel: names, and smallest and largest of each quantity.

    Attributes
    ----------
    paths : of a network.
    path_bps, total_bps : rate of a path, and of all together.
    rtt_ns, loss_ppb : of a path.
    products : of the buffer, as in `BOUNDS`.
    duration_ns : of every saturated trial.
    """

    congestion_controls: tuple[str, ...]
    path_managers: tuple[str, ...]
    buffer_modes: tuple[str, ...]
    paths: Range
    path_bps: Range
    total_bps: Range
    rtt_ns: Range
    loss_ppb: Range
    products: Range
    transfer_bytes: Range
    duration_ns: int


def factors(trial: Trial) -> dict[str, str]:
    """Factors of the model error: factor -> regime.

    `subflows` are those that carry data, which the path manager may choose among more.
    """
    return {
        "subflows": count_regime(_subflows(trial)),
        "buffer": buffer_regime(products(trial)),
        "loss": loss_regime(trial.topology),
        "congestion control": trial.cc,
        "buffer mode": trial.sized,
        "sent": "transfer" if isinstance(trial.workload, Transfer) else "saturated",
    }


def outside(trial: Trial, compared: Compared) -> str:
    """Reason why the simulator is not validated for a trial, a clause; empty if it is."""
    return next(_outside(trial, compared), "")


def _outside(trial: Trial, compared: Compared) -> Iterator[str]:
    topology = trial.topology
    members = msgspec.structs.asdict(STACKS[DEFAULT_STACK])
    if trial.protocol == PLAIN_TCP:
        yield "plain TCP is not validated"
    if trial.members != members:
        yield f"the stack {describe(trial.members)} is not validated"
    if trial.family != DEFAULT_FAMILY:
        whose = "a connection over both families" if trial.family == BOTH else trial.family
        yield f"{whose} is not validated"
    if trial.script:
        yield "scripted paths are not validated"
    if any(isinstance(flow, TcpBackground) for flow in topology.background):
        yield "competing TCP connections are not validated"
    for what, name, names in (
        ("congestion control", trial.cc, compared.congestion_controls),
        ("path manager", trial.pm, compared.path_managers),
        ("buffer mode", trial.sized, compared.buffer_modes),
    ):
        if name not in names:
            yield f"the {what} {name} is not validated"
    if trial.sized != SENDER and trial.receive_buffer_bytes not in (None, trial.buffer_bytes):
        yield "a receive buffer of its own size is not validated"
    yield from _out_of_range(
        "network", "networks of", " paths", [len(topology.paths)], compared.paths, _plain
    )
    rates = [path.rate_bps for path in topology.paths]
    yield from _out_of_range("network", "paths of", "", rates, compared.path_bps, _rate)
    yield from _out_of_range(
        "network", "networks of", " in all", [total_bps(topology)], compared.total_bps, _rate
    )
    rtts = [path.base_rtt_ns for path in topology.paths]
    yield from _out_of_range(
        "network", "RTTs of", "", rtts, compared.rtt_ns, lambda number: format_time(round(number), 3)
    )
    losses = [path.loss_ppb for path in topology.paths]
    yield from _out_of_range(
        "network", "losses of", "", losses, compared.loss_ppb, lambda number: f"{number / 1e7:.3g} %"
    )
    yield from _out_of_range("trial", "buffers of", " products", [products(trial)], compared.products, _plain)
    if isinstance(trial.workload, Transfer):
        sizes = [trial.workload.bytes]
        yield from _out_of_range(
            "trial",
            "transfers of",
            "",
            sizes,
            compared.transfer_bytes,
            lambda number: format_size(round(number), 3),
        )
    elif isinstance(trial.workload, Programs):
        yield "programs are not validated"
    else:
        low, high = (share * compared.duration_ns for share in DURATIONS)
        lasts = [trial.workload.duration_ns]
        yield from _out_of_range(
            "trial", "trials of", "", lasts, (low, high), lambda number: format_time(round(number), 3)
        )


def _out_of_range(
    whose: str, what: str, unit: str, values: Sequence[float], within: Range, text: Callable[[float], str]
) -> Iterator[str]:
    """A value that is not within the range, if there is one."""
    for value in values:
        if not within[0] <= value <= within[1]:
            low, high = text(within[0]), text(within[1])
            number, _, unit_of_low = low.rpartition(" ")
            if number and high.endswith(f" {unit_of_low}"):
                low = number
            yield f"validated only for {what} {low} to {high}{unit}; this {whose} has {text(value)}"


def products(trial: Trial) -> float:
    """The buffer of a trial in products."""
    product = product_bytes(trial.topology)
    return trial.buffer_bytes / product if product else math.inf


def product_bytes(topology: Topology) -> int:
    """Bandwidth-delay product of all paths: the sum of the rates times the largest RTT."""
    return total_bps(topology) * max(path.base_rtt_ns for path in topology.paths) // _BIT_NS_PER_BYTE


def total_bps(topology: Topology) -> int:
    """Capacity of all paths together."""
    sites = topology.sender.interfaces, topology.receiver.interfaces
    up = sum(site.up_effects.mean_rate_bps(site.up_bps) or 0 for site in sites[0])
    down = sum(site.down_effects.mean_rate_bps(site.down_bps) or 0 for site in sites[1])
    return min(together_bps(topology.paths), up, down)


def buffer_regime(products: float) -> str:
    """The regime of a buffer; beyond the first and the last bound it counts as the first and the last."""
    passed = sum(products >= float(bound) for bound in BOUNDS[1:-1])
    return REGIMES[passed]


def count_regime(paths: int) -> str:
    """The regime of a number of paths or subflows."""
    return str(paths) if paths <= 2 else "3 or 4" if paths <= 4 else "5 to 8"


def loss_regime(topology: Topology) -> str:
    """The regime of the losses that data meet: of the path that loses most, or in bursts on any of them."""
    effects = [
        down_effect
        for path in topology.paths
        for down_effect in (path.local.up_effects, path.core.forward_effects, path.remote.down_effects)
    ]
    if any(effect.bursts for effect in effects):
        return "burst"
    most = max(path.loss_ppb for path in topology.paths)
    return "none" if not most else "light" if most <= LIGHT_PPB else "heavy"


def _subflows(trial: Trial) -> int:
    """Number of subflows that a configuration sends on."""
    match trial.pm:
        case "default":
            return 1
        case "ndiffports":
            return int(trial.pm_options.get("ndiffports", _NDIFFPORTS))
        case _:
            return len(trial.pm_options.get("active") or trial.topology.paths)


def _plain(value: float) -> str:
    return f"{value:.3g}"


def _rate(value: float) -> str:
    """In Mbit/s, as in the answer, unless that takes more than three digits."""
    return f"{value / 1e6:.3g} Mbit/s" if value < 999e6 else format_rate(round(value), 3)
