"""The files of each crate depend on each other one way: no circle of files.

Read from the text alone: `use` lines, and paths in the code that begin with `crate`, `super`, `self`, a
module below the file or a name in scope. A name that `mod.rs` only re-exports counts as the file that
defines it. Tests are left out.
"""

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = sorted(path.parent for path in (Path(__file__).parents[1] / "crates").glob("*/src"))
Module = tuple[str, ...]

_NOT_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"')
_TESTS = re.compile(r"^( *)#\[cfg\(test\)\]\n(?:\1#.*\n)*\1[^\n]*(?:;\n|\{\n(?:.*\n)*?\1\}\n)", re.MULTILINE)
_USE = re.compile(r"\b(pub(?:\([a-z ]+\))? )?use ([^;]+);")
_PATH = re.compile(r"(?<![\w:])[a-z_]\w*(?:::\w+)+")


def leaves(tree: str, prefix: Module = ()) -> Iterator[tuple[str, Module]]:
    """Names that a use tree brings into scope, with their paths."""
    head, brace, rest = tree.strip().partition("{")
    if brace:
        names = tuple(name for name in re.split(r"::", head) if name)
        for part in re.findall(r"(?:[^,{}]|\{(?:[^{}]|\{[^{}]*\})*\})+", rest.rpartition("}")[0]):
            if part.strip():
                yield from leaves(part, prefix + names)
    else:
        path, _, alias = head.partition(" as ")
        *folder, name = (*prefix, *path.strip().split("::"))
        yield alias.strip() or name, tuple(folder) if name in ("self", "*") else (*folder, name)


class Crate:
    """The modules of a crate, what each brings into scope, and the modules that it depends on."""

    def __init__(self, source: Path) -> None:
        self.code: dict[Module, str] = {}
        for path in source.rglob("*.rs"):
            *folder, name = path.relative_to(source).with_suffix("").parts
            if name not in ("tests", "testing") and "tests" not in folder:
                module = tuple(folder) if name in ("mod", "lib") else (*folder, name)
                self.code[module] = _TESTS.sub("", _NOT_CODE.sub("", path.read_text()))
        self.scope = {
            module: {
                name: self.inside(module, path)
                for _, tree in _USE.findall(code)
                for name, path in leaves(tree)
            }
            for module, code in self.code.items()
        }

    def inside(self, module: Module, path: Module) -> Module | None:
        """A path as seen from the crate's root; none if it leads out of the crate."""
        base, rest = list(module), list(path)
        while rest and rest[0] in ("crate", "self", "super"):
            base = [] if rest[0] == "crate" else base[: len(base) - (rest[0] == "super")]
            rest.pop(0)
        is_local = len(rest) < len(path) or (*module, path[0]) in self.code
        return (*base, *rest) if is_local else None

    def home(self, path: Module) -> Module:
        """The module in whose file an item stands."""
        if path in self.code:
            return path
        module = next(path[:end] for end in range(len(path) - 1, -1, -1) if path[:end] in self.code)
        other = self.scope[module].get(path[len(module)])
        return self.home((*other, *path[len(module) + 1 :])) if other and other != path else module

    def needs(self, module: Module) -> set[Module]:
        code = _USE.sub("", self.code[module])
        paths = [tuple(path.split("::")) for path in _PATH.findall(code)]
        needed = [self.inside(module, path) for path in paths]
        needed += [(*base, *path[1:]) for path in paths if (base := self.scope[module].get(path[0]))]
        for public, tree in _USE.findall(self.code[module]):
            for name, path in leaves(tree):
                if not public or name == "*" or re.search(rf"\b{name}\b", code):  # else it is only passed on
                    needed.append(self.inside(module, path))
        return {self.home(path) for path in needed if path} - {module}


@pytest.mark.parametrize("source", [crate / "src" for crate in CRATES], ids=lambda source: source.parent.name)
def test_no_files_of_a_crate_depend_on_each_other(source):
    crate = Crate(source)
    graph = {"/".join(room): {"/".join(other) for other in crate.needs(room)} for room in crate.code}
    assert any(graph.values())
    list(graphlib.TopologicalSorter(graph).static_order())  # names the circle if there is one


def test_a_circle_is_detected(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "lib.rs").write_text("mod room;\npub use room::Item;\n")
    (tmp_path / "room" / "mod.rs").write_text("mod one;\npub trait Item {}\nlist! { one::One }\n")
    (tmp_path / "room" / "one.rs").write_text("use crate::{Item as Thing, other};\npub struct One;\n")
    crate = Crate(tmp_path)
    assert crate.needs(("room",)) == {("room", "one")}
    assert crate.needs(("room", "one")) == {("room",), ()}


def test_every_file_of_tests_is_compiled():
    """They are modules of one crate, which names them."""
    folder = next(crate for crate in CRATES if crate.name == "mptune-core") / "tests"
    named = set(re.findall(r"^mod (\w+);", (folder / "all.rs").read_text(), re.MULTILINE))
    assert named - {"common"} == {file.stem for file in folder.glob("*.rs")} - {"all"}
