"""Measurements with their configurations: what is read, what is merged, and what is refused."""

import math
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.table.configured import Measured, read_configured
from mptune.trial import Bulk, Transfer

LABELS = ("A-B", "A-C")


def read(tmp_path: Path, *lines: str) -> list[Measured]:
    file = tmp_path / "data.csv"
    file.write_text("\n".join(lines) + "\n")
    return read_configured(str(file), LABELS, "v0.9x")


def test_a_row_is_a_configuration_with_its_value(tmp_path: Path) -> None:
    (row,) = read(
        tmp_path,
        "cc,buffer_mib,throughput [kbit/s],subflows,duration_s,stack,spread_kbps,runs,A-B_mbps",
        "olia,2,4000,A-C A-B,60,linux,400,4,1.5",
    )
    configuration = row.configuration
    assert (configuration.pm, configuration.cc) == ("pcdc", "olia")
    assert configuration.active == ("A-C", "A-B") and configuration.initial_path == "A-C"
    assert configuration.buffer_bytes == 2 * 1024**2
    assert configuration.workload == Bulk(duration_ns=60 * 10**9)
    assert configuration.stack.accounting == "linux"
    assert row.value == pytest.approx(4) and row.subflows == {"A-B": 1.5}
    assert row.spread == pytest.approx(0.05)


def test_plain_tcp_has_its_path_and_full_packets(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "cc,pm,subflows,buffer_kib,throughput_mbps", "cubic,tcp,A-C,256,3")
    assert row.configuration.protocol == "tcp" and row.configuration.initial_path == "A-C"
    assert row.configuration.stack.mss == 1448 and row.configuration.stack.accounting == "payload"


def test_a_completion_is_of_a_transfer(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "cc,buffer_mib,transfer_kib,completion_ms", "cubic,1,256,800")
    assert row.metric == "completion" and row.value == pytest.approx(0.8)
    assert row.configuration.workload == Transfer(bytes=256 * 1024)


def test_rows_of_one_configuration_are_merged(tmp_path: Path) -> None:
    merged = read(
        tmp_path,
        "cc,buffer_mib,throughput_mbps,note",
        *(f"cubic,1,{value},x" for value in (2, 4, 8)),
        "olia,1,5,y",
    )
    assert [row.rows for row in merged] == [(2, 3, 4), (5,)]
    assert merged[0].value == pytest.approx(4)
    assert merged[0].spread == pytest.approx(math.log(2) / math.sqrt(3))
    assert merged[1].spread == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["cc,buffer_mib,throughput_mbps"], "expected a header and a row"),
        (["buffer_mib,throughput_mbps", "1,2"], "row 1: expected a column cc"),
        (["cc,buffer_mib", "cubic,1"], "expected one of the columns throughput and completion"),
        (["cc,buffer,throughput_mbps", "cubic,1,2"], "column buffer: expected a unit, as in"),
        (["cc,buffer_mib,throughput_mbps,speed", "cubic,1,2,3"], "column speed: expected cc, pm"),
        (["cc,buffer_mib,throughput_mbps", "qubic,1,2"], "row 2, column cc: expected one of"),
        (["cc,buffer_mib,throughput_mbps", "cubic,1,0"], "row 2, column throughput_mbps: expected a number"),
        (["cc,buffer_mib,throughput_mbps", "cubic,1"], "row 2: expected 3 cells"),
        (["cc,buffer_mib,throughput_mbps,subflows", "cubic,1,2,A-D"], "expected one of A-B, A-C"),
        (["cc,buffer_mib,throughput_mbps,pm,subflows", "cubic,1,2,tcp,"], "expected one path with tcp"),
        (["cc,buffer_mib,completion_s", "cubic,1,2"], "expected a column transfer beside completion"),
        (["cc,buffer_mib,throughput_mbps,family", "cubic,1,2,ipv5"], "column family: expected one of"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, *lines)
    assert expected in str(raised.value) and "\n" not in str(raised.value)
