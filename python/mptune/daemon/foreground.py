"""`mptune daemon` in a terminal: the agent at work, and measurements repeated in the quiet hours.

Under systemd neither is needed: the unit starts the agent itself, and a timer the measurements.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

from mptune import interrupts
from mptune.daemon import policies
from mptune.errors import MptuneError
from mptune.linux import daemon

#: Seconds between two looks at the clock.
_TICK_S = 30.0
#: Seconds that the agent may take to put everything back.
_END_S = 20.0


def run(named: Path | None, metrics: str | None, report: Callable[[str], None]) -> None:
    """Steer connections until Ctrl-C; everything is put back then.

    Parameters
    ----------
    metrics : where they are over HTTP; None leaves that to the policy file.

    Raises
    ------
    InputError : the policy file is wrong, or the address of the metrics.
    MptuneError : it is not possible here, or the daemon died.
    """
    file = policies.place(named)
    daemon.check(file)
    options = ["--policy", str(file)]
    if metrics is not None:
        options += ["--metrics", daemon.address(metrics)]
    # Of its own group: Ctrl-C is for this program, which ends it and waits for it. If this one is killed,
    # the agent ends too.
    child = subprocess.Popen(
        daemon.command(*options, "--attended"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    )
    output: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(child, output, report), daemon=True)
    listener.start()
    measuring = Measuring(file, report)
    try:
        while child.poll() is None:
            interrupts.raise_lost()
            measuring.look(datetime.now().astimezone())
            _wait(child, _TICK_S)
    finally:
        measuring.end()
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_END_S)
            finally:
                child.kill()  # its watchdog puts back what it could not
        listener.join(_END_S)
    if child.returncode:
        raise daemon.error_of(child.returncode, output)


def _wait(child: subprocess.Popen[str], seconds: float) -> None:
    """Wait for its end, but let Ctrl-C through."""
    end = time.monotonic() + seconds
    while child.poll() is None and (left := end - time.monotonic()) > 0:
        interrupts.raise_lost()
        try:
            child.wait(min(left, 1.0))
        except subprocess.TimeoutExpired:
            continue


def _pass_on(child: subprocess.Popen[str], output: list[str], report: Callable[[str], None]) -> None:
    assert child.stderr is not None
    for line in child.stderr:
        output[:] = [line.rstrip("\n")]
        report(output[0])


class Measuring:
    """Measurements once a night, in a process of their own."""

    def __init__(self, file: Path, report: Callable[[str], None]) -> None:
        self._file, self._report = file, report
        self._night: date | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def look(self, now: datetime) -> None:
        """Begin if it is time."""
        if self._child is not None and self._child.poll() is None:
            return
        try:
            remeasure = policies.read(self._file).remeasure
        except MptuneError:
            return  # the daemon reports errors in a file that is reloaded
        if remeasure is None or not remeasure.left(now):
            return
        # The hours may go over midnight: the night has the date of its end.
        night = (now + remeasure.left(now)).date()
        if night != self._night:
            self._night = night
            self._child = subprocess.Popen(
                [sys.executable, "-m", "mptune.cli", "daemon", "--remeasure", "--policy", str(self._file)],
                stdin=subprocess.DEVNULL,
            )

    def end(self) -> None:
        """End what is being measured; what was there before stays."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
            try:
                self._child.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
