"""The daemon in the output of `mptune status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptune.cli._tables import table
from mptune.units import MIB, format_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


def show_daemon(out: Console, status: Mapping[str, Any]) -> None:
    """Print its state: policies, interfaces, and problems."""
    mode, file = status["mode"], status["policy_file"]
    head = f"daemon: process {status['pid']}, mode {mode}, {file}"
    out.print(head, style="bold", markup=False)
    if status.get("metrics") is not None:
        out.print(f"metrics: http://{status['metrics']}/metrics", markup=False)
    listing = table(
        "policy", "path manager", "| connections", "| active", "| standby", "| demotions", "| outages",
        "| errors", "| sent MiB", "| expected Mbit/s", "| seen Mbit/s",
    )  # fmt: skip
    for policy in status["policies"]:
        numbers = ("connections", "active", "standby", "demotions", "outages", "errors")
        listing.add_row(
            policy["name"],
            policy["pm"],
            *(str(policy[name]) for name in numbers),
            f"{policy['sent_bytes'] / MIB:.1f}",
            _range(policy, "expected"),
            _range(policy, "seen"),
        )
    out.print(listing, markup=False)
    devices = table("interface", "address", "used")
    for interface in status["interfaces"]:
        devices.add_row(
            interface["device"],
            interface["address"] or "",
            "yes" if interface["used"] else f"no: {interface['why']}",
        )
    out.print(devices, markup=False)
    if (buffers := status.get("buffers")) is not None:
        limits = table("buffers", "| limit", "| before", "policy", "last interval")
        for limit in buffers["limits"]:
            limits.add_row(
                limit["name"],
                format_size(limit["limit_bytes"]),
                format_size(limit["before_bytes"]),
                limit["policy"] or "",
                limit["why"],
            )
        out.print(limits, markup=False)
    for line in troubles(status):
        out.print(line, style="yellow", markup=False)


def troubles(status: Mapping[str, Any]) -> list[str]:
    """Problems that need attention, each a sentence."""
    sentences = [] if status["in_force"] else ["somebody else has changed the kernel's path manager: new "
                                           "connections are not steered; a reload sets it again"]  # fmt: skip
    if status["reload_refused"]:
        sentences.append(f"the last reload was refused: {status['reload_refused']}")
    for policy in status["policies"]:
        if policy["notice"]:
            sentences.append(f"{policy['name']}: {policy['notice']}")
        if policy["suspended"]:
            sentences.append(f"{policy['name']}: a measurement is running, new connections are not steered")
    return sentences


def _range(policy: Mapping[str, Any], what: str) -> str:
    low, high = policy[f"{what}_low_mbit_s"], policy[f"{what}_high_mbit_s"]
    return "" if low is None or high is None else f"{low:.4g} to {high:.4g}"
