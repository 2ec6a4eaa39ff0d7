"""Tables of TOML files: what is inside them is checked with them, under keys that name the place."""

from typing import Any, Literal

import msgspec
import pytest

from mptune.errors import InputError
from mptune.tables import convert


class Tree(msgspec.Struct, kw_only=True):
    kind: Literal["tree"]
    height: str


class House(msgspec.Struct, kw_only=True):
    kind: Literal["house"]
    rooms: int = 1


class Person(msgspec.Struct, kw_only=True):
    name: str


class Village(msgspec.Struct, kw_only=True):
    mayor: Person
    people: dict[str, Person] = {}
    things: list[Tree | House] = []
    guests: list[Person] | None = None
    anything: Any = None


def village(**others: object) -> Village:
    return convert({"mayor": {"name": "A"}, **others}, Village, "file", "here")


def test_tables_inside_get_their_types_and_what_is_left_out_its_default():
    found = village(
        people={"b": {"name": "B"}}, things=[{"kind": "tree", "height": "3 m"}, {"kind": "house"}]
    )
    assert found.mayor == Person(name="A") and found.people == {"b": Person(name="B")}
    assert found.things == [Tree(kind="tree", height="3 m"), House(kind="house", rooms=1)]
    assert found.guests is None and village(guests=[]).guests == []


def test_what_is_inside_anything_is_not_checked():
    assert village(anything={"mayor": 3}).anything == {"mayor": 3}


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"mayor": {"title": "A"}}, "here.mayor.title: unknown key, expected one of name"),
        ({"mayor": {}}, "here.mayor.name: expected, but missing"),
        ({"mayor": "A"}, "here.mayor: expected a table, found text"),
        ({"people": [{"name": "A"}]}, "here.people: expected a table, found a list of tables"),
        ({"people": {"b": {"name": 1}}}, "here.people.b.name: expected text, found a whole number"),
        ({"people": {"b": 1}}, "here.people.b: expected a table, found a whole number"),
        ({"guests": [{"name": "A"}, {}]}, "here.guests[1].name: expected, but missing"),
        ({"things": [{"height": "3 m"}]}, "here.things[0].kind: expected, but missing"),
        ({"things": [{"kind": "well"}]}, "here.things[0].kind: expected one of tree, house, found 'well'"),
        ({"things": [{"kind": ["tree"]}]}, "here.things[0].kind: expected one of tree, house, found"),
        ({"things": [{"kind": "house", "rooms": "1"}]}, "here.things[0].rooms: expected a whole number"),
        ({"things": [3]}, "here.things[0]: expected a table, found 3"),
    ],
)
def test_an_error_names_the_place(others: dict[str, object], message: str):
    with pytest.raises(InputError) as error:
        village(**others)
    assert str(error.value).startswith(f"file: {message}")
