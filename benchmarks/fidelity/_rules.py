"""The three rules of multipath congestion control, measured for every control of the core.

Not the measurement itself, which is `crates/mptune-core/examples/rules`: this runs it and tabulates its
output. RFC 6356 section 1 states the rules; the limits come with the result.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CORE = Path(__file__).parents[2] / "crates" / "mptune-core"

#: Key of an estimate -> its column, in the table's order; each rule's verdict follows its columns.
COLUMNS = {
    "lossy": "gain, lossy",
    "busy": "gain, busy",
    "idle": "of idle paths",
    "improves_throughput": "improves throughput",
    "one_against_reno": "one against Reno",
    "two_against_reno": "two against Reno",
    "two_against_one": "two against one",
    "does_no_harm": "does no harm",
    "on_congested": "on the congested path",
    "balances_congestion": "balances congestion",
}


def measure() -> dict[str, Any]:
    """Run the measurement: its limits, and a row of estimates and verdicts for each control.

    Raises
    ------
    subprocess.CalledProcessError
        The example could not be built or failed; cargo's messages have been shown.
    """
    command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "mptune-core", "--example", "rules"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=CORE)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def cells(row: dict[str, Any]) -> list[str]:
    """A control and its columns: means with the half width of the 95 % interval, and verdicts."""
    texts = [row["cc"]]
    for key in COLUMNS:
        value = row[key]
        if isinstance(value, bool):
            texts.append("holds" if value else "no")
        else:
            texts.append(f"{value['mean']:.2f} ± {value['half_width']:.2f}")
    return texts


def show(result: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table("control", *COLUMNS.values(), title="Rules", title_justify="left")
    for row in result["controls"]:
        table.add_row(*cells(row))
    console.print(table)


def markdown(result: dict[str, Any]) -> str:
    """The table for the docs, verdicts in bold where a rule holds."""
    lines = ["| control | " + " | ".join(COLUMNS.values()) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
    for row in result["controls"]:
        texts = ["**holds**" if text == "holds" else text for text in cells(row)]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)
