"""Columns by the names that a model uses: roles, units, levels, and cells that are neither."""

from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.table import ReadOptions
from mptune.table.columns import number_of, read_columns, unit_shown


def written(place: Path, *lines: str) -> str:
    path = place / "data.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_columns_by_role_and_by_header(tmp_path: Path) -> None:
    path = written(tmp_path, "goodput [Mbit/s],bs_kib,algorithm,day", "8,1024,olia,1", "9,2048,reno,2")
    columns = read_columns(path, ("T", "B", "CC", "day"), ReadOptions(columns={"cc": "algorithm"}))
    assert columns.numbers["T"].tolist() == [8, 9] and columns.units == {"T": "Mbit/s", "B": "KiB"}
    assert columns.levels == {"CC": ("olia", "reno")} and columns.numbers["day"].tolist() == [1, 2]
    assert columns.rows == (2, 3)
    read = read_columns(path, ("goodput [Mbit/s]", "B"), shown={"throughput": "bit/s", "buffer": "MiB"})
    assert read.numbers["goodput [Mbit/s]"].tolist() == [8e6, 9e6] and read.numbers["B"].tolist() == [1, 2]
    factor = read_columns(path, ("day",), ReadOptions(factors=("day",)))
    assert factor.levels == {"day": ("1", "2")}


def test_rows_that_failed_and_other_congestion_controls_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "x,cc,failed", "1,a,", "2,b,", "3,a,stalled", "4,a,")
    columns = read_columns(path, ("x",), ReadOptions(ccs=("a",)))
    assert columns.numbers["x"].tolist() == [1, 4] and columns.failed == 1
    with pytest.raises(InputError, match="--cc: expected names that occur"):
        read_columns(path, ("x",), ReadOptions(ccs=("c",)))


def test_only_the_sweep_of_a_file_of_ours_counts(tmp_path: Path) -> None:
    header = "purpose,pm,cc,buffer_bytes,run,seed,withdrawn,throughput_mbps,failed,initial_path"
    path = written(
        tmp_path, header, "sweep,fullmesh,olia,4096,0,1,,8.5,,", "impact,fullmesh,olia,4096,0,1,P-D,3,,"
    )
    columns = read_columns(path, ("T", "initial_path"))
    assert columns.numbers["T"].tolist() == [8.5] and columns.levels["initial_path"] == ("default",)


@pytest.mark.parametrize(
    ("header", "row", "name", "wrong"),
    [
        ("throughput,x", "1,2", "T", "expected a unit"),
        ("throughput [furlong],x", "1,2", "T", "expected one of the units"),
        (
            "throughput_mbps,x",
            "fast,2",
            "T",
            "row 2, column throughput_mbps: expected a number, found 'fast'",
        ),
        ("throughput_mbps,x", ",2", "T", "expected a number, found nothing"),
        ("throughput_mbps,x", "1,2", "B", "expected columns of"),
        ("throughput_mbps,run", "1,2", "failed", "expected columns of"),
        ("cc,x", ",2", "CC", "row 2, column cc: expected a level, found nothing"),
        ("x,x", "1,2", "x", "expected a different header for each column"),
        ("x", "1,2", "x", "expected 1 cells as in the header, found 2"),
    ],
)
def test_refusals(tmp_path: Path, header: str, row: str, name: str, wrong: str) -> None:
    with pytest.raises(InputError) as refused:
        read_columns(written(tmp_path, header, row), (name,))
    assert wrong in str(refused.value)


def test_values_with_and_without_units() -> None:
    assert number_of("2.5", None, None) == 2.5
    assert number_of("20MiB", "KiB", "buffer") == 20480
    assert number_of("20 Mbit/s", "bit/s", "throughput") == 2e7
    for text in ("1_0", "inf", "nan", "", "0x10", "1e999"):
        with pytest.raises(ValueError, match="expected a number"):
            number_of(text, None, None)
    assert unit_shown(("bit/s", "byte")) == {"throughput": "bit/s", "buffer": "B"}
