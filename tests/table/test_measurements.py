"""Anyone's measurements: what is read, in which units, and what is refused with its row and column."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptune.errors import InputError
from mptune.table import ReadOptions, pooled, read_measurements
from mptune.units import RATES, SIZES

HEADER = "throughput_mbps,buffer_mib,cc"
ROWS = ["10,1,cubic", "20,2,cubic", "11,1,olia", "21,2,olia"]


@pytest.fixture
def write(tmp_path: Path):
    """Write a file and return its path."""

    def make(*lines: str, encoding: str = "utf-8") -> str:
        path = tmp_path / "data.csv"
        path.write_text("\n".join(lines) + "\n", encoding=encoding)
        return str(path)

    return make


def test_what_is_in_the_file(write) -> None:
    measurements = read_measurements(
        write(HEADER + ",pm,initial_path,weekday,note", *(f"{row},pcdc,U-C,Mon,x" for row in ROWS)),
        ReadOptions(factors=("weekday",)),
    )
    first = measurements.rows[0]
    assert (first.row, first.throughput_mbps, first.buffer_mib) == (2, 10.0, 1.0)
    assert first.levels == {"cc": "cubic", "pm": "pcdc", "initial_path": "U-C", "weekday": "Mon"}
    assert measurements.factors[0] == "cc" and set(measurements.factors) == set(first.levels)
    assert measurements.unused == ("note",)
    assert measurements.levels("cc") == ("cubic", "olia")


@pytest.mark.parametrize(
    ("header", "buffer", "throughput"),
    [
        ("throughput [Mbit/s],buffer [KiB],cc", 1 / 1024, 1.0),
        ("throughput (kbit/s),buffer (MiB),cc", 1.0, 1e-3),
        ("Throughput_Mbps,buffer size_bytes,CC", 2**-20, 1.0),
        ("goodput_bit_s,bs_kib,congestion control", 1 / 1024, 1e-6),
        ("goodput_gbps,buffer_MB,cc", 1e6 / 2**20, 1e3),
    ],
)
def test_units_stand_in_the_header(write, header: str, buffer: float, throughput: float) -> None:
    measurements = read_measurements(write(header, *ROWS))
    assert measurements.rows[0].throughput_mbps == pytest.approx(10 * throughput)
    assert measurements.rows[1].buffer_mib == pytest.approx(2 * buffer)


@given(st.sampled_from(sorted(RATES)), st.sampled_from(sorted(SIZES)), st.floats(1e-3, 1e3))
def test_units_may_be_given_instead(
    tmp_path_factory: pytest.TempPathFactory, rate: str, size: str, value: float
) -> None:
    path = tmp_path_factory.mktemp("units") / "data.csv"
    path.write_text(f"throughput,buffer,cc\n{value!r},{value!r},a\n1,{value / 2!r},a\n")
    measurements = read_measurements(str(path), ReadOptions(throughput_unit=rate, buffer_unit=size))
    assert measurements.rows[0].throughput_mbps == pytest.approx(value * RATES[rate] / 1e6)
    assert measurements.rows[0].buffer_mib == pytest.approx(value * SIZES[size] / 2**20)


def test_columns_may_have_other_names(write) -> None:
    columns = {"throughput": "rate (Mbit/s)", "buffer": "B_KiB", "cc": "algorithm"}
    measurements = read_measurements(
        write("algorithm,rate (Mbit/s),B_KiB", "reno,5,512", "reno,6,1024"), ReadOptions(columns=columns)
    )
    assert [(row.throughput_mbps, row.buffer_mib) for row in measurements.rows] == [(5.0, 0.5), (6.0, 1.0)]


def test_an_observations_file_of_ours_is_read_as_it_is(write) -> None:
    """The sweep counts; withdrawal trials and confirmations do not, nor do failed trials."""
    header = "purpose,pm,cc,buffer_bytes,run,seed,withdrawn,throughput_mbps,omega,failed"
    measurements = read_measurements(
        write(
            header,
            "impact,fullmesh,cubic,1048576,0,5,U-C,3.0,0.5,",
            "sweep,fullmesh,cubic,1048576,0,7,,10.0,,",
            "sweep,fullmesh,cubic,2097152,1,8,,20.0,,",
            "sweep,fullmesh,cubic,2097152,2,9,,,,stalled",
            "confirm,fullmesh,cubic,2097152,0,4,,19.0,,",
        )
    )
    assert [(row.throughput_mbps, row.buffer_mib, row.run) for row in measurements.rows] == [
        (10.0, 1.0, "0"),
        (20.0, 2.0, "1"),
    ]
    assert measurements.failed == 1 and measurements.unused == ()


OURS = (
    "purpose,pm,cc,buffer_bytes,run,seed,withdrawn,throughput_mbps,omega,failed,failed_kind,round,"
    "completion_s,initial_path,scheduler,transfer_bytes,accounting,active"
)


def ours(
    path: str, transfer: str, *, cc: str = "cubic", run: int = 0, active: str = "", round_: int = 0
) -> str:
    seed = 70 + run + 9 * round_
    trial = f"sweep,pcdc,{cc},1048576,{run},{seed},,{transfer or 9}.5,,,,{round_}"
    return f"{trial},1.5,{path},minrtt,{transfer},payload,{active}"


def test_what_varies_in_a_file_of_ours_and_is_not_read_is_named(write) -> None:
    """Two transfers are pooled; sets that follow from the congestion control are not."""
    rows = [
        ours("A-X", transfer, cc=cc, active=active)
        for transfer in ("10", "20")
        for cc, active in (("cubic", "A-X"), ("reno", "B-X"))
    ]
    rows.append(rows[0].replace("1048576", "2097152"))
    measurements = read_measurements(write(OURS, *rows))
    assert (measurements.varying, measurements.unused) == (("transfer_bytes",), ())
    assert measurements.levels("initial_path") == ("A-X",)
    (warning,) = pooled(measurements)
    assert warning.startswith("transfer_bytes varies but is not modelled")
    declared = read_measurements(write(OURS, *rows), ReadOptions(factors=("transfer_bytes",)))
    assert declared.varying == () and pooled(declared) == []


def test_an_initial_path_that_nobody_asked_for_is_no_factor(write) -> None:
    rows = [ours("", "", run=run) for run in (0, 1)]
    rows.append(rows[0].replace("1048576", "2097152"))
    assert read_measurements(write(OURS, *rows)).factors == ("cc", "pm")
    mixed = read_measurements(write(OURS, *rows, ours("B-X", "")))
    assert mixed.levels("initial_path") == ("B-X", "default")


def test_runs_of_ours_share_their_seeds_and_others_do_not(write) -> None:
    rows = [ours("", "", run=run, round_=round_) for run in (0, 1) for round_ in (0, 1)]
    rows.append(rows[0].replace("1048576", "2097152"))
    measurements = read_measurements(write(OURS, *rows))
    assert measurements.shared_runs and {row.run for row in measurements.rows} == {"0", "1", "1/0", "1/1"}
    assert not read_measurements(write(OURS, *rows, rows[0].replace(",70,", ",99,"))).shared_runs
    theirs = write("throughput_mbps,buffer_mib,cc,run", "1,1,a,0", "2,2,a,0", "2,2,a,1")
    assert not read_measurements(theirs).shared_runs


def test_a_selection_of_congestion_controls(write) -> None:
    measurements = read_measurements(write(HEADER, *ROWS), ReadOptions(ccs=("olia",)))
    assert {row.levels["cc"] for row in measurements.rows} == {"olia"}


def test_blank_lines_a_byte_order_mark_and_spaces_are_no_obstacle(write) -> None:
    measurements = read_measurements(
        write(HEADER, "", " 10 , 1 , cubic ", "", "20,2,cubic", encoding="utf-8-sig")
    )
    assert [row.row for row in measurements.rows] == [3, 5]
    assert measurements.rows[0].levels["cc"] == "cubic"


BAD: list[tuple[list[str], str]] = [
    ([], "found an empty file"),
    ([HEADER], "expected one row per observation"),
    (["buffer_mib,cc", "1,cubic"], "row 1: expected a column for throughput such as 'throughput_mbps'"),
    (["throughput_mbps,cc", "1,cubic"], "row 1: expected a column for buffer"),
    (["throughput_mbps,buffer_mib", "1,1"], "row 1: expected a column for cc"),
    (["throughput,buffer_mib,cc", *ROWS], "column throughput: expected a unit.*--throughput-unit"),
    (["throughput_mbps,buffer,cc", *ROWS], "column buffer: expected a unit.*--buffer-unit"),
    (["throughput_MBps,buffer_mib,cc", *ROWS], "row 1: expected a column for throughput"),
    (["throughput [MB/s],buffer_mib,cc", *ROWS], "expected one of the units bit/s.*found 'MB/s'"),
    (
        ["throughput_mbps,throughput_kbps,buffer_mib,cc", "1,1,1,a"],
        "one column for throughput, found .*_mbps.*_kbps",
    ),
    ([HEADER + ",cc", *ROWS], "found 'cc' twice"),
    (["throughput_mbps;buffer_mib;cc", "1;1;a"], "row 1: expected columns separated by commas"),
    ([HEADER, "10,1,cubic", "20,2"], "row 3: expected 3 cells as in the header, found 2"),
    (
        [HEADER, "10,1,cubic", "fast,2,cubic"],
        "row 3, column throughput_mbps: expected a number, found 'fast'",
    ),
    ([HEADER, "10,1,cubic", "20 Mbit/s,2,cubic"], "row 3, column throughput_mbps: .*found '20 Mbit/s'"),
    ([HEADER, "10,1,cubic", ",2,cubic"], "row 3, column throughput_mbps: expected a number, found ''"),
    ([HEADER, "10,1,cubic", "nan,2,cubic"], "row 3, column throughput_mbps: .*'nan'"),
    ([HEADER, "10,1,cubic", "inf,2,cubic"], "row 3, column throughput_mbps: .*'inf'"),
    ([HEADER, "10,1,cubic", "1e999,2,cubic"], "row 3, column throughput_mbps: expected at most 10 Tbit/s"),
    ([HEADER, "10,1,cubic", "1_0,2,cubic"], "row 3, column throughput_mbps: expected a number"),
    (
        [HEADER, "10,1,cubic", "-1,2,cubic"],
        "row 3, column throughput_mbps: expected a throughput that is not neg",
    ),
    ([HEADER, "10,1,cubic", "20,0,cubic"], "row 3, column buffer_mib: expected a buffer above 0"),
    ([HEADER, "10,1,cubic", "20,4194304,cubic"], "row 3, column buffer_mib: expected at most 1 TiB.*unit"),
    ([HEADER, "10,1,cubic", "20,2,"], "row 3, column cc: expected a name, found nothing"),
    ([HEADER, "10,1,cubic", "20,1.0,cubic"], "buffer: expected at least two sizes, found 1 MiB"),
    ([HEADER, *ROWS, "30,2,vegas"], "row 6, cc: expected at least two observations of 'vegas'"),
    ([HEADER, *ROWS, "30,2,Cubic"], "row 6, cc: expected one spelling, found 'Cubic' after 'cubic'"),
    ([HEADER, '10,1,"cubic'], "row .*expected comma-separated cells"),
]


@pytest.mark.parametrize(("lines", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_refusals_name_row_and_column(write, lines: list[str], message: str) -> None:
    path = write(*lines)
    with pytest.raises(InputError, match=message) as caught:
        read_measurements(path)
    assert str(caught.value).startswith(path) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ReadOptions(throughput_unit="kbit/s"), "--throughput-unit: expected Mbit/s as in the header"),
        (ReadOptions(buffer_unit="MiBs"), "--buffer-unit: expected one of"),
        (ReadOptions(columns={"cc": "algorithm"}), "--column: expected a header of .*'algorithm'"),
        (ReadOptions(columns={"speed": "cc"}), "--column: expected one of throughput.*'speed'"),
        (ReadOptions(factors=("weekday",)), "--factor: expected a header.*'weekday'"),
        (ReadOptions(factors=("buffer",)), "--factor: expected a column of levels"),
        (ReadOptions(ccs=("turbo",)), "--cc: expected names that occur in .*'turbo'"),
    ],
)
def test_options_that_do_not_fit_the_file(write, options: ReadOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_measurements(write(HEADER, *ROWS), options)


def test_a_missing_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a CSV file, found No such file"):
        read_measurements(str(tmp_path / "none.csv"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_measurements(str(binary))
