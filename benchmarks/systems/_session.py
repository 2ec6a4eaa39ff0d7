"""A controller that can be killed: short trials between the hosts of a topology file, one after the other.

Not a benchmark. It prints a line of JSON for every trial, {"trial", "failed"}, and ends with Ctrl-C as
`mptune` does. Every other trial has buffers that grow, which changes settings of the hosts for all of it.

    python -m benchmarks.systems._session FILE
"""

import contextlib
import faulthandler
import itertools
import json
import signal
import sys

from mptune import interrupts
from mptune.errors import MptuneError
from mptune.runner.running import run_trials
from mptune.testbeds import hosts
from mptune.testbeds.hosts import HostsTestbed
from mptune.topology import Topology, load
from mptune.trial import Bulk, Trial

DURATION_NS = 300_000_000


def trial(topology: Topology, number: int) -> Trial:
    """A trial of the session."""
    return Trial(
        topology=topology,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=1 << 20,
        buffer_mode="auto" if number % 2 else "fixed",
        seed=number + 1,
        workload=Bulk(duration_ns=DURATION_NS),
    )


def main() -> None:
    """Run trials until killed or interrupted."""
    hosts._BUSY = 2.0  # both hosts have this machine's processors, whoever else uses them
    faulthandler.enable()
    # A shell starts what runs in its background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    topology, bed = load(sys.argv[1]), HostsTestbed()
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(bed), interrupts.noting():
        for number in itertools.count():
            interrupts.raise_lost()
            try:
                failed = run_trials(bed, [trial(topology, number)])[0].failed
                reason = None if failed is None else failed.reason
            except MptuneError as error:
                reason = str(error)
            print(json.dumps({"trial": number, "failed": reason}), flush=True)


if __name__ == "__main__":
    main()
