"""Features of a configuration in a network, by which the learnt prior predicts its throughput.

Numbers that theory calls decisive: the buffer in bandwidth-delay products, the spread of the RTTs with empty
and with full queues, how far loss holds a congestion control back, who shares what. Nothing is learnt here.
Changing anything makes the learnt file useless; `VERSION` has to change with it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptune.topology import Path, Topology

Floats = NDArray[np.float64]

#: Of the features, in the learnt file too.
VERSION = 1

#: Congestion controls that are known, and the path managers that use all subflows.
CONTROLS = ("reno", "cubic", "hybla", "scalable", "vegas", "olia")

#: Payload of a full segment, bytes; its initial window, segments.
_SEGMENT, _FIRST = 1424, 10

#: Least loss that is told from none.
_LEAST_LOSS = 1e-7

#: Throughput in segments a RTT over the loss: Reno (Mathis et al. 1997), and Cubic's (RFC 9438, section 5.1)
#: with its power of the loss and of the RTT.
_RENO, _CUBIC = 1.22, (1.054, 0.75, 0.25)

#: Paths with features of their own: those with the highest rates.
_OWN = 3

#: Buffers are told apart within so many octaves of each product.
_OCTAVES = -6.0, 8.0

#: Small queues hold this many bytes at least, for the logarithm.
_LEAST_QUEUE = 3000


class Subflows(NamedTuple):
    """What is known of a set of paths.

    Attributes
    ----------
    total_bps : rate of all together, each link shared evenly (`fair_bps`).
    features : of the set.
    products : bytes that buffers are compared with.
    """

    total_bps: float
    features: tuple[float, ...]
    products: tuple[float, ...]


def of_configuration(
    subflows: Subflows, cc: str, buffer_bytes: int, *, mesh: bool, plain: bool, grown: bool
) -> list[float]:
    """All features.

    Parameters
    ----------
    mesh, plain : whether it is FullMesh or plain TCP.
    grown : whether only the sender's buffer has the size, and grows up to it (`mptune.trial.SENDER`).
    """
    low, high = _OCTAVES
    ratios = [min(high, max(low, _log(buffer_bytes / product))) for product in subflows.products]
    return [
        *subflows.features,
        *ratios,
        *(min(0.0, ratio) for ratio in ratios[:4]),
        _log(buffer_bytes / 2**20),
        *(float(cc == control) for control in CONTROLS),
        float(mesh),
        float(plain),
        float(grown),
    ]


def of_subflows(topology: Topology, active: frozenset[str]) -> Subflows:
    """Features of a set of paths, named by their labels; at least one."""
    paths = [path for path in topology.paths if path.label in active]
    rates = fair_bps(paths)
    total = float(rates.sum())
    shares = rates / total
    rtts = np.array([path.base_rtt_ns / 1e9 for path in paths])
    queues = np.array([float(path.queue_bytes) for path in paths])
    alone = np.array([float(path.rate_bps) for path in paths])
    losses = np.maximum(np.array([path.loss_ppb / 1e9 for path in paths]), _LEAST_LOSS)
    waiting = 8 * queues / alone
    reno = np.minimum(rates, 8 * _SEGMENT * _RENO / (rtts * np.sqrt(losses)))
    full = np.minimum(rates, 8 * _SEGMENT * _RENO / ((rtts + waiting) * np.sqrt(losses)))
    factor, of_loss, of_rtt = _CUBIC
    cubic = np.minimum(rates, np.maximum(reno, 8 * _SEGMENT * factor / (losses**of_loss * rtts**of_rtt)))
    lossy = losses > _LEAST_LOSS
    initial = next(
        (path for path in topology.paths if path.label == topology.initial_path), topology.paths[0]
    )
    loaded = rtts + waiting
    features = [
        *(_log(total / 1e6), float(len(paths)), _log(len(paths)), float(len(topology.paths))),
        *(_log(rtts.max()), _log(rtts.min()), _log(rtts.max() / rtts.min()), _log(float(shares @ rtts))),
        *(_log(float(some.sum()) / total) for some in (reno, cubic, full)),
        *(_log(losses.max()), _log(float(shares @ losses)), float(lossy.mean()), float(shares[lossy].sum())),
        *(_log(waiting.max()), _log(waiting.min()), _log(float(shares @ waiting))),
        _log(loaded.max() / rtts.min()),
        *(float(shares.max()), _log(shares.max() / shares.min()), -float(shares @ np.log2(shares))),
        _log(total / alone.max()),
        len({path.local_index for path in paths}) / len(paths),
        len({path.remote_index for path in paths}) / len(paths),
        *(float(initial in paths), _log(initial.rate_bps / total)),
        _log(initial.base_rtt_ns / 1e9 / rtts.min()),
        float(shares @ (rtts / rtts.max())),
    ]
    order = np.argsort(-rates, kind="stable")
    for place in range(_OWN):
        if place >= len(order):
            features += [0.0, 0.0, _log(_LEAST_LOSS), 0.0, 0.0]
            continue
        i = order[place]
        features += [float(shares[i]), _log(rtts[i] / rtts.min()), _log(losses[i])]
        features += [_log(8 * (queues[i] + _LEAST_QUEUE) / (alone[i] * rtts[i])), _log(reno[i] / rates[i])]
    slowest = int(np.argmax(loaded))
    features += [float(shares[slowest]), _log(reno[slowest] / rates[slowest])]
    held = rates * rtts / 8
    products = (
        total * rtts.max() / 8,
        float(held.sum()),
        total * loaded.max() / 8,
        float(reno.sum()) * rtts.max() / 8,
        total * rtts.min() / 8,
        float(held[order[0]]),
        float((held + queues).sum()),
        float(reno @ rtts) / 8,
        float(_SEGMENT * _FIRST * len(paths)),
    )
    return Subflows(total, tuple(features), products)


def fair_bps(paths: Sequence[Path]) -> Floats:
    """Rates of paths if all are used at once and each link is shared evenly (max-min), bit/s.

    Shared are access links and the shared segments of topologies.
    """
    links: list[list[object]] = []
    left: dict[object, float] = {}
    for path in paths:
        used: dict[object, int] = {
            ("sender", path.local_index): path.local.up_bps,
            ("receiver", path.remote_index): path.remote.down_bps,
            ("path", path.label): path.rate_bps,
            **{("segment", one.name): one.rate_bps for one in path.shared if one.rate_bps is not None},
        }
        left |= {link: float(rate) for link, rate in used.items()}
        links.append(list(used))
    rates, growing = np.zeros(len(paths)), set(range(len(paths)))
    least = {link: 1e-6 * rate for link, rate in left.items()}
    while growing:
        users = {link: sum(link in links[i] for i in growing) for i in growing for link in links[i]}
        more = min(left[link] / count for link, count in users.items())
        for i in growing:
            rates[i] += more
        for link, count in users.items():
            left[link] -= more * count
        growing -= {i for i in growing if any(left[link] <= least[link] for link in links[i])}
    return rates


def _log(value: float) -> float:
    """To the base of 2, of what is never quite 0."""
    return math.log2(max(float(value), 1e-9))
