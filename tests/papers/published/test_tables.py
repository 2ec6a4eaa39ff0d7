"""The published tables: complete, listed with their sources, and consistent in themselves."""

import csv
import re
from pathlib import Path

import pytest

import mptune.papers.published
from mptune.papers.published import rows

FOLDER = Path(mptune.papers.published.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.csv"))
IMPACT = [name for name in FILES if name.startswith("pcdc_table") and "_if_" in name]


def test_the_readme_lists_every_table_and_no_other() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"`(\w+)\.csv`", text))) == FILES


@pytest.mark.parametrize("name", FILES)
def test_rows_have_the_columns_of_the_header(name: str) -> None:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert lines
    assert len(set(header)) == len(header)
    assert {len(line) for line in lines} == {len(header)}
    assert [list(row.values()) for row in rows(name)] == lines


@pytest.mark.parametrize("name", IMPACT)
def test_quantiles_are_in_order(name: str) -> None:
    order = ("omega_min", "omega_q10", "omega_median", "omega_q90", "omega_max")
    for row in rows(name):
        values = [float(row[column]) for column in order if row[column]]
        assert values == sorted(values)
        assert float(row["omega_min"]) <= float(row["omega_mean"]) <= float(row["omega_max"])


def test_rtts_are_in_order() -> None:
    for row in rows("buffersizes_table2_rtt_throughput"):
        low, mean, median, high = (float(row[f"rtt_{s}_ms"]) for s in ("min", "avg", "median", "max"))
        assert low <= median <= high
        assert low <= mean <= high


def test_subflows_are_named_by_the_isps_of_their_sites() -> None:
    abbr = {(row["site_abbr"], row["isp"]): row["isp_abbr"] for row in rows("mpcoa_table1_sites")}
    for row in rows("mpcoa_table2_impact_factors"):
        local, remote = row["scenario"].split("-")
        assert row["subflow"] == f"{abbr[local, row['from_isp']]}-{abbr[remote, row['to_isp']]}"


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        rows("mpcoa_table9")
