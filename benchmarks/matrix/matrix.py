"""Features and MPTCP behaviour of Debian's kernels, each booted in qemu.

    python benchmarks/matrix/matrix.py                    # every series, into results/ and the docs
    python benchmarks/matrix/matrix.py --only 6.12 --steps settings,doctor,stall
    python benchmarks/matrix/matrix.py --kept             # write the docs from kept results, boot nothing

Needs root (the guest's root is this machine's, read-only), Debian's apt, and qemu-system-x86. Kernels are
fetched into target/kernels and stay there; nothing is installed. Processors are emulated (TCG), so a guest is
slow: delivered bytes and offered windows are meaningful, times are not. One guest at a time; a guest that
is silent for too long is ended. Results are kept in benchmarks/matrix/results, one file a series.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

# The other benchmarks' modules, in the folder above; in a guest PYTHONPATH has it.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import _guest
import _page
from _inside import STEPS
from _packages import Packages
from mptune.errors import MptuneError

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
RESULTS = HERE / "results"
#: Series of kernels: Debian 12 and 13, the last long-term one, and the newest that Debian had.
SERIES = ("6.1", "6.12", "6.18", "7.3")
#: A guest that is silent for this long hangs: the longest command inside, twice; and all of its time, s.
_SILENCE_S, _LIMIT_S = 500.0, 1800.0


def ask(series: str, steps: list[str], packages: Packages, work: Path) -> dict[str, Any]:
    """Boot a kernel and record its lines."""
    kernel = packages.kernel(series)
    inside = ["env", f"PYTHONPATH={REPOSITORY / 'python'}:{HERE.parent}", "HOME=/root", "LC_ALL=C.UTF-8"]
    inside += [f"PATH={os.environ['PATH']}", sys.executable, str(HERE / "_inside.py"), *steps]
    first = _guest.initramfs(kernel, packages.busybox(), inside, REPOSITORY)
    print(f"Linux {kernel.release}, package version {kernel.version}", flush=True)
    messages: list[dict[str, Any]] = []
    with _guest.booted(kernel, first, work) as guest:
        for line in guest.lines(_SILENCE_S, _LIMIT_S):
            messages.append(line)
            print(f"  {_brief(line)}", flush=True)
    if not guest.ended.well:
        print(f"  ended: {guest.ended.reason}", flush=True)
    return {
        "series": series,
        "package": kernel.version,
        "release": kernel.release,
        "date": time.strftime("%Y-%m-%d"),
        "qemu": "tcg,thread=multi; 2 processors",
        "ended": guest.ended._asdict(),
        "said": messages,
    }


def _brief(line: dict[str, Any]) -> str:
    """For whoever watches."""
    values = {name: value for name, value in line.items() if name != "event"}
    return f"{line['event']}: {json.dumps(values)[:160]}"


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The stored results of a kernel, with the repeated steps replaced.

    Of another package than before, nothing is kept; of a guest that died, nothing is taken.
    """
    if before and not now["ended"]["well"]:
        return before
    if before.get("release") != now["release"]:
        return now
    again = {_what(line) for line in now["said"]}
    return now | {"said": [line for line in before["said"] if _what(line) not in again] + now["said"]}


def _what(line: dict[str, Any]) -> tuple[str, str | None]:
    """The key of a line: its event, and the finding's name."""
    return line["event"], line.get("name")


def main() -> None:
    """Ask, keep, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", metavar="SERIES", help=f"of {', '.join(SERIES)}, or others"
    )
    parser.add_argument("--steps", default=",".join(STEPS), help="%(default)s")
    parser.add_argument("--kept", action="store_true", help="boot nothing, write the docs from what is kept")
    asked = parser.parse_args()
    steps = asked.steps.split(",")
    if unknown := [step for step in steps if step not in STEPS]:
        parser.error(f"--steps: expected some of {', '.join(STEPS)}, found {', '.join(unknown)}")
    if not asked.kept:
        if os.geteuid() != 0 or shutil.which(_guest.QEMU) is None:
            raise SystemExit(f"needs root, and {_guest.QEMU}: apt-get install qemu-system-x86")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        work = REPOSITORY / "target" / "kernels"
        packages = Packages(work)
        RESULTS.mkdir(exist_ok=True)
        for series in asked.only or SERIES:
            path = RESULTS / f"{series}.json"
            before = json.loads(path.read_text()) if path.exists() else {}
            document = merged(before, ask(series, steps, packages, work))
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    _page.write(RESULTS)


if __name__ == "__main__":
    try:
        main()
    except MptuneError as error:
        raise SystemExit(str(error)) from None
