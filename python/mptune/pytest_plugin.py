"""A plug-in of pytest, for tests of others' programs: the fixture `mptcp_network`.

pytest finds it where mptune is installed (entry point `pytest11`). It imports next to nothing until a test
uses the fixture, and it changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mptune.testbeds.standing import Described, Network


@pytest.fixture
def mptcp_network() -> Iterator[Callable[..., Network]]:
    """Makes networks of several paths between two namespaces, which end with the test.

    `mptcp_network(["20Mbit/s 10ms 1%", "5Mbit/s 40ms"])` has a path for each entry (rate, one-way delay,
    loss); a scenario's name or a topology file has its own. `pm`, `cc` and `seed` are path manager,
    congestion control and seed. What it returns has `client`, `server`, `paths`, `down` and `up`
    (`mptune.testbeds.standing`). A test is skipped with the reason where the machine cannot.
    """
    from mptune.testbeds import standing

    with ExitStack() as stack:

        def make(described: Described, *, pm: str = "fullmesh", cc: str = "cubic", seed: int = 1) -> Network:
            if (reason := standing.obstacle()) is not None:
                pytest.skip(f"mptcp_network: {reason}")
            return stack.enter_context(standing.standing(described, pm=pm, cc=cc, seed=seed))

        yield make
