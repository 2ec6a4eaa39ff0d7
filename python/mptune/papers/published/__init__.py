"""The papers' published numbers, one CSV file per table (sources and caveats: README.md beside this file).

It only reads them. `mptune.papers.reproduce` computes again what follows from what.
"""

import csv
from importlib.resources import files


def rows(table: str) -> list[dict[str, str]]:
    """Rows of one published table, as text (an empty field means: not published).

    Parameters
    ----------
    table : file name without `.csv`, for example "mpcoa_table4_models".

    Raises
    ------
    FileNotFoundError : there is no such table.
    """
    text = files(__name__).joinpath(f"{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
