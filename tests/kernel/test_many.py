"""Several connections at once on the running kernel.

What they share is held on a guest's kernel (tests/virtual/test_many.py).
"""

import pytest

from mptune.errors import InputError
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.trial import Messages, Mix, Part, Transfer

pytestmark = pytest.mark.usefixtures("testbed")

MS, SECOND = 10**6, 10**9
CALLS = Messages(bytes=200, interval_ns=50 * MS, duration_ns=2 * SECOND)


def mix(*parts):
    return Mix(parts=tuple(Part(workload=one, connections=count) for count, one in parts))


def test_transfers_are_complete_one_by_one(measured):
    observation = measured(workload=mix((3, Transfer(bytes=100_000))))
    assert observation.failed is None and observation.in_order_bytes == 300_000
    times = [one.completion_ns for one in observation.parts[0].connections]
    assert None not in times and observation.completion_ns == max(times)


def test_what_cannot_be_recorded_is_refused(trial):
    testbed = NamespacesTestbed()
    with pytest.raises(InputError, match="expected a single connection to record"):
        testbed.record(trial(workload=mix((1, CALLS))))
