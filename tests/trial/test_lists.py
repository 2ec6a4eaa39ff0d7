"""Sizes and bursts from files: what lines mean, and that a wrong one is named."""

import re
from pathlib import Path

import msgspec
import pytest

from mptune.options.workloads import WORKLOAD, AskedWorkload, shown
from mptune.trial import Asking, Bursting
from mptune.trial.workloads.lists import MOST, bursts, sizes

MS, SECOND = 10**6, 10**9


def written(place: Path, text: str) -> str:
    (place / "list.txt").write_text(text)
    return str(place / "list.txt")


def test_a_line_is_a_size_and_the_mean_is_what_is_shown(tmp_path: Path) -> None:
    name = written(tmp_path, "# of a day\n1 KiB\n\n  512\n2KiB\n")
    assert sizes(name) == (1024, 512, 2048)
    text = f"requests:400B/@{name},think=1s,at_once=2"
    asked = WORKLOAD.parse(text)
    assert asked == Asking(
        request_bytes=400,
        response_bytes=1195,
        response_sizes=(1024, 512, 2048),
        think_ns=SECOND,
        at_once=2,
        file=name,
    )
    assert shown(asked) == text and WORKLOAD.parse(shown(asked)) == asked
    assert msgspec.convert(msgspec.to_builtins(asked), AskedWorkload) == asked
    sent = asked.lasting(5 * SECOND)
    assert sent.waiting_bytes == 2 * 2048 and "on average" in sent.phrase


def test_a_line_is_a_start_and_a_size_from_the_first_on(tmp_path: Path) -> None:
    name = written(tmp_path, "10.5, 1000\n10.7,2 KiB\n12 s,1\n")
    assert bursts(name) == ((0, 1000), (200 * MS, 2048), (1500 * MS, 1))
    asked = WORKLOAD.parse(f"on-off:@{name}")
    assert isinstance(asked, Bursting) and WORKLOAD.parse(shown(asked)) == asked
    assert (asked.mean_bytes, asked.mean_gap_ns) == (1016, 750 * MS)
    sent = asked.lasting(5 * SECOND)
    assert (sent.pause_ns, sent.waiting_bytes) == (1300 * MS, 2048)


def test_without_a_list_settings_are_what_they_were(tmp_path: Path) -> None:
    """Trials that are stored keep their keys."""
    for text in ("requests:400B/64KiB", "on-off:1MiB/2s", "mix:requests:400B/1KiB+on-off:1KiB/1s"):
        settings = str(WORKLOAD.parse(text).lasting(SECOND).settings)
        assert "listed" not in settings and "sizes" not in settings
    listed = WORKLOAD.parse(f"mix:bulk+on-off:@{written(tmp_path, '0,1')}").lasting(SECOND)
    assert "'listed': " in str(listed.settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 KiB\nmany\n", "expected a size such as"),
        ("1\n0\n", "expected a size of at least 1 B, found 0 B in line 2 of "),
        ("1\n-5\n", "expected a size such as"),
        ("# nothing\n\n", "expected a line at least in "),
        ("1\n" * (MOST + 1), f"expected at most {MOST} entries in "),
    ],
)
def test_a_wrong_size_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    name = written(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as error:
        WORKLOAD.parse(f"requests:400B/@{name}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1\n", "expected START,SIZE, found '1' in line 2 of "),
        ("0,1\nsoon,1\n", "expected a time such as"),
        ("0,1\n1,0\n", "expected a size of at least 1 B, found 0 B in line 2 of "),
        ("1,1\n2,1\n2 s,1\n", "expected starts that increase, found 2 s after 2 s in line 3 of "),
        ("0,1\n1,2,3\n", "expected a size such as"),
    ],
)
def test_a_wrong_burst_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    name = written(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        WORKLOAD.parse(f"on-off:@{name}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone.txt"
    for text in (f"requests:400B/@{gone}", f"on-off:@{tmp_path}", "on-off:@"):
        with pytest.raises(ValueError, match=r"^expected a readable file, found "):
            WORKLOAD.parse(text)
