"""Two hosts of which little is known, and trials between them."""

from functools import partial

import pytest

from mptune.topology import load
from tests.plugins import two_hosts


@pytest.fixture
def topology(tmp_path):
    return load(two_hosts.write(tmp_path))


@pytest.fixture
def trial(topology):
    return partial(two_hosts.trial, topology)
