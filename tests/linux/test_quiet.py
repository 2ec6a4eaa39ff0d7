"""Waiting for a quiet machine: when it ends, what it costs, and that it always ends."""

import pytest

from mptune.linux import quiet
from mptune.linux.processor_load import Load
from mptune.linux.quiet import IN_A_ROW, PAUSE_S, Noise, Quiet

QUIET = Noise(0.1e-3, 0.0)
LATE = Noise(100e-3, 0.0)
STOLEN = Noise(0.1e-3, 0.5)
LIMIT_S = 20.0


class World:
    """A machine of a given quietness, and a clock that only pauses move."""

    def __init__(self, *looks):
        self.looks, self.now, self.looked = list(looks), 0.0, 0
        self.quiet = Quiet(self.look, lambda: self.now, self.pause)

    def look(self):
        """The last one stays."""
        self.looked += 1
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def pause(self, seconds):
        self.now += seconds

    def wait(self, limit_s=LIMIT_S):
        return self.quiet.wait(limit_s, lambda: False)


def test_a_quiet_machine_costs_one_look():
    world = World(QUIET)
    assert world.wait() == (0.0, None, False)
    assert (world.looked, world.now) == (1, 0.0)
    assert world.quiet.note() == ""


@pytest.mark.parametrize("noise", [LATE, STOLEN], ids=["late", "stolen"])
def test_it_waits_until_the_noise_is_over(noise):
    world = World(*[noise] * 7, QUIET)
    waited = world.wait()
    assert waited == ((6 + IN_A_ROW) * PAUSE_S, noise, False)
    assert world.quiet.note() == f"waited once for a quiet machine, {waited.seconds:.0f} s in all"


def test_a_short_silence_within_noise_is_none():
    world = World(LATE, QUIET, QUIET, LATE, QUIET, QUIET, LATE, QUIET)
    assert world.wait().seconds == (6 + IN_A_ROW) * PAUSE_S


def test_the_wait_has_a_limit_and_reports_the_load():
    world = World(LATE)
    assert world.wait() == (LIMIT_S, LATE, True)
    assert str(LATE) == "100.0 ms late, 0% of the processor time taken by the host"


def test_a_machine_that_is_never_quiet_is_soon_not_waited_for():
    """However many trials there are, they wait no longer than twice the limit together."""
    world = World(LATE)
    waits = [world.wait().seconds for _ in range(100)]
    assert waits[:3] == [LIMIT_S, LIMIT_S / 2, LIMIT_S / 4]
    assert waits[-1] == 0 and sum(waits) <= 2 * LIMIT_S
    assert world.quiet.note().endswith(f"{sum(waits):.0f} s in all")


def test_after_a_quiet_moment_it_waits_as_long_as_at_first():
    world = World(LATE)
    for _ in range(100):
        world.wait()
    world.looks = [QUIET]
    assert world.wait().seconds == 0
    world.looks = [LATE]
    assert world.wait().seconds == LIMIT_S


def test_ctrl_c_ends_the_wait():
    world = World(LATE)
    with pytest.raises(KeyboardInterrupt):
        world.quiet.wait(LIMIT_S, lambda: world.now > 3)
    assert world.now < LIMIT_S


def test_a_look_measures_lateness_and_what_the_host_took(monkeypatch):
    readings = [Load(busy=10, total=100, stolen=2), Load(busy=20, total=140, stolen=12)]
    monkeypatch.setattr(Load, "now", lambda: readings.pop(0))
    monkeypatch.setattr(quiet, "lateness_s", lambda: 2e-3)
    assert quiet.listen() == (2e-3, 0.25)


@pytest.mark.needs("linux")
def test_this_machine_can_be_looked_at():
    noise = quiet.listen()
    assert noise.late_s > 0 and 0 <= noise.stolen <= 1
