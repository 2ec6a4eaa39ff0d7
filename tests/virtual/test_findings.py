"""Findings of docs/explanation/kernel-findings.md as the cases that are kept of the release that is built.

A release on which a finding shows no more is news: the page says where it does.
"""

import json

import pytest

from benchmarks.fidelity.findings import KEPT, Case, case
from benchmarks.shared import findings
from mptune.guest import kernels

pytestmark = pytest.mark.needs("guest")

#: Programs of another version of iproute2 may draw other random numbers before the case begins.
SEEDS = 3


@pytest.fixture(scope="module")
def kernel():
    return kernels.find()


@pytest.mark.parametrize("name", ["half_window", "overrun"])
def test_a_finding_shows_where_the_page_says(kernel, name):
    kept = {release: Case(**cases[name]) for release, cases in json.loads(KEPT.read_text()).items()}
    expected = kept.get(kernel.release)
    first = 1 if expected is None else expected.seed
    shown = case(kernel, findings.FINDINGS[name], range(first, first + SEEDS))
    assert shown.what != "no result"
    if expected is not None:
        assert shown.seen == expected.seen, shown.output


def test_the_socket_is_held_while_a_subflow_joins_and_data_arrive(kernel):
    """Without that a kernel on which no payload is wrong would say nothing."""
    output = findings.in_guest(kernel, findings.FINDINGS["wrong_payload"].program, seed=1)
    assert output.count("recv() took 0.5") == 3 and output.count("'MPJoinAckRx': 1") == 3
    kept = json.loads(KEPT.read_text()).get(kernel.release)
    if kept is not None:
        assert findings.wrong(output).seen == kept["wrong_payload"]["seen"]


def test_the_same_seed_is_the_same_case(kernel):
    program = findings.FINDINGS["half_window"].program
    assert findings.in_guest(kernel, program, seed=2) == findings.in_guest(kernel, program, seed=2)
