"""The help: commands in groups, whole summaries, what most need first, and the nearest name."""

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mptune.cli import app
from mptune.cli._help import ALL, COMMANDS, GROUPS, summary
from mptune.trial.congestion import PATH_POLICIES

PROGRAM: Any = typer.main.get_command(app)
#: Columns of a terminal for which the help is written, and characters of a summary that fit there in a line.
WIDE, SUMMARY = 80, 64


def page(*words):
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": str(WIDE)})
    assert done.exit_code == 0, done.output
    return done.stdout


def below(command, name="mptune"):
    """All commands, those below others too."""
    for key, one in command.commands.items():
        yield f"{name} {key}", one
        if hasattr(one, "commands"):
            yield from below(one, f"{name} {key}")


def test_every_command_is_in_one_group_and_the_first_has_eight():
    assert sorted(COMMANDS) == sorted(PROGRAM.commands)
    assert len(GROUPS[0].commands) == 8


def test_the_program_lists_its_commands_in_groups_before_its_options():
    lines = page("--help").splitlines()
    titles = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == [*(group.title for group in GROUPS), "Options"]
    listed = [line.split()[0] for line in lines if re.match(r"  [a-z]+  +[A-Z]", line)]
    assert tuple(listed) == COMMANDS


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in below(PROGRAM)])
def test_every_summary_is_a_line_that_is_not_cut(name, command):
    text = summary(command)
    assert len(text) <= SUMMARY and text.endswith(".") and "..." not in text
    above = name.split()[1:-1]
    assert f" {text}\n" in page(*above, "--help")


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if not hasattr(PROGRAM.commands[name], "commands")]
)
def test_a_command_shows_three_examples_and_more_only_if_asked(name):
    shown = page(name, "--help").partition("Examples:\n")[2].splitlines()
    assert len(shown) == 3 and all(line.startswith(f"    mptune {name}") for line in shown)
    if ALL in page(name, "--help"):
        every = page(name, ALL).partition("Examples:\n")[2].splitlines()
        assert every[:3] == shown


def test_options_are_in_groups_and_the_rare_ones_behind_help_all():
    common, every = page("optimise", "--help"), page("optimise", ALL)
    for title in ("What is compared:", "Trials, and how many:", "Decision:", "Where and how:"):
        assert f"\n{title}\n" in common
    assert "--resamples" not in common and "--resamples" in every
    assert "Path managers:" not in common and "Path managers:" in every
    (left_out,) = re.findall(r"^(\d+) more options: mptune optimise --help-all$", common, re.M)
    assert "more options" not in every
    assert _options(every) - _options(common) == int(left_out) > 30
    assert "Algorithm 1 of the MPCOA paper" in every and "Algorithm 1 of the MPCOA paper" not in common


def _options(text):
    return len(re.findall(r"^  (--[a-z]|-h)", text.partition("Arguments:")[2], re.M))


def test_a_command_of_which_help_leaves_nothing_out_has_no_more():
    assert ALL not in page("clean", "--help")
    assert CliRunner().invoke(app, ["clean", ALL]).exit_code == 2


def test_rare_options_are_taken_and_completed_as_others():
    done = CliRunner().invoke(app, ["optimise", "UNIS-HiN", "--resamples", "many"])
    assert done.exit_code == 2 and done.stderr.startswith("mptune: error: --resamples: expected")


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["optimze"], "'optimise'"),
        (["campaign", "runn"], "'run'"),
        (["optimise", "UNIS-HiN", "--bufers", "4"], "'--buffers'"),
        (["optimise", "UNIS-HiN", "--resample", "4"], "'--resamples'"),
        (["optimise", "UNIS-HN"], "UNIS-HiN"),
        (["run", "CLOUD-HOM.hybrid"], "CLOUD-HOME.hybrid"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_an_unknown_name_is_answered_with_the_nearest(words, nearest):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert f"id you mean {nearest}?" in done.stderr


def test_names_that_are_choices_are_not_listed_with_every_word_behind_a_plus():
    text = " ".join(page("run", "--help").split())
    *more, last = (f"+{policy}" for policy in PATH_POLICIES)
    assert f"each but bbr and dctcp also with {', '.join(more)} or {last}" in text
    assert "reno+hold" not in text
