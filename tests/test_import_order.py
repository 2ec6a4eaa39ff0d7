"""The rooms of the package import one way, and no two files import each other.

The order stands here and nowhere else.
"""

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import mptune

ROOT = Path(mptune.__file__).parent

#: From the ground up: each may import those before it, and nothing after it.
ORDER = [
    *(
        "__init__",
        "_core",
        "_text",
        "_terminal",
        "_threads",
        "errors",
        "files",
        "_cache",
        "interrupts",
        "units",
        "tables",
        "statistics",
    ),
    *("topology", "trial", "theory", "path_managers", "linux", "guest", "machines", "probe", "routes"),
    *("capture", "testbeds", "pytest_plugin", "options"),
    *("runner", "store", "impact", "response", "strategy", "table", "calibration", "decision"),
    *("optimisation", "diagnosis", "result", "campaign", "papers", "report"),
    *("apply", "daemon", "bundle", "monitor", "ui"),
    *("api", "cli"),
]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py*")
    if path.suffix in (".py", ".pyi")
}


def imported(name: str) -> Iterator[str]:
    """Modules of the package that a module imports, anywhere in it.

    The package itself loads its face at the first use; what it imports for type checkers is no import.
    """
    tree = ast.parse(FILES[name].read_text())
    if name == "__init__":
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{name}: import by its full name"
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("mptune."):
            package = (node.module or "").removeprefix("mptune").removeprefix(".")
            for imported in node.names:
                below = f"{package}.{imported.name}".removeprefix(".")
                yield below if below in FILES else package or "__init__"


def room(name: str) -> str:
    return name.partition(".")[0]


@cache
def arrows() -> dict[str, list[str]]:
    """Module -> modules that it imports."""
    return {name: sorted(set(imported(name)) - {name}) for name in FILES}


def test_every_room_has_its_place():
    assert {room(name) for name in FILES} == set(ORDER)


@pytest.mark.parametrize("name", [name for name in ORDER if name != "_core"])
def test_nothing_is_imported_from_a_later_room(name):
    later = set(ORDER[ORDER.index(name) + 1 :])
    wrong = [
        f"{importer} -> {other}"
        for importer, others in arrows().items()
        for other in others
        if room(importer) == name and room(other) in later - {"_core" if name == "__init__" else ""}
    ]
    assert not wrong


def test_no_files_import_each_other():
    list(graphlib.TopologicalSorter(arrows()).static_order())  # names the circle if there is one


def test_what_begins_with_an_underscore_stays_in_its_folder():
    wrong = [
        f"{importer} -> {other}"
        for importer, others in arrows().items()
        for other in others
        for folder, _, file in [other.rpartition(".")]
        if file.startswith("_") and folder and not f"{importer}.".startswith(f"{folder}.")
    ]
    assert not wrong
