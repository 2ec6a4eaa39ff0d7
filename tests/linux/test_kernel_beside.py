"""Connections beside the first of a trial: the open files that they take."""

import resource
from contextlib import ExitStack
from typing import Any

import pytest

from mptune.errors import TrialError
from mptune.linux.kernel_beside import Beside, Others

PLAN = Beside(meter={}, initial=("", ""), address="", joins=(), start_s=0.0, is_measured=True)


class Nowhere:
    """A venue where roles cannot be started."""

    def start(self, role, side, name=None):
        raise TrialError("nothing starts here", "refused")


NOWHERE: Any = Nowhere()


@pytest.fixture
def limits(monkeypatch):
    """The limits that this process has, as far as it knows: soft and hard."""
    found = [64, 1024]
    monkeypatch.setattr(resource, "getrlimit", lambda what: tuple(found))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: found.__setitem__(slice(2), limits))
    return found


def test_the_program_takes_the_open_files_that_it_may_have(limits):
    with ExitStack() as stack, pytest.raises(TrialError, match="nothing starts here"):
        Others([PLAN] * 50, NOWHERE, stack)
    assert 50 * 6 < limits[0] <= limits[1] == 1024


def test_more_than_those_are_refused_before_anything_is_started(limits):
    refused = r"^201 connections take \d+ open files, this program may have 1024 \(ulimit -Hn\)$"
    with ExitStack() as stack, pytest.raises(TrialError, match=refused) as caught:
        Others([PLAN] * 200, NOWHERE, stack)
    assert caught.value.kind == "refused" and limits == [64, 1024]


def test_without_further_connections_nothing_changes(limits):
    with ExitStack() as stack:
        assert Others([], NOWHERE, stack).done
    assert limits == [64, 1024]
