"""A Ctrl-C that Python discards is raised later, within a command and nowhere else."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mptune.interrupts import noting, raise_lost


def test_what_was_lost_is_raised_until_the_block_ends(lose_ctrl_c: Callable[[], None]) -> None:
    with noting():
        raise_lost()
        lose_ctrl_c()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                raise_lost()
    raise_lost()
    with noting():
        raise_lost()


@pytest.mark.usefixtures("lose_ctrl_c")
def test_every_ctrl_c_is_raised_at_once_and_the_last_leaves_all_as_it_was() -> None:
    def press_twice() -> None:
        with noting():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    raise_lost()


def test_it_is_for_the_main_thread(lose_ctrl_c: Callable[[], None]) -> None:
    def elsewhere() -> object:
        raise_lost()
        with noting():
            return signal.getsignal(signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    with ThreadPoolExecutor() as pool:
        assert pool.submit(elsewhere).result() is signal.default_int_handler
        with noting():
            lose_ctrl_c()
            pool.submit(elsewhere).result()
            with pytest.raises(KeyboardInterrupt):
                raise_lost()


@pytest.mark.usefixtures("lose_ctrl_c")
def test_another_way_to_handle_ctrl_c_stays() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with noting():
        signal.raise_signal(signal.SIGINT)
        raise_lost()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
