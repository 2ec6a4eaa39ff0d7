"""The end of a command that runs a campaign when it is stopped, by Ctrl-C or by a limit of the user's."""

import pytest
import typer

from mptune.cli._run_directory import keeping
from mptune.errors import Interrupted, LimitReached


def unheard() -> Interrupted:
    """Ctrl-C while a host was silent, during a sweep."""
    interrupt = KeyboardInterrupt()
    interrupt.add_note("alice could not be reached")
    return Interrupted("so far: fullmesh with cubic", interrupt)


def limit() -> LimitReached:
    error = LimitReached("sites.toml", "max_data", "2 GB do not suffice")
    error.so_far = "so far: fullmesh with cubic"
    return error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (limit(), 2, "mptune: sites.toml: max_data: 2 GB do not suffice"),
        (Interrupted("so far: fullmesh with cubic"), 130, "mptune: interrupted"),
    ],
)
def test_the_best_answer_so_far_comes_after_the_reason(tmp_path, capsys, error, code, words):
    with pytest.raises(typer.Exit) as ended, keeping(tmp_path):
        raise error
    assert ended.value.exit_code == code
    assert capsys.readouterr().err.splitlines() == [words, "mptune: so far: fullmesh with cubic"]


def test_what_ctrl_c_left_undone_is_printed_last(tmp_path, capsys):
    with pytest.raises(typer.Exit), keeping(tmp_path):
        raise unheard()
    assert capsys.readouterr().err.splitlines()[-1] == "mptune: alice could not be reached"
