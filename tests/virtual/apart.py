"""The first process of a guest whose agent reads connections as on Linux before 6.5: by several calls."""

import os

from mptune.guest import inside
from mptune.testbeds import _virtual_inside

#: Of the agent (crates/mptune-agent/src/kernel/info.rs).
VARIABLE = "MPTUNE_INFO_APART"


def work(order):
    """Run the trial."""
    os.environ[VARIABLE] = "1"
    return _virtual_inside.run(order)


if __name__ == "__main__":
    inside.serve(work)
