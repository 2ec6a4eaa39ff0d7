"""Files of recordings: what was written is read, and what is none is refused with the file's name."""

import numpy as np
import pytest

from mptune.capture import read, write
from mptune.errors import InputError
from tests.plugins.recordings import course, recording


def test_what_was_written_is_read(tmp_path):
    written = recording(course(lambda _: 5), course(lambda _: 7), paths=("A-X", "B-X"))
    write(written, tmp_path / "one.trace")
    reread = read(tmp_path / "one.trace")
    assert reread.about == written.about
    for run, other in zip(reread.runs, written.runs, strict=True):
        assert np.array_equal(run.packets, other.packets) and np.array_equal(run.samples, other.samples)
        assert (run.seed, run.duration_ns) == (other.seed, other.duration_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["one.trace"]


@pytest.mark.parametrize("content", [b"", b"pcap", "cut"])
def test_what_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "one.trace"
    if content == "cut":
        write(recording(course(lambda _: 5)), path)
        content = path.read_bytes()[:-100]
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"one\.trace.*expected"):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.trace.*expected a readable file"):
        read(tmp_path / "none.trace")
