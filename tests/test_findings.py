"""Findings in outputs of the programs of benchmarks/findings."""

import pytest

from benchmarks.shared import findings

WINDOWS = "  one subflow: 1048576 bytes offered\n  a second one on standby: {} and 1048576 bytes offered\n"


@pytest.mark.parametrize(
    ("read", "output", "shown"),
    [
        (findings.dropped, "3 dropped so far\nsecond 2: 9 Mbit/s, 8 dropped so far", (True, "8 segments")),
        (findings.dropped, "second 1: 9 Mbit/s, 0 dropped so far", (False, "0 segments")),
        (findings.dropped, "Traceback", (False, "no result")),
        (findings.stalled, "  STALLED after 3900 bytes\n  complete: 300000 bytes", (True, "1 of 2")),
        (findings.stalled, "  complete: 300000 bytes", (False, "0 of 1")),
        (findings.narrowed, WINDOWS.format(524288), (True, "1024 and 512 KiB")),
        (findings.narrowed, WINDOWS.format(1048000), (False, "1024 and 1023 KiB")),
        (findings.narrowed, "", (False, "no result")),
    ],
)
def test_what_an_output_shows(read, output, shown):
    assert read(output) == shown


def test_wrong_bytes_count_only_with_controls_that_are_right():
    joined = "    receiver: {'MPJoinAckRx': 1, 'DSSNotMatching': 0}\n"
    bad = f"  while one\n    200 of 200 bytes received, 51 wrong\n{joined}"
    good = f"  while two\n    200 of 200 bytes received, intact\n{joined}"
    assert findings.wrong(bad + good + good) == (True, "51 bytes")
    assert findings.wrong(bad + bad + good) == (False, "a control is not right")
    assert findings.wrong(good + good + good) == (False, "intact")
    assert findings.wrong(good.replace(": 1", ": 0") + good) == (False, "intact, but nothing joined")
    unmatched = good.replace("'DSSNotMatching': 0", "'DSSNotMatching': 1")
    assert findings.wrong(unmatched + good) == (False, "intact, `DSSNotMatching` 1")
    assert findings.wrong("Traceback") == (False, "no result")
