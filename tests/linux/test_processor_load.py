"""Admission of trials, and the load of the machine."""

import os
import threading

import pytest

from mptune.linux.processor_load import Gate, Load, Waiting

RATE = 10**7


def entered(gate, *, rate_bps=RATE, alone=False):
    """A thread that enters; events for having entered and for leaving."""
    inside, leave = threading.Event(), threading.Event()

    def run():
        with gate.admitted(rate_bps, alone=alone):
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=run)
    thread.start()

    def finish():
        leave.set()
        thread.join(20)

    return inside, finish


def test_one_trial_at_a_time_until_their_need_is_known():
    gate = Gate(cores=64)
    with gate.admitted(RATE):
        inside, finish = entered(gate)
        assert not inside.wait(0.05)
    assert inside.wait(20)
    finish()


@pytest.mark.parametrize(("cores", "fits"), [(4, True), (3, False)])
def test_two_fit_if_they_need_half_of_the_processors(cores, fits):
    gate = Gate(cores=cores)
    gate.learn(RATE, 0.3)
    gate.learn(RATE, 1.0)
    gate.learn(RATE, 0.1)  # the most demanding one counts
    with gate.admitted(RATE):
        inside, finish = entered(gate)
        assert inside.wait(20 if fits else 0.05) is fits
    finish()


@pytest.mark.parametrize(
    ("rate_bps", "fits"),
    [
        (RATE // 10, True),
        (RATE, True),
        (5 * RATE, True),
        (10 * RATE, False),
        (20 * RATE, False),
        (21 * RATE, False),
    ],
)
def test_the_need_is_that_of_trials_of_no_higher_rate(rate_bps, fits):
    """A demanding trial over fast links does not make trials over slow ones wait; an unknown rate waits."""
    gate = Gate(cores=2)
    gate.learn(RATE, 0.1)
    gate.learn(10 * RATE, 0.95)
    with gate.admitted(RATE):
        inside, finish = entered(gate, rate_bps=rate_bps)
        assert inside.wait(20 if fits else 0.05) is fits
    finish()


def test_one_alone_waits_for_the_others_and_keeps_them_out():
    gate = Gate(cores=64)
    gate.learn(RATE, 0.01)
    with gate.admitted(RATE):
        alone, finish_alone = entered(gate, alone=True)
        assert not alone.wait(0.05)
    assert alone.wait(20)
    inside, finish = entered(gate)
    assert not inside.wait(0.05)
    finish_alone()
    assert inside.wait(20)
    finish()


def test_a_closed_gate_sends_away_who_waits_and_who_comes_later():
    gate = Gate(cores=64)
    sent_away = threading.Event()

    def wait():
        with pytest.raises(KeyboardInterrupt), gate.admitted(RATE):
            pass
        sent_away.set()

    with gate.admitted(RATE):
        waiting = threading.Thread(target=wait)
        waiting.start()
        gate.close()
        assert sent_away.wait(20)
        waiting.join(20)
    with pytest.raises(KeyboardInterrupt), gate.admitted(RATE):
        pass


def test_fewer_are_let_in_after_late_trials_and_more_again_after_trials_in_time():
    gate = Gate(cores=4)
    gate.learn(RATE, 0.9)
    gate.was(late=True)
    with gate.admitted(RATE):
        inside, finish = entered(gate)
        assert not inside.wait(0.05)
        for _ in range(4):
            gate.was(late=False)
        assert inside.wait(20)
    finish()


def test_one_is_let_in_however_many_were_late():
    gate = Gate(cores=4)
    gate.learn(RATE, 1.9)
    for _ in range(50):
        gate.was(late=True)
    with gate.admitted(RATE):
        pass
    for _ in range(16):
        gate.was(late=False)
    with gate.admitted(RATE // 2):
        inside, finish = entered(gate, rate_bps=RATE // 2)
        assert not inside.wait(0.05)
    finish()


def test_a_trial_that_dies_leaves_its_place():
    gate = Gate(cores=1)
    with pytest.raises(RuntimeError, match="on purpose"), gate.admitted(RATE):
        raise RuntimeError("on purpose")
    with gate.admitted(RATE):
        pass


def test_load_is_a_share_of_all_processors():
    assert Load(busy=100, total=400).share_until(Load(busy=150, total=600)) == 0.25
    assert Load(busy=1, total=1).share_until(Load(busy=1, total=1)) == 0
    assert Load(busy=100, total=400, stolen=4).stolen_until(Load(busy=150, total=600, stolen=24)) == 0.1
    earlier = Load.now()
    assert 0 <= earlier.stolen <= earlier.busy
    assert 0 <= earlier.share_until(Load.now()) <= 1 and 0 < earlier.busy < earlier.total


def test_waiting_counts_from_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr("mptune.linux.processor_load.Path", lambda path: tmp_path / path.strip("/"))
    counts = tmp_path / "proc" / "7" / "schedstat"
    counts.parent.mkdir(parents=True)
    counts.write_text("500 1000 3\n")
    waiting = Waiting(7)
    assert waiting.total_ns == 0
    counts.write_text("600 1250 4\n")
    waiting.look()
    assert waiting.total_ns == 250


def test_waiting_of_a_process_that_ended_is_remembered():
    waiting = Waiting(os.getpid())
    waiting.look()
    assert waiting.total_ns >= 0
    gone = Waiting(2**22 + 1)  # above the largest process number there is
    gone.look()
    assert gone.total_ns == 0
