"""Networks and configurations drawn at random, on which the simulator is compared with the kernel.

Not a benchmark. A seed gives the same networks and the same configurations on every machine (numbers as in
`benchmarks.shared.random_networks`), and the first ten of a draw of twenty are those of a draw of ten. The
regimes are dealt from shuffled decks, so that each comes up as often as it should: the number of paths, the
class of loss, where the bottlenecks are, and whether there and back differ, network by network; congestion
control, path manager, buffer, buffer mode, and transfers, configuration by configuration.

Half of the networks are plain: rates, delays and drop-tail queues. The others have losses by their class and
each other effect with a probability of its own. TCP connections of others are left out, which the emulator
does not have, and so is the path manager guard, which the kernel's testbed does not have.

After the configurations of a network come those in which the size is the sender's alone, dealt from decks of
their own: a draw with them has the same others as one without.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.shared.random_networks import LEAST_QUEUE, SHAPES, WIDE_BPS, WIDE_QUEUE, Draw
from mptune.decision.kinds import REGIMES, buffer_regime, count_regime, product_bytes
from mptune.runner.seeds import seed_for
from mptune.topology import Topology, load
from mptune.trial import AUTO, FIXED, SENDER, Bulk, Transfer, Trial, Workload
from mptune.trial.stacks import DEFAULT_STACK, STACKS

#: Cards of the decks that are dealt network by network.
PATHS = ((2,), (2,), (3,), (4,), (5, 6), (7, 8))
#: Plain or not, and whether there and back differ.
KINDS = ((True, False), (True, True), (False, False), (False, True))
LOSSES = ("none", "light", "heavy", "burst")
BOTTLENECKS = ("shared", "own", "mixed")
LSRR = ("ignored", "honoured")

#: Cards of the decks that are dealt configuration by configuration.
CCS = (
    *("reno", "cubic", "hybla", "scalable", "vegas", "olia"),
    *("lia", "balia", "wvegas", "bbr", "dctcp"),
)
PMS = (*("fullmesh",) * 3, *("pcdc",) * 2, "default", "ndiffports", "binder")
MODES = (FIXED, FIXED, AUTO)
TRANSFERS = (*(False,) * 7, True)

#: bit/s of a bottleneck and ns of a path's RTT, log-uniform.
RATE_BPS = (1_000_000, 150_000_000)
RTT_NS = (6_000_000, 160_000_000)
#: Largest sum of a network's rates, bit/s: the emulator has to keep up.
MOST_BPS = 300_000_000
#: Smallest sum of a network's bandwidth-delay products, bytes: a fifth of it is still a buffer.
LEAST_PRODUCT = 2**18
#: Queue of a bottleneck in bandwidth-delay products.
QUEUE_BDPS = ("0.25", 4)
#: Factors by which the ways back are slower in an asymmetric network.
SLOWER_BACK = (2, 20)
#: Losses by class, ppb; of bursts the share of packets that are in one, and the packets of a burst.
LOSS_PPB = {"light": (50_000, 1_000_000), "heavy": (1_000_000, 10_000_000)}
BURST_PPB, BURST_PACKETS = (100_000, 5_000_000), (2, 20)
#: Probability, in per cent, of each other effect in a network that is not plain.
EFFECTS = {
    "jitter": 50,
    "discipline": 40,
    "reorder": 20,
    "duplicate": 15,
    "bucket": 20,
    "schedule": 20,
    "trace": 15,
    "udp": 25,
}
DISCIPLINES: tuple[Any, ...] = ("red", {"kind": "red", "ecn": True}, "codel", "fq_codel", "step")

#: Smallest buffer, bytes; the receiver's limit where the size is the sender's (`tcp_rmem` of Linux 6.18); and
#: sizes of transfers.
LEAST_BUFFER = 32 * 1024
RECEIVE_BUFFER = 32 * 1024**2
TRANSFER_BYTES = (64 * 1024, 16 * 1024**2)
#: A transfer that takes longer has failed, ns.
DEADLINE_NS = 60_000_000_000

_BIT_NS_PER_BYTE = 8 * 10**9
_PPB = 10**9
_FULL_PACKET = 1500
#: ms of a trace, and of the pieces in which its rate stays the same.
_TRACE_MS, _PIECE_MS = 4_000, 200
#: Fastest link that gets a trace, bit/s: a line of the file for each 1500 bytes.
_TRACE_BPS = 40_000_000


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration in one network.

    Attributes
    ----------
    network, index : name of the network, and which of its configurations this is, from 0.
    trial : without a seed of its own (`runs`).
    factors : name -> what this case counts as, for figures by regime.
    """

    network: str
    index: int
    trial: Trial
    factors: dict[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """Its name for `--only`."""
        return f"{self.network}:{self.index}"

    def runs(self, seed: int, number: int) -> tuple[Trial, ...]:
        """So many runs of it; those with the same number have the same seed in every case."""
        return tuple(
            msgspec.structs.replace(self.trial, seed=seed_for(seed, "sweep", run)) for run in range(number)
        )

    def simulated_runs(self, seed: int, number: int, kernel: str) -> tuple[Trial, ...]:
        """The same with the simulator's stack for this kernel, if its release has one of its own."""
        release = ".".join(kernel.split(".")[:2])
        accounting = STACKS.get(f"linux-{release}", STACKS[DEFAULT_STACK]).accounting
        return tuple(
            msgspec.structs.replace(trial, accounting=accounting) for trial in self.runs(seed, number)
        )


class Network(NamedTuple):
    """A drawn network with its configurations."""

    topology: Topology
    file: Path
    cases: tuple[Case, ...]


class Deck:
    """Deals cards in a random order, and shuffles them again when all are dealt."""

    def __init__(self, seed: int, name: str, cards: Sequence[Any]) -> None:
        self._draw, self._cards, self._left = Draw(_digest(seed, name)), tuple(cards), list[Any]()

    def deal(self) -> Any:
        """The next card."""
        if not self._left:
            self._left = shuffled(self._cards, self._draw)
        return self._left.pop()


def shuffled(cards: Sequence[Any], draw: Draw) -> list[Any]:
    """Cards in a random order (Fisher and Yates)."""
    order = list(cards)
    for place in range(len(order) - 1, 0, -1):
        other = draw.below(place + 1)
        order[place], order[other] = order[other], order[place]
    return order


def networks(
    seed: int, number: int, configurations: int, duration_ns: int, folder: Path, senders: int = 0
) -> Iterator[Network]:
    """Draw; the topology files, and the traces that they name, are written into a folder.

    Parameters
    ----------
    duration_ns : of a saturated trial.
    senders : further configurations of each network, in which the size is the sender's alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    decks = _decks(seed, ("paths", PATHS), ("kind", KINDS), ("losses", LOSSES), ("lsrr", LSRR))
    decks |= _decks(seed, ("bottlenecks", BOTTLENECKS))
    dealt = _configuring(seed, "", MODES)
    alone = _configuring(seed, f"{SENDER} ", (SENDER,))
    for place in range(number):
        name = f"drawn-{seed}-{place}"
        drawing = _Drawing(name, decks, Draw(_digest(seed, name)))
        drawing.write(folder)
        file = folder / f"{name}.toml"
        topology = load(file)
        cases = tuple(
            _case(
                topology, drawing.factors, index, decks_, Draw(_digest(seed, f"{name}:{index}")), duration_ns
            )
            for index, decks_ in enumerate([dealt] * configurations + [alone] * senders)
        )
        yield Network(topology, file, cases)


def _decks(seed: int, *named: tuple[str, Sequence[Any]]) -> dict[str, Deck]:
    return {name: Deck(seed, name, cards) for name, cards in named}


def _configuring(seed: int, prefix: str, modes: Sequence[str]) -> dict[str, Deck]:
    """Decks of what a configuration is dealt, by what each deals; their order depends on the prefix."""
    cards: dict[str, Sequence[Any]] = {
        "cc": CCS,
        "pm": PMS,
        "mode": modes,
        "transfer": TRANSFERS,
        "buffer": REGIMES,
    }
    return {name: Deck(seed, prefix + name, each) for name, each in cards.items()}


def _digest(seed: int, name: str) -> int:
    return int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=6).digest(), "big")


def _case(
    topology: Topology,
    factors: dict[str, tuple[str, ...]],
    index: int,
    dealt: dict[str, Deck],
    draw: Draw,
    duration_ns: int,
) -> Case:
    """Deal a configuration for a network."""
    cc, pm, mode = (str(dealt[name].deal()) for name in ("cc", "pm", "mode"))
    low, _, high = dealt["buffer"].deal().split()
    product = product_bytes(topology)
    size = max(LEAST_BUFFER, int(draw.uniform(low, high) * product / 1024) * 1024)
    labels = [path.label for path in topology.paths]
    transfer = int(draw.uniform(*TRANSFER_BYTES)) if dealt["transfer"].deal() else None
    first = labels[draw.below(len(labels))] if pm in ("default", "ndiffports") else None
    workload: Workload = Bulk(duration_ns=duration_ns)
    if transfer:
        workload = Transfer(bytes=transfer, deadline_ns=DEADLINE_NS)
    trial = Trial(
        topology=topology,
        pm=pm,
        cc=cc,
        buffer_bytes=size,
        buffer_mode=AUTO if mode == SENDER else mode,
        receive_buffer_bytes=max(RECEIVE_BUFFER, size) if mode == SENDER else None,
        seed=0,
        workload=workload,
        initial_path=first,
        pm_options=_options(pm, labels, draw),
    )
    own = {
        "congestion control": (cc,),
        "path manager": (pm,),
        "buffer": (buffer_regime(size / product),),
        "buffer mode": (mode,),
        "sent": ("transfer" if transfer else "saturated",),
    }
    return Case(network=topology.name, index=index, trial=trial, factors=own | factors)


def _options(pm: str, labels: list[str], draw: Draw) -> dict[str, Any]:
    """Options of a path manager: pcdc gets a random optional set, ndiffports up to four subflows."""
    if pm == "ndiffports":
        return {"ndiffports": 2 + draw.below(3)}
    if pm == "pcdc":
        order = shuffled(labels, draw)
        active = 1 + draw.below(len(labels))
        return {"active": order[:active], "standby_order": order[active:]}
    return {}


class _Drawing:
    """One network: the tables of its topology file, its traces, and what it counts as."""

    def __init__(self, name: str, decks: dict[str, Deck], draw: Draw) -> None:
        self._name, self._draw = name, draw
        self._traces: dict[str, list[int]] = {}
        plain, asymmetric = decks["kind"].deal()
        self._loss = "none" if plain else decks["losses"].deal()
        self._bottlenecks = decks["bottlenecks"].deal()
        self._slower = draw.uniform(*SLOWER_BACK) if asymmetric else None
        paths = decks["paths"].deal()
        count = paths[draw.below(len(paths))]
        shapes = [shape for shape in SHAPES if shape[0] * shape[1] == count]
        self._shape = shapes[draw.below(len(shapes))]
        self._ends = [(s, r) for s in range(self._shape[0]) for r in range(self._shape[1])]
        self._labels = [f"{'ABCDEFG'[s]}-{'TUVWXYZ'[r]}" for s, r in self._ends]
        self._rtts = [int(draw.uniform(*RTT_NS)) for _ in self._ends]
        effects = [name for name, chance in EFFECTS.items() if draw.below(100) < chance and not plain]
        self._sender: list[dict[str, Any]] = [{} for _ in range(self._shape[0])]
        self._receiver: list[dict[str, Any]] = [{} for _ in range(self._shape[1])]
        self._segments: list[dict[str, Any]] = [{} for _ in self._ends]
        self._background: list[dict[str, Any]] = []
        self._lay_links()
        self._lose()
        # Not every network has a place for every effect.
        self._effects = [effect for effect in effects if getattr(self, f"_{effect}")()]
        self._lsrr = decks["lsrr"].deal()
        self.factors = {
            "paths": (count_regime(len(self._ends)),),
            "loss": (self._loss,),
            "bottlenecks": (self._bottlenecks,),
            "ways": ("asymmetric" if asymmetric else "symmetric",),
            "effects": tuple(self._effects) or (("loss alone",) if self._loss != "none" else ("plain",)),
        }

    def write(self, folder: Path) -> None:
        """The topology file, and its traces."""
        for file, times in self._traces.items():
            (folder / file).write_text("".join(f"{time}\n" for time in times), encoding="ascii")
        rates = f"{self._bottlenecks} bottlenecks, {self.factors['ways'][0]}"
        head = {
            "name": self._name,
            "description": f"{len(self._ends)} paths, {rates}, {', '.join(self.factors['effects'])}",
            "source": "drawn at random",
            "sender": "S",
            "receiver": "R",
            "lsrr": self._lsrr,
            "initial_path": self._labels[self._draw.below(len(self._labels))],
        }
        tables = [_assignments(head)]
        for abbr, interfaces in (("S", self._sender), ("R", self._receiver)):
            tables.append(f"[sites.{abbr}]\n" + _assignments({"name": f"site {abbr}", "location": "drawn"}))
            tables += [f"[[sites.{abbr}.interfaces]]\n" + _assignments(interface) for interface in interfaces]
        tables += ["[[core.segments]]\n" + _assignments(segment) for segment in self._segments]
        tables += ["[[background]]\n" + _assignments(flow) for flow in self._background]
        (folder / f"{self._name}.toml").write_text("\n".join(tables), encoding="utf-8")

    def _lay_links(self) -> None:
        """Rates, delays and queues: bottlenecks in the access links, in the core, or in both."""
        here = [self._rate() for _ in self._sender], [self._rate() for _ in self._receiver]
        core = [self._rate() for _ in self._ends]
        own = self._bottlenecks != "shared"
        most = sum(core) if own else min(sum(here[0]), sum(here[1]))
        least = LEAST_PRODUCT * _BIT_NS_PER_BYTE // max(self._rtts)
        within = min(max(most, least), MOST_BPS)

        def scale(rate: int) -> int:
            return rate * within // most

        for number, (segment, label) in enumerate(zip(self._segments, self._labels, strict=True)):
            segment |= {"path": label, "rtt": _time(self._rtts[number]), "jitter": _time(0), "loss": "0 %"}
            if own:
                segment |= {
                    "rate": _rate(scale(core[number])),
                    "queue": self._queue(scale(core[number]), number),
                }
        narrow = self._draw.below(sum(self._shape)) if self._bottlenecks == "mixed" else None
        for end, (interfaces, data, back) in enumerate(
            ((self._sender, "up", "down"), (self._receiver, "down", "up"))
        ):
            for place, interface in enumerate(interfaces):
                over = [number for number, ends in enumerate(self._ends) if ends[end] == place]
                carried = sum(scale(core[number]) for number in over) if own else scale(here[end][place])
                rate = WIDE_BPS if own else carried
                if narrow == place + end * len(self._sender):
                    rate = int(carried * self._draw.uniform("0.4", "0.9"))
                slow = max(64_000, int(min(rate, carried) / self._slower)) if self._slower else rate
                interface |= {"isp": f"ISP {'SR'[end]}{place}", "abbr": ("ABCDEFG", "TUVWXYZ")[end][place]}
                interface |= {data: _rate(rate), back: _rate(slow), "delay": _time(0), "loss": "0 %"}
                interface[f"queue_{data}"] = self._queue(rate, *over)
                interface[f"queue_{back}"] = self._queue(slow, *over)

    def _rate(self) -> int:
        return int(self._draw.uniform(*RATE_BPS))

    def _queue(self, rate: int, *paths: int) -> str:
        """Queue in front of a link of this rate (bit/s), for the mean RTT of its paths."""
        if rate == WIDE_BPS:
            return _size(WIDE_QUEUE)
        rtt = sum(self._rtts[number] for number in paths) // len(paths)
        bytes_ = int(self._draw.uniform(*QUEUE_BDPS) * rate * rtt / _BIT_NS_PER_BYTE)
        return _size(max(LEAST_QUEUE, bytes_))

    def _some(self, links: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """About half of them, and at least one."""
        chosen = [link for link in links if self._draw.below(2)]
        return chosen or [links[self._draw.below(len(links))]]

    def _tight(self) -> list[tuple[dict[str, Any], str, str]]:
        """Links that limit the rate of data: their tables, the key of the rate, and what others end in."""
        if self._bottlenecks != "shared":
            return [(segment, "rate", "") for segment in self._segments]
        return [(link, "up", "_up") for link in self._sender]

    def _one_tight(self) -> tuple[dict[str, Any], str, str]:
        """One of them whose rate is still its own."""
        free = [place for place in self._tight() if place[1] in place[0] and "schedule" not in place[0]]
        free = [place for place in free if f"bucket{place[2]}" not in place[0]]
        return free[self._draw.below(len(free))] if free else ({}, "", "")

    def _lose(self) -> None:
        """Losses of the class, in the core, where they concern data, or on access links both ways."""
        if self._loss == "none":
            return
        # On the access links of one site, so that no packet is lost at two places.
        access = self._draw.below(4) == 0
        for link in self._some(self._sender if access else self._segments):
            if self._loss == "burst":
                leave = _PPB // int(self._draw.uniform(*BURST_PACKETS))
                share = int(self._draw.uniform(*BURST_PPB))
                enter = leave * share // (_PPB - share)
                link["gilbert_elliott"] = {"enter": _share(enter), "leave": _share(leave)}
            else:
                link["loss"] = _share(int(self._draw.uniform(*LOSS_PPB[self._loss])))

    def _jitter(self) -> bool:
        for number, segment in enumerate(self._segments):
            most = min(10_000_000, self._rtts[number] // 4)
            if self._draw.below(2) or number == 0:
                segment["jitter"] = _time(int(self._draw.uniform(200_000, most)))
        return True

    def _discipline(self) -> bool:
        tight = self._tight()
        chosen = self._some([link for link, _, _ in tight])
        kind = DISCIPLINES[self._draw.below(len(DISCIPLINES))]
        for link, _, suffix in tight:
            if any(link is chosen_link for chosen_link in chosen):
                link[f"discipline{suffix}"] = kind
        return True

    def _reorder(self) -> bool:
        for link in self._some(self._segments):
            chance, delay = self._draw.uniform(100_000, 10_000_000), self._draw.uniform(500_000, 5_000_000)
            link["reorder"] = {"probability": _share(int(chance)), "delay": _time(int(delay))}
        return True

    def _duplicate(self) -> bool:
        for link in self._some(self._segments):
            link["duplicate"] = _share(int(self._draw.uniform(10_000, 1_000_000)))
        return True

    def _bucket(self) -> bool:
        """A shaper whose line is faster than its contract."""
        link, key, suffix = self._one_tight()
        if not link:
            return False
        contract = link[key]
        link[key] = _rate(int(_number(contract) * self._draw.uniform(2, 5)))
        burst = _size(int(self._draw.uniform(15_000, 500_000)))
        link[f"bucket{suffix}"] = {"rate": contract, "burst": burst}
        return True

    def _schedule(self) -> bool:
        """A rate that falls for a while, again and again."""
        link, key, _ = self._one_tight()
        if not link:
            return False
        period = int(self._draw.uniform(1_000_000_000, 6_000_000_000))
        rate, low = link[key], int(_number(link[key]) * self._draw.uniform("0.3", "0.9"))
        steps = [{"at": _time(period // 3), key: _rate(low)}, {"at": _time(2 * period // 3), key: rate}]
        link["schedule"], link["schedule_period"] = steps, _time(period)
        return True

    def _trace(self) -> bool:
        """Instead of a rate, times at which 1500 bytes can leave; the rate changes five times a second."""
        link, key, suffix = self._one_tight()
        rate = _number(link[key]) if link else 0
        if not link or rate > _TRACE_BPS or f"discipline{suffix}" in link:
            return False
        times, sent, here = list[int](), 0, 0
        for now in range(1, _TRACE_MS + 1):
            if now % _PIECE_MS == 1:
                here = int(rate * self._draw.uniform("0.4", "1.8"))
            sent += here
            due = sent // (8 * 1000 * _FULL_PACKET)
            times += [now] * (due - len(times))
        times = [*times, _TRACE_MS]
        file = f"{self._name}.trace"
        self._traces[file] = times
        del link[key]
        link[f"trace{suffix}"] = file
        return True

    def _udp(self) -> bool:
        """Datagrams of others on one bottleneck, in bursts or all the time."""
        link, key, suffix = self._one_tight()
        if not link:
            return False
        name = f"S {link['abbr']} up" if suffix else f"{link['path']} forward"
        rate = int(_number(link[key]) * self._draw.uniform("0.05", "0.3"))
        flow = {"kind": "udp", "link": name, "rate": _rate(rate)}
        if self._draw.below(2):
            flow |= {"on": _time(int(self._draw.uniform(200_000_000, 2_000_000_000)))}
            flow |= {"off": _time(int(self._draw.uniform(200_000_000, 2_000_000_000)))}
        self._background.append(flow)
        return True


def _rate(bps: int) -> str:
    return f"{bps} bit/s"


def _number(text: str) -> int:
    return int(text.split()[0])


def _time(ns: int) -> str:
    return f"{ns} ns"


def _size(size: int) -> str:
    return f"{size} B"


def _share(ppb: int) -> str:
    """A probability, as a plain fraction of nine decimals."""
    return "1" if ppb >= _PPB else f"0.{ppb:09d}"


def _assignments(table: dict[str, Any]) -> str:
    """Lines of a TOML table: text, switches, and tables and lists of them in one line."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value)


#: After this many configurations every deck of configurations has been dealt to its end.
WHOLE = lcm(len(CCS), len(PMS), len(MODES), len(REGIMES))
