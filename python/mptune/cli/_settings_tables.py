"""Output of `mptune apply`, `status` and `rollback`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mptune import units
from mptune.cli._tables import table

if TYPE_CHECKING:
    from collections.abc import Sized

    from rich.console import Console

    from mptune.apply.records import Applied, Kept, RolledBack, Status, Told, Waiting
    from mptune.apply.verify import Side, Verified

#: State of a setting -> words.
_STATES = {
    "set": "",
    "before": "as before",
    "unfinished": "unfinished: an apply was killed",
    "renewed": "measured again by the daemon",
    "changed": "changed by somebody else",
    "gone": "its device or route is gone",
}


def show_applied(out: Console, machine: str, applied: Applied) -> None:
    """Print the settings made on a machine."""
    from mptune.apply import records

    changed = [setting for setting in applied.settings if setting.changed]
    same = len(applied.settings) - len(changed)
    already = f", {same} already as planned" if same else ""
    out.print(f"{machine}: {_count(changed)} made{already}", style="bold", markup=False)
    listing = table("setting", "before", "now")
    for change in changed:
        listing.add_row(
            records.name(change.setting), records.value(change.before), records.value(change.setting)
        )
    if changed:
        out.print(listing)
    if applied.dropped:
        out.print(f"restored: {', '.join(applied.dropped)}", markup=False)
    _show_told(out, applied.daemon)


def _show_told(out: Console, answer: Told | None) -> None:
    """Print the daemon's answer, if it is concerned."""
    if answer is None:
        return
    words = {
        "reloaded": "The daemon has read its policy again: new connections get it.",
        "absent": "No daemon runs there; its policy counts once it is started (mptune daemon).",
        "refused": f"The daemon keeps the policy that it had: {answer.reason}",
    }
    out.print(words[answer.state], markup=False)


def show_verdict(out: Console, verified: Verified) -> None:
    """Print what programs got before and after, and the verdict."""
    verdict = verified.verdict
    objective = f"{verdict.objective} ({verdict.unit})" if verdict.objective else "Mbit/s"
    listing = table("programs got", objective, "95 % interval", "transfers", "protocol", "subflows", "cc")
    for name, side in (("before", verdict.before), ("after", verdict.after)):
        listing.add_row(name, *_side(side))
    out.print(listing)
    out.print(verdict.text, markup=False)
    if verdict.kept:
        waits = any(applied.confirm is not None for applied in verified.applied.values())
        text = "The gain is confirmed." if waits else "The gain is confirmed: the settings stay."
        out.print(text, style="bold", markup=False)
        return
    out.print("The gain is not confirmed: the settings do not stay.", style="bold", markup=False)
    for sentence in verified.rolled_back:
        out.print(f"  {sentence}", markup=False)


def _side(side: Side) -> tuple[str, ...]:
    from mptune._text import digits

    mean, last = side.summary, side.last
    ends = "-" if mean.low is None or mean.high is None else f"{digits(mean.low)} to {digits(mean.high)}"
    protocol = "MPTCP" if last.mptcp else "TCP"
    return digits(mean.mean), ends, str(mean.n), protocol, str(len(last.subflows)), last.cc


def show_waiting(out: Console, waiting: Waiting, command: str) -> None:
    """Print the time left to confirm, and the command."""
    left = units.format_time(round(max(waiting.left_s, 0)) * 1_000_000_000)
    out.print(f"Everything is put back in {left} unless you confirm: {command}", style="bold", markup=False)


def show_status(out: Console, machine: str, status: Status, command: str) -> None:
    """Print the settings of mptune on a machine, and their present state."""
    from mptune.apply import records

    out.print(f"{machine}: {_headline(status)}", style="bold", markup=False)
    listing = table("setting", "before", "applied", "now", "")
    for standing in status.settings:
        values = (records.value(setting) for setting in (standing.before, standing.setting, standing.present))
        listing.add_row(records.name(standing.setting), *values, _STATES[standing.state])
    if status.settings:
        out.print(listing)
    if status.foreign:
        out.print(f"managing the same settings: {', '.join(status.foreign)}", markup=False)
    if status.confirm is not None:
        show_waiting(out, status.confirm, command)
    back = status.reverted
    if back is not None:
        within = units.format_time(back.within_s * 1_000_000_000)
        out.print(
            f"Put back at {_clock(back.at_s)}, because nobody confirmed {back.run or 'the settings'} "
            f"within {within}: {_as_before(back.restored)}",
            markup=False,
        )
        _show_kept(out, back.kept)


def show_rolled_back(out: Console, machine: str, done: RolledBack) -> None:
    """Print the settings that were put back on a machine, and those that were not."""
    if not done.restored and not done.kept:
        out.print(f"{machine}: there was nothing to put back", markup=False)
        return
    out.print(f"{machine}: {_as_before(done.restored)}", style="bold", markup=False)
    _show_kept(out, done.kept)
    if done.daemon is not None and done.daemon.state != "absent":
        _show_told(out, done.daemon)


def _show_kept(out: Console, left: list[Kept]) -> None:
    for name in left:
        out.print(f"  not put back: {name.name}: {name.reason}", markup=False)


def _count(settings: Sized) -> str:
    return f"{len(settings)} setting{'' if len(settings) == 1 else 's'}"


def _as_before(settings: Sized) -> str:
    return f"{_count(settings)} {'is' if len(settings) == 1 else 'are'} as before"


def _headline(status: Status) -> str:
    if status.state == "nothing":
        return "no settings of mptune"
    if status.state == "rebooted":
        files = ", but for files" if status.settings else ""
        return f"restarted since settings were applied: they are the system's own again{files}"
    run = f" of {status.run}" if status.run else ""
    when = "" if status.applied_s is None else f" since {_clock(status.applied_s)}"
    if status.state == "unfinished":
        return f"settings{run} were not finished: apply them again, or mptune rollback"
    return f"settings{run}{when}"


def _clock(at_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
