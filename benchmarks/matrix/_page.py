"""The tables of docs/reference/kernels.md, from what is kept of each kernel.

Not a benchmark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _packages import order
from benchmarks.shared import findings
from benchmarks.shared.docs import replace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kernels.md"
#: Checks of `mptune doctor` on the machine, the same for all.
_OF_THE_MACHINE = {
    "agent",
    "open files",
    "memory for TCP",
    "socket buffers",
    "processors",
    "wake-up from sleep",
    "iperf3",
    "mptcpize",
    "congestion controls without privilege",
}
_NONE = "-"


class Asked:
    """The stored results of a kernel."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept

    def said(self, event: str) -> list[dict[str, Any]]:
        """All of these."""
        return [line for line in self.kept["said"] if line["event"] == event]

    def one(self, event: str, key: str) -> Any:
        """A value of the first of them; None without one."""
        return next((line.get(key) for line in self.said(event)), None)

    def outputs(self, finding: str) -> list[str]:
        """Output of a program of findings/, of each run."""
        return [line["output"] for line in self.said("finding") if line["name"] == finding]


def write(results: Path) -> None:
    """Put the tables into the page."""
    kernels = [Asked(json.loads(path.read_text())) for path in results.glob("*.json")]
    kernels.sort(key=lambda kernel: order(kernel.kept["release"]))
    for name, rows in {
        "kernels": _kernels(kernels),
        "doctor": _doctor(kernels),
        "settings": _settings(kernels),
        "findings": _findings(kernels),
        "programs": _programs(kernels),
    }.items():
        replace(PAGE, name, table(rows))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Of Markdown; the first row is its head."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(first: str, kernels: Sequence[Asked]) -> list[str]:
    return [first, *(kernel.kept["series"] for kernel in kernels)]


def _kernels(kernels: Sequence[Asked]) -> list[list[str]]:
    rows = [["series", "package version", "release", "asked on"]]
    return rows + [
        [kernel.kept[key] for key in ("series", "package", "release", "date")] for kernel in kernels
    ]


def _doctor(kernels: Sequence[Asked]) -> list[list[str]]:
    """The lines of `mptune doctor` that are the kernel's."""
    checks = [
        {check["name"]: check for check in (kernel.one("doctor", "said") or {}).get("checks", [])}
        for kernel in kernels
    ]
    names = dict.fromkeys(name for check in checks for name in check if name not in _OF_THE_MACHINE)
    rows = [_head("", kernels)]
    for name in names:
        required = any(check.get(name, {}).get("required") for check in checks)
        cells = [_NONE if name not in check else _check(check[name]) for check in checks]
        rows.append([f"{name} *" if required else name, *cells])
    return rows


def _check(check: dict[str, Any]) -> str:
    detail = re.sub(r" ?\(?Linux [\w.+-]+\)?", "", check["found"]).partition(";")[0]
    return ": ".join(part for part in (check["state"], detail) if part)


def _settings(kernels: Sequence[Asked]) -> list[list[str]]:
    """Of net.mptcp as they are at first, and the counters that not all have."""
    values = [kernel.one("settings", "values") or {} for kernel in kernels]
    rows = [_head("net.mptcp", kernels)]
    for name in sorted({name for value in values for name in value}):
        rows.append([f"`{name}`", *(value.get(name, _NONE) for value in values)])
    counted = [kernel.one("settings", "counters") or [] for kernel in kernels]
    rows.append(["counters (`MPTcpExt`)", *(str(len(names)) for names in counted)])
    return rows


def _programs(kernels: Sequence[Asked]) -> list[list[str]]:
    """A line for each path policy, and one for the window algorithms without."""
    asked = [kernel.said("program") for kernel in kernels]
    policies = dict.fromkeys(line["name"].partition("+")[2] for programs in asked for line in programs)
    return [_head("with", kernels)] + [
        [
            f"`{policy}`" if policy else "no policy",
            *(_accepted([line for line in of if line["name"].partition("+")[2] == policy]) for of in asked),
        ]
        for policy in policies
    ]


def _accepted(programs: Sequence[dict[str, Any]]) -> str:
    """The number that are accepted and deliver every byte, and the verifier's most instructions."""
    # Algorithms that the kernel has itself are no programs.
    own = [line for line in programs if line.get("refused") or line.get("instructions")]
    well = [line["instructions"] for line in own if line.get("intact")]
    if not own:
        return _NONE
    return f"{len(well)} of {len(own)}" + (f", at most {max(well):,}" if well else "")


def _findings(kernels: Sequence[Asked]) -> list[list[str]]:
    """A line for each finding: what its program showed."""
    rows_of: dict[str, Callable[[Asked], str]] = {
        "1 wrong payload": lambda asked: _wrong(asked.outputs("wrong_payload")[:1]),
        "1, with `--checksum`": lambda asked: _wrong(asked.outputs("wrong_payload")[1:2]),
        "1, `mptune doctor --integrity`": _integrity,
        "2 stalls": lambda asked: _stalls(asked.outputs("stall")),
        "3 dropped beyond the window": lambda asked: _dropped(asked.outputs("overrun")),
        "4 window offered: one subflow": lambda asked: _offered(asked, "one subflow"),
        "4 with a silent second one": lambda asked: _offered(asked, "a second one on standby"),
        "4 when it carries data too": lambda asked: _offered(asked, "the second one carries data too"),
    }
    return [_head("", kernels)] + [
        [name, *(show(kernel) for kernel in kernels)] for name, show in rows_of.items()
    ]


def _wrong(outputs: Sequence[str]) -> str:
    """Of the first case of wrong_payload.py."""
    first = re.split(r"(?m)^  while .*\n", "".join(outputs))[1:2]
    for text in first:
        if match := re.search(r"received, (\d+) wrong", text):
            return f"{match[1]} bytes"
        if "intact" in text:
            joined = "'MPJoinAckRx': 1" in text
            return "intact" if joined else "intact, but nothing joined"
    return "no result" if outputs else _NONE


def _integrity(asked: Asked) -> str:
    report = asked.one("integrity", "said")
    if report is None:
        return "no result" if asked.said("integrity") else _NONE
    plain = sum(not wrong["provoked"] for wrong in report["wrong"])
    provoked = sum(wrong["provoked"] for wrong in report["wrong"])
    parts = [f"{plain} of {report['transfers']}"]
    parts.append(f"provoked {provoked} of {report['provoked']}" if report["provoked"] else "not provoked")
    return ", ".join(parts)


def _stalls(outputs: Sequence[str]) -> str:
    return findings.stalled("".join(outputs)).what if outputs else _NONE


def _dropped(outputs: Sequence[str]) -> str:
    last = [counts[-1] for text in outputs if (counts := re.findall(r"(\d+) dropped so far", text))]
    return ", ".join(last) or _NONE


def _offered(asked: Asked, when: str) -> str:
    """Windows of the first subflow, KiB."""
    windows = [findings.window(text, when) for text in asked.outputs("half_window")]
    return ", ".join(str(window) for window in windows if window is not None) or _NONE
