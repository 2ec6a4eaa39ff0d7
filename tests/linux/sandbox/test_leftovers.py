"""Marks of processes: unique, and telling whose they are."""

import os

from mptune.linux.sandbox import leftovers


def test_every_run_has_a_mark_of_its_own():
    marks = [leftovers.new_run() for _ in range(100)]
    assert len(set(marks)) == 100
    assert all(mark.startswith(f"{os.getpid()}-") for mark in marks)


def test_an_owner_lives_as_long_as_its_start_time_fits():
    """Process numbers come again; start times distinguish two processes of one number."""
    own = leftovers.new_run()
    owner, start, number = own.split("-")
    assert leftovers._owner_lives(own)
    assert not leftovers._owner_lives(f"{owner}-{int(start) - 1}-{number}")
    assert not leftovers._owner_lives(f"{2**22 + 1}-{start}-{number}")
    assert not leftovers._owner_lives("somebody else's text")
