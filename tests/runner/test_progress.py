"""Progress as plain lines, with a clock of its own; and silence."""

import io
from collections.abc import Callable

import pytest

from mptune import interrupts
from mptune.runner.progress import PLAIN_INTERVAL_S, Reporter


def test_plain_lines_are_rare_and_have_rate_and_time_left() -> None:
    now, stream = [0.0], io.StringIO()
    with Reporter(stream=stream, clock=lambda: now[0]).phase("sweep") as advance:
        assert advance is not None
        for done in range(1, 101):
            now[0] += PLAIN_INTERVAL_S / 40
            advance(done, 100, "best 7 Mbit/s" if done > 60 else "")
    lines = stream.getvalue().splitlines()
    assert lines == [
        "sweep: 40/100 trials, 4.0 trials/s, 15 s left",
        "sweep: 80/100 trials, 4.0 trials/s, 5 s left; best 7 Mbit/s",
        "sweep: 100/100 trials, 4.0 trials/s; best 7 Mbit/s",
    ]


def test_quiet_is_silent() -> None:
    stream = io.StringIO()
    with Reporter(quiet=True, stream=stream).phase("sweep") as advance:
        assert advance is None
    assert not stream.getvalue()


def test_no_phase_begins_after_a_ctrl_c(lose_ctrl_c: Callable[[], None]) -> None:
    with interrupts.noting():
        lose_ctrl_c()
        with pytest.raises(KeyboardInterrupt), Reporter(quiet=True).phase("sweep"):
            pytest.fail("it begins")


def test_a_terminal_gets_a_bar_with_count_and_rate() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Reporter(stream=stream).phase("sweep") as advance:
        assert advance is not None
        for done in range(1, 4):
            advance(done, 3, "2 failed")
    assert "sweep" in stream.getvalue() and "3/3" in stream.getvalue() and "2 failed" in stream.getvalue()
    assert "trials/s" in stream.getvalue()


def test_a_bar_is_one_line_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal()
        with Reporter(stream=stream).phase("impact factors") as advance:
            assert advance is not None
            for done in range(1, 4):
                advance(done, 16_532, "best 252.2 Mbit/s (fullmesh, cubic, 16 MiB)")
        # Rich moves the cursor up by as many lines as it has written.
        assert "\x1b[1A" not in stream.getvalue(), columns
