"""A network that is known, measured in the simulator, and calibrated from another one."""

import msgspec
import pytest

from mptune.calibration import CalibrationOptions, calibrated_text
from mptune.calibration.job import calibrate
from mptune.calibration.likelihood import simulated, trials
from mptune.errors import InputError
from mptune.table.configured import Measured
from mptune.testbeds import create
from mptune.topology import Topology, from_tables, load
from mptune.trial import Bulk, Configuration

#: Two slow paths, so that a trial takes a few milliseconds.
NETWORK = """
name = "slow"
sender = "A"
receiver = "B"

[sites.A]
name = "A"

[[sites.A.interfaces]]
isp = "One"
abbr = "O"
up = {{ value = "{rate}", assumed = "a contract" }}
down = "8 Mbit/s"

[[sites.A.interfaces]]
isp = "Two"
abbr = "T"
up = "2 Mbit/s"
down = "2 Mbit/s"

[sites.B]
name = "B"

[[sites.B.interfaces]]
isp = "Net"
abbr = "N"
up = "100 Mbit/s"
down = "100 Mbit/s"

[core]
rtt = "40 ms"
"""

OPTIONS = CalibrationOptions(budget=240, values=("rate", "loss"), longest_ns=6_000_000_000, seed=2)


def network(rate: str) -> Topology:
    return from_tables(msgspec.toml.decode(NETWORK.format(rate=rate)), "slow.toml", "slow.toml")


def configurations() -> list[Configuration]:
    common = {"buffer_bytes": 1 << 20, "workload": Bulk(duration_ns=6_000_000_000)}
    alone = [
        Configuration(pm="default", protocol="tcp", cc="cubic", initial_path=path, **common)  # type: ignore[arg-type]
        for path in ("O-N", "T-N")
    ]
    return [*alone, *(Configuration(pm="fullmesh", cc=cc, **common) for cc in ("cubic", "olia"))]  # type: ignore[arg-type]


def measured(topology: Topology, factor: float = 1.0) -> list[Measured]:
    rows = [
        Measured(rows=(number,), configuration=configuration, metric="throughput", value=1.0)
        for number, configuration in enumerate(configurations(), 2)
    ]
    testbed = create("simulated")
    return [
        msgspec.structs.replace(row, value=factor * simulated(row, testbed.run(trial)).value)
        for row, trial in zip(rows, trials(topology, rows, 6_000_000_000, 99), strict=True)
    ]


@pytest.fixture(scope="module")
def truth() -> Topology:
    """6 Mbit/s where the file has 8."""
    return network("6 Mbit/s")


def test_a_rate_is_recovered_and_the_file_has_the_network(truth: Topology, tmp_path) -> None:
    (tmp_path / "slow.toml").write_text(NETWORK.format(rate="8 Mbit/s"))
    stated = load(tmp_path / "slow.toml")
    options = msgspec.structs.replace(OPTIONS, values=("rate",), discrepancy=0.05)
    result = calibrate(stated, measured(truth), options, data="data.csv")
    assert result.complete and result.explains
    assert result.error < 0.1 and result.nominal_error > 2 * result.error
    rate = next(value for value in result.inferred if value.key == "sites.A.interfaces.O.up")
    assert rate.low_number <= 6_000_000 <= rate.high_number
    assert rate.number == pytest.approx(6e6, rel=0.08) and rate.determined == "well"
    text = calibrated_text(result, str(tmp_path / "slow.toml"), name="known", folder=tmp_path)
    (tmp_path / "known.toml").write_text(text)
    assert load(tmp_path / "known.toml").network() == result.topology.network()
    assert "inferred from data.csv" in text and text.startswith("# slow, calibrated by mptune calibrate")


def test_what_losses_explain_as_well_as_a_rate_is_not_determined(truth: Topology) -> None:
    result = calibrate(network("8 Mbit/s"), measured(truth), OPTIONS)
    assert result.explains and result.error < result.nominal_error
    assert all(value.determined != "well" for value in result.inferred)


def test_the_same_data_give_the_same_answer(truth: Topology) -> None:
    rows = measured(truth)
    options = msgspec.structs.replace(OPTIONS, budget=150, values=("rate",))
    first, again = (calibrate(network("8 Mbit/s"), rows, options) for _ in range(2))
    assert first.inferred == again.inferred and first.fitted == again.fitted
    assert first.networks <= 150


def test_no_network_explains_ten_times_the_rate(truth: Topology) -> None:
    options = msgspec.structs.replace(OPTIONS, budget=150)
    result = calibrate(network("8 Mbit/s"), measured(truth, 10.0), options)
    assert not result.explains
    assert "a factor of" in result.unexplained and "at row" in result.unexplained


def test_what_is_published_leaves_nothing_to_infer(truth: Topology) -> None:
    options = msgspec.structs.replace(OPTIONS, values=("rtt",))
    with pytest.raises(InputError, match="expected assumed values to infer"):
        calibrate(network("8 Mbit/s"), measured(truth), options)


def test_a_bottleneck_in_the_core_is_written_as_it_was_simulated(truth: Topology, tmp_path) -> None:
    (tmp_path / "slow.toml").write_text(NETWORK.format(rate="8 Mbit/s"))
    options = msgspec.structs.replace(OPTIONS, budget=150, values=("core", "tcp"))
    result = calibrate(load(tmp_path / "slow.toml"), measured(truth, 0.6), options)
    assert any(key.endswith(".rate") for key in result.values)
    text = calibrated_text(result, str(tmp_path / "slow.toml"), name="known", folder=tmp_path)
    (tmp_path / "known.toml").write_text(text)
    assert load(tmp_path / "known.toml").network() == result.topology.network()
