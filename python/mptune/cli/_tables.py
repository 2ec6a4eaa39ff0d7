"""The tables that all commands print: plain columns under a bold title."""

from rich.console import Console
from rich.table import Table

from mptune._terminal import DataTable


def table(*columns: str) -> Table:
    """Plain table; a column whose name begins with "|" holds numbers."""
    plain = DataTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        numbers = column.startswith("| ")
        plain.add_column(column.removeprefix("| "), no_wrap=True, justify="right" if numbers else "left")
    return plain


def section(out: Console, title: str, content: Table) -> None:
    """Table under its title."""
    out.print(f"\n{title}", style="bold", markup=False)
    out.print(content)
