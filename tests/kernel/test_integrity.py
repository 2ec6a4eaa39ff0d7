"""`mptune doctor --integrity` on the running kernel: transfers of its own, and nothing left behind."""

import pytest

from mptune.linux import agent, integrity
from mptune.linux.integrity.transfers import _compared
from mptune.linux.sandbox import leftovers


@pytest.mark.usefixtures("testbed")
def test_every_transfer_is_compared_and_nothing_stays() -> None:
    done = []
    report = integrity.examine(5, advance=lambda count, total: done.append((count, total)))
    assert done == [(count, 5) for count in range(1, 6)]
    assert report.transfers == 5 and report.transferred_bytes >= 5 * 64_000
    # How many are wrong is the kernel's matter; none may miss anything.
    assert all(transfer.missing == 0 for transfer in report.wrong)
    assert (report.provoked == integrity.PROVOKED) == (report.not_provoked is None)
    # Strays of other tests are no agents.
    assert not [stray for stray in leftovers.strays() if agent.PROGRAM.name in stray.command]


@pytest.mark.usefixtures("testbed")
def test_it_stops_after_the_time() -> None:
    report = integrity.examine(1_000_000, limit_s=0.0)
    assert report.transfers == 1 and report.fewer_than_one_in is None


def test_runs_of_wrong_bytes_are_located() -> None:
    payload = bytes(range(256)) * 4
    got = bytearray(payload)
    got[100:140] = got[500:540]
    got[900] ^= 1
    assert _compared(got, payload, len(payload)) == {"received": 1024, "wrong": [[100, 40], [900, 1]]}
    assert _compared(got[:90], payload, len(payload)) == {"received": 90, "wrong": []}
