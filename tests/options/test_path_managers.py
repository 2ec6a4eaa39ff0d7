"""Options of path managers: flags, keys and documentation follow from what the policies declare."""

from pathlib import Path

import msgspec
import pytest

from mptune import path_managers, testbeds
from mptune.options import declared
from mptune.options import path_managers as path_manager_options
from mptune.options.path_managers import PathManagerOptions

PAGE = Path(__file__).parents[2] / "docs/explanation/path-managers.md"


def test_every_option_of_every_path_manager_has_a_key_and_a_flag() -> None:
    options = declared(PathManagerOptions)
    assert [option.key for option in options] == [
        f"{pm}.{option.name}" for pm, known in path_managers.options().items() for option in known
    ]
    assert len({option.flag for option in options}) == len(options)


def test_a_new_path_manager_takes_no_flag_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    known = path_managers.options()
    first = next(pm for pm in testbeds.names("path_managers") if known[pm])
    name = known[first][0].name
    monkeypatch.setattr(path_managers, "options", lambda: {**known, "a_new_one": known[first]})
    monkeypatch.setattr(testbeds, "names", lambda kind: [*known, "a_new_one"])
    flags = {option.fields: option.flag for option in declared(path_manager_options._all())}
    assert flags[first, name] == f"--{name}".replace("_", "-")
    assert flags["a_new_one", name] == f"--a-new-one-{name}".replace("_", "-")


def test_the_documentation_lists_every_option() -> None:
    """With the words of the policy itself; no option that there is none of."""
    rows = []
    for declaration in declared(PathManagerOptions):
        pm, name = declaration.fields
        (known,) = (option for option in path_managers.options()[pm] if option.name == name)
        kind, default = known.kind.replace("_", " "), declaration.option.unset or "-"
        rows.append(f"| {pm} | `{name}` | {kind} | {default} | {known.help} |")
    table = PAGE.read_text(encoding="utf-8").partition("\n## Options\n")[2].partition("\n## ")[0]
    assert [line for line in table.splitlines() if line.startswith("|")][2:] == rows


def test_only_what_is_not_at_its_default_reaches_the_trial() -> None:
    """A default that is written out gives the same trial, with the same key in a store."""
    given = {
        "ndiffports": {"ndiffports": 2},
        "pcdc": {"class_bytes": [512 << 10, 1 << 20], "active": ["A-X"]},
    }
    options = msgspec.convert(given, PathManagerOptions)
    assert options.of("pcdc") == {"active": ("A-X",)}
    assert options.of("ndiffports") == options.of("fullmesh") == {}
    assert list(options.unused(["pcdc"])) == [("ndiffports.ndiffports", "ndiffports")]
