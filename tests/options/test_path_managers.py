"""Options of path managers: flags, keys and documentation follow from what the policies declare."""

from pathlib import Path

import msgspec

from mptune import path_managers
from mptune.options import declared
from mptune.options.path_managers import PathManagerOptions

PAGE = Path(__file__).parents[2] / "docs/explanation/path-managers.md"


def test_every_option_of_every_path_manager_has_a_key_and_a_flag() -> None:
    options = declared(PathManagerOptions)
    assert [option.key for option in options] == [
        f"{pm}.{option.name}" for pm, known in path_managers.options().items() for option in known
    ]
    assert len({option.flag for option in options}) == len(options)


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
