"""One declaration: the flag, the key, the check, the default and the place of an error, all of it."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.cli._common import add, program
from mptune.errors import InputError
from mptune.options import Option, Options, Tables, choice, count, declared, names, share, time


class Part(Options, frozen=True, kw_only=True):
    """A part of other options."""

    times: Annotated[int, Option(count(1), "How often.", key="part.times", nested="--part-times")] = 2
    derived: Annotated[
        int, Option(count(), "What follows from the rest.", key="part.derived", alone=True)
    ] = 0


class Whole(Options, frozen=True, kw_only=True):
    """Options with a part."""

    times: Annotated[int, Option(count(1, 9), "How often, in all.", key="trials.times")] = 3
    wait_ns: Annotated[int, Option(time(), "How long.", key="trials.wait")] = 1_500_000_000
    colour: Annotated[str, Option(choice(lambda: ("red", "blue")), "Which.", key="colour")] = "red"
    shades: Annotated[tuple[str, ...], Option(names(lambda: ("dark", "light")), "Shades.", key="shades")] = (
        "dark",
    )
    part: Part | None = None

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.colour == "blue" and self.times > 5:
            yield "times", "expected 5 or less with blue"


class Other(Options, frozen=True, kw_only=True):
    """Options of another kind."""

    loss: Annotated[float, Option(share(), "How much.", key="loss")] = 0.07


class Head(Options, frozen=True, kw_only=True):
    """The choice of the kind."""

    kind: Annotated[str, Option(choice(lambda: ("whole", "part")), "Kind.", key="kind")] = "whole"


def from_file(raw: dict[str, Any]) -> Any:
    tables = Tables(raw, "a.toml", Head, {"whole": Whole, "part": Part}, "kind")
    return tables.options(tables.head().kind)


def test_flags_and_keys_are_those_declared() -> None:
    assert [(option.flag, option.key) for option in declared(Whole)] == [
        ("--times", "trials.times"),
        ("--wait", "trials.wait"),
        ("--colour", "colour"),
        ("--shades", "shades"),
        ("--part-times", "part.times"),
    ]
    assert [option.flag for option in declared(Part)] == ["--times", "--derived"]


def test_the_same_values_whichever_way_they_come() -> None:
    expected = Whole(times=4, wait_ns=10**6, colour="blue", shades=("light", "dark"), part=Part(times=5))
    raw = {
        "colour": "blue",
        "shades": ["light", "dark"],
        "trials": {"times": 4, "wait": "1 ms"},
        "part": {"times": 5},
    }
    assert from_file(raw) == expected


def test_what_is_not_written_has_its_default() -> None:
    assert from_file({}) == Whole()
    assert from_file({"kind": "part"}) == Part()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"trials": {"times": 10}}, "a.toml: trials.times: expected 1 to 9, found 10"),
        ({"part": {"times": 0}}, "a.toml: part.times: expected 1 or more, found 0"),
        ({"colour": "green"}, "a.toml: colour: expected one of red, blue, found 'green'"),
        ({"shades": []}, "a.toml: shades: expected one of dark, light, found none"),
        ({"colour": "blue", "trials": {"times": 6}}, "a.toml: trials.times: expected 5 or less with blue"),
        ({"part": {"derived": 1}}, 'a.toml: part.derived: expected only with kind = "part"'),
        ({"kind": "part", "colour": "red"}, 'a.toml: colour: expected only with kind = "whole"'),
        ({"trials": {"tmies": 1}}, "a.toml: trials.tmies: unknown key, expected one of times, wait"),
        ({"trials": 1}, "a.toml: trials: expected a table, found a whole number"),
    ],
)
def test_an_error_names_the_file_and_the_key(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        from_file(raw)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Whole(times=10), "--times: expected 1 to 9, found 10"),
        (Whole(part=Part(times=0)), "--part-times: expected 1 or more, found 0"),
        (Whole(shades=("dark", "dark")), "--shades: expected each value once, found 'dark' twice"),
        (Whole(times=6, colour="blue"), "--times: expected 5 or less with blue"),
    ],
)
def test_what_python_built_is_checked_by_the_same_rules(options: Whole, message: str) -> None:
    with pytest.raises(InputError) as error:
        options.check()
    assert str(error.value) == message


def test_a_command_has_the_flags_with_their_defaults() -> None:
    got: list[Any] = []

    def work(
        options: Whole, more: Other, number: Annotated[int, Option(count(), "N.", flag="-n")] = 7
    ) -> None:
        got.extend((options, more, number))

    app = program()
    add(app, work, "mptune work")
    app.command("other")(_nothing)
    page = CliRunner().invoke(app, ["work", "--help"]).stdout
    for text in (
        "--times N",
        "[default: 3]",
        "[default: 1.5s]",
        "One of red, blue.",
        "[default: 7%]",
        "Any of dark, light.",
    ):
        assert text in " ".join(page.split()), text
    arguments = [
        "--times",
        "4",
        "--shades",
        "light",
        "--shades",
        "dark",
        "--part-times",
        "9",
        "-n",
        "1",
    ]
    assert CliRunner().invoke(app, ["work", *arguments]).exit_code == 0
    assert got == [Whole(times=4, shades=("light", "dark"), part=Part(times=9)), Other(), 1]
    bad = CliRunner().invoke(app, ["work", "--colour", "green"])
    assert (bad.exit_code, bad.stderr) == (
        2,
        "mptune: error: --colour: expected one of red, blue, found 'green'\n",
    )
    assert "-n: expected a whole number, found 'x'" in CliRunner().invoke(app, ["work", "-n", "x"]).stderr


def _nothing() -> None:
    """Beside another command, so that the program has several."""


def test_options_known_at_run_time_only_are_declared_in_the_same_way() -> None:
    """As those of a path manager, which come as a table from the core."""
    table = [("subflows", count(1, 8), 2, "Subflows of ndiffports.")]
    fields = [
        (name, Annotated[int, Option(kind, help, key=f"ndiffports.{name}")], default)
        for name, kind, default, help in table
    ]
    made: Any = msgspec.defstruct("Made", fields, bases=(Options,), frozen=True, kw_only=True)
    (option,) = declared(made)
    assert (option.flag, option.key, option.default) == ("--subflows", "ndiffports.subflows", 2)
    tables = Tables({"ndiffports": {"subflows": 9}}, "a.toml", Head, {"whole": made, "part": Part}, "kind")
    with pytest.raises(InputError, match=r"a.toml: ndiffports.subflows: expected 1 to 8, found 9"):
        tables.options("whole")
