"""What the BPF congestion controls are for, on the running kernel and over the emulated network.

Short runs with wide limits; benchmarks/twins.py and benchmarks/kernel_rules.py measure the same at length.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mptune.linux import bpf
from mptune.testbeds import Observation, Trial, create
from mptune.topology import Topology, load

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000
MIB = 1 << 20
#: A trial on an overloaded machine is repeated so often.
ATTEMPTS = 4

PATHS = """
name = "paths"
description = "one path or two"
source = "made up"
sender = "S"
receiver = "R"
[sites.S]
name = "sender"
location = "here"
[[sites.S.interfaces]]
isp = "Alpha"
abbr = "A"
up = "{up}"
down = "{up}"
delay = "1 ms"
queue = "{queue}"
{second}
[sites.R]
name = "receiver"
location = "there"
[[sites.R.interfaces]]
isp = "Exchange"
abbr = "X"
up = "200 Mbit/s"
down = "200 Mbit/s"
delay = "1 ms"
queue = "1 MiB"
[core]
rtt = "{rtt}"
loss = "{loss}"
"""
SECOND_INTERFACE = """
[[sites.S.interfaces]]
isp = "Beta"
abbr = "B"
up = "10 Mbit/s"
down = "10 Mbit/s"
delay = "11 ms"
queue = "60 KiB"
"""


@pytest.fixture
def network(tmp_path: Path):
    """Makes a topology."""

    def make(
        up: str = "20 Mbit/s", queue: str = "100 KiB", rtt: str = "30 ms", loss: str = "0 %", second=False
    ):
        file = tmp_path / "paths.toml"
        file.write_text(
            PATHS.format(up=up, queue=queue, rtt=rtt, loss=loss, second=SECOND_INTERFACE if second else "")
        )
        return load(file)

    return make


@pytest.fixture
def measure(testbed):
    """Runs a trial on the kernel, again if the machine was too busy."""

    def run(
        topology: Topology, cc: str, seconds: float, buffer_bytes: int = MIB
    ) -> tuple[Trial, Observation]:
        trial = Trial(
            topology=topology,
            pm="fullmesh",
            cc=cc,
            scheduler="kernel",
            buffer_bytes=buffer_bytes,
            seed=1,
            duration_ns=round(seconds * SECOND),
        )
        for _ in range(ATTEMPTS):
            observation = testbed.run(trial)
            if "overloaded" not in observation.metadata:
                break
        assert observation.failed is None, observation.failed
        return trial, observation

    return run


@pytest.mark.parametrize("cc", bpf.programs())
@pytest.mark.timeout(180)
def test_a_program_and_its_original_in_the_simulator_are_alike(cc, network, measure) -> None:
    trial, kernel = measure(network(second=True), cc, 10)
    simulated = create("simulated").run(trial)
    assert kernel.throughput_bps == pytest.approx(simulated.throughput_bps, rel=0.15)
    for ours, theirs in zip(simulated.subflows, kernel.subflows, strict=True):
        assert ours.path == theirs.path
        shares = ours.bytes / simulated.in_order_bytes, theirs.bytes / kernel.in_order_bytes
        assert abs(shares[0] - shares[1]) <= 0.12, shares


@pytest.mark.timeout(300)
def test_hybla_is_indifferent_to_the_rtt_where_reno_is_not(network, measure) -> None:
    def over_rtt(cc: str) -> float:
        """Throughput at 100 ms over that at 25 ms with the same random loss."""
        rates = [
            measure(network(up="100 Mbit/s", rtt=rtt, loss="0.3 %"), cc, 15, 4 * MIB)[1].throughput_bps
            for rtt in ("96 ms", "21 ms")
        ]
        return float(rates[0] / rates[1])

    assert over_rtt("reno") < 0.45
    assert over_rtt("hybla") > 0.55


@pytest.mark.timeout(180)
def test_vegas_keeps_the_queue_short_where_reno_fills_it(network, measure) -> None:
    def queueing_ms(cc: str) -> float:
        _, found = measure(network(queue="400 KiB"), cc, 8, 4 * MIB)
        assert found.throughput_bps > 15e6
        (subflow,) = found.subflows
        return float(subflow.srtt_ns - subflow.min_rtt_ns) / 1e6

    assert queueing_ms("vegas") < 15  # 5 segments take 3 ms
    assert queueing_ms("reno") > 50  # 400 KiB take 164 ms


@pytest.mark.timeout(600)
def test_coupled_subflows_do_no_harm_and_leave_the_contended_path(testbed) -> None:
    arguments = ["--runs", "1", "--duration", "20", "--json"]
    algorithms = [argument for cc in ("reno", "olia", "lia", "balia") for argument in ("--cc", cc)]
    command = [sys.executable, str(ROOT / "benchmarks/kernel_rules.py"), *arguments, *algorithms]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-500:]
    found = {
        cc: {rule: values[0] for rule, values in one.items()} for cc, one in json.loads(done.stdout).items()
    }
    reno = found.pop("reno")
    assert reno["share"] > 0.58
    for cc, rules in found.items():
        assert 0.25 < rules["share"] < min(0.6, reno["share"] - 0.05), (cc, rules)
        assert rules["on_contended"] < 0.75 * reno["on_contended"], (cc, rules)
