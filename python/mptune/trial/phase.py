"""The phase of a kernel's clock at the start of a trial."""

import random

__all__ = ["SLACK_NS", "phase_ns"]

#: Within this time a trial begins, nanoseconds: timers of the kernel have phases of milliseconds to seconds,
#: and the one at which a connection begins can decide what it carries.
_PHASES_NS = 10_000_000_000
#: So much later than asked for a guest wakes up, nanoseconds: the slack of timers (prctl(2),
#: PR_SET_TIMERSLACK).
SLACK_NS = 50_000


def phase_ns(seed: int) -> int:
    """When a trial begins by the clock of its hosts, nanoseconds, in the simulator and in a guest."""
    return random.Random(f"phase {seed}").randrange(_PHASES_NS)
