"""Cells of a CSV file, row by row: text without spaces around it, or one line about what is no CSV."""

import csv
from collections.abc import Iterator
from pathlib import Path

from mptune.errors import InputError
from mptune.files import reading_table


def cells_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """Non-blank rows with their numbers, without spaces around the cells."""
    try:
        with reading_table(Path(path), encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                stripped = [cell.strip() for cell in cells]
                if any(stripped):
                    yield reader.line_num, stripped
    except OSError as error:
        raise InputError(path, "", f"expected a CSV file, found {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(path, "", "expected text in UTF-8, found other bytes") from None
    except csv.Error as error:
        raise InputError(path, f"row {reader.line_num}", f"expected comma-separated cells: {error}") from None
