"""Helper processes: their messages, and every way in which they can end."""

import json
import signal
from contextlib import contextmanager

import pytest

from mptune.errors import TrialError
from mptune.linux.sandbox import leftovers
from mptune.linux.sandbox.processes import Child, module


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """A child that runs some lines of Python."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    @contextmanager
    def run(*lines):
        (tmp_path / "some_helper.py").write_text("\n".join(["import json, os, sys, time", *lines]))
        with Child("helper", module("some_helper"), leftovers.new_run()) as child:
            yield child

    return run


def say(**message):
    return f"print({json.dumps(json.dumps(message))}, flush=True)"


def test_lines_pass_in_both_directions(helper):
    with helper(
        "for line in sys.stdin: print(json.dumps({'event': 'echo', **json.loads(line)}), flush=True)"
    ) as child:
        child.tell({"number": 1})
        assert child.expect("echo", 20)["number"] == 1
        child.tell({"number": 2, "text": "ä" * 100_000})
        assert len(child.expect("echo", 20)["text"]) == 100_000


def test_other_messages_are_passed_over_and_later_ones_kept(helper):
    with helper(say(event="first"), say(event="ready"), say(event="last"), "sys.stdin.read()") as child:
        assert child.expect("ready", 20) == {"event": "ready"}
        assert child.expect("last", 20) == {"event": "last"}


def test_its_error_is_the_reason(helper):
    refusing = helper(say(event="error", reason="no such device"))
    with refusing as child, pytest.raises(TrialError, match=r"^helper: no such device$"):
        child.expect("ready", 20)


def test_silence_is_not_waited_for(helper):
    with helper("sys.stdin.read()") as child, pytest.raises(TrialError, match=r"no 'ready' within 0\.05 s"):
        child.expect("ready", 0.05)


def test_its_last_complaint_is_part_of_how_it_ended(helper):
    with helper("sys.exit('cannot be done')") as child:
        with pytest.raises(TrialError, match=r"^helper ended with status 1: cannot be done$"):
            child.expect("ready", 20)
        assert child.ended and not child.killed


def test_a_signal_is_named(helper):
    with helper(say(event="ready"), "os.kill(os.getpid(), 9)") as child:
        child.expect("ready", 20)
        with pytest.raises(TrialError, match=r"^helper was killed by signal 9$"):
            child.expect("more", 20)
        assert child.killed
        child.tell({"action": "stop"})  # nobody hears it


def test_it_ends_with_the_block_even_if_it_does_not_want_to(helper):
    with helper(
        "import signal",
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)",
        say(event="ready"),
        "while True: signal.pause()",
    ) as child:
        child.expect("ready", 20)
        child.end(grace_s=0)
        assert child.killed


def test_it_bears_the_mark(helper):
    with helper(
        f"print(json.dumps({{'event': 'mark', 'mark': os.environ[{leftovers.VARIABLE!r}]}}), flush=True)",
        "sys.stdin.read()",
    ) as child:
        mark = child.expect("mark", 20)["mark"]
        assert mark.split("-")[0].isdecimal()
        assert child.pid not in {stray.pid for stray in leftovers.strays()}


def test_it_dies_with_the_thread_that_started_it(helper):
    """Its death signal is set before anything of the module runs (prctl(2), PR_GET_PDEATHSIG)."""
    with helper(
        "import ctypes",
        "number = ctypes.c_int()",
        "ctypes.CDLL(None).prctl(2, ctypes.byref(number))",
        "print(json.dumps({'event': 'signal', 'number': number.value}), flush=True)",
    ) as child:
        assert child.expect("signal", 20)["number"] == signal.SIGKILL
