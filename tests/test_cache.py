"""Texts in the user's cache directory: made once, and taken from nobody else."""

import os

import pytest

from mptune import _cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mptune"


def made(text):
    """The maker of a text, and its number of calls."""
    asked = []

    def make():
        asked.append(text)
        return text

    return make, asked


def test_a_text_is_made_once(folder):
    make, asked = made("long in the making")
    assert [_cache.text("a.js", make) for _ in range(3)] == ["long in the making"] * 3
    assert len(asked) == 1 and [file.name for file in folder.iterdir()] == ["a.js"]
    assert _cache.text("b.js", made("another")[0]) == "another"


def test_what_others_could_have_written_is_made_again(folder, tmp_path):
    foreign = tmp_path / "foreign.js"
    foreign.write_text("theirs")
    for spoil in (
        lambda file: file.chmod(0o666),
        lambda file: (file.unlink(), file.symlink_to(foreign)),
        lambda file: file.write_bytes(b"\xff\xfe"),
        lambda file: (file.unlink(), file.mkdir()),
    ):
        _cache.text("a.js", made("ours")[0])
        (folder / "a.js").write_text("theirs")
        spoil(folder / "a.js")
        assert _cache.text("a.js", made("ours")[0]) == "ours"
        assert foreign.read_text() == "theirs"
        if (folder / "a.js").is_dir():
            (folder / "a.js").rmdir()
        else:
            (folder / "a.js").unlink()


@pytest.mark.needs("root")  # to give files away
def test_a_file_of_another_user_is_not_taken_nor_a_directory_used(folder):
    _cache.text("a.js", made("ours")[0])
    os.chown(folder / "a.js", 65534, 65534)
    assert _cache.text("a.js", made("again")[0]) == "again"
    os.chown(folder, 65534, 65534)
    assert _cache.text("b.js", made("fresh")[0]) == "fresh"
    assert not (folder / "b.js").exists()


def test_where_nothing_can_be_kept_it_is_made_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make, asked = made("text")
    assert _cache.text("a.js", make) == _cache.text("a.js", make) == "text"
    assert len(asked) == 2
