"""The conformance table and the rules table: every requirement with its result, every control with its rules.

A test checks the documents that its comment names (`RFC 8985 section 6.2 step 4: ...`) or, for a congestion
control, the one that its module's comment opens with; its own name is the requirement. This reads both from
the sources, runs the tests, and prints one line each. How every control meets the rules of multipath
congestion control is measured, not required; see `_rules`.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.fidelity import _rules
from benchmarks.fidelity._rules import CORE
from benchmarks.shared import docs
from benchmarks.shared.measure import write

DOCS = CORE.parent.parent / "docs" / "reference" / "conformance.md"

#: A document and a part of it.
_DOCUMENT = re.compile(
    r"(RFCs? \d+(?:(?:, | and )(?:RFC )?\d+)*(?: sections? [\d.]+(?:(?:,| and| to) [\d.]+)*)?"
    r"(?: step \d+(?:\.\w)?)?(?: \(\d+\.\d+\)(?:, \(\d+\.\d+\))*)?(?: (?:equation|figure) \d+)?"
    r"|Linux `[\w./]+`|draft-[\w-]+(?: section [\d.]+)?"
    r"|(?:PCDC|MPCOA) section [\w.]+|Path-management study section [\w.-]+"
    r"|Raiciu et al\., NSDI 2012, section [\d.]+"
    r"|[A-Z]\w+(?:, [A-Z]\w+)*(?: et al\.)? (?:19|20)\d\d(?:, (?:section|figure) [\d.]+)?)"
)
#: A part of the module's document.
_PART = re.compile(r"(?:^|draft )[Ss]ection(s? [\d.]+(?:(?:,| and| to) [\d.]+)*)|^Draft section(s? [\d.]+)")
_TEST = re.compile(r"((?:[ \t]*///[^\n]*\n)*)[ \t]*#\[test\]\s+fn (\w+)\([^\n]*\n((?:\s*//[^\n]*\n)*)")
#: Files in the folder of congestion controls that are none: the trait and helpers.
_NO_CONTROL = {"mod.rs", "coupling.rs", "testing.rs", "bottleneck.rs"}


@dataclass(frozen=True, order=True)
class Requirement:
    """A test of a document's requirement.

    Attributes
    ----------
    document : the document and its part.
    text : where it is tested and what is required.
    target : cargo's name of the test binary.
    test : the test's path in it.
    """

    document: str
    text: str
    target: str
    test: str


def _plain(comment: str) -> str:
    return " ".join(line.strip().lstrip("/!").strip() for line in comment.splitlines()).strip()


def _documents(text: str) -> str:
    documents = (document.rstrip(".") for document in _DOCUMENT.findall(text))
    return "; ".join(dict.fromkeys(documents))


def _of_module(file: Path) -> str:
    """The first document in the first paragraph of a module's comment, or else its kernel counterpart."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("//!")]
    comment = "\n".join(lines)
    opening = _plain(comment.split("\n//!\n")[0])
    if named := _DOCUMENT.search(opening):
        return named.group().rstrip(".")
    if file.parent.name == "bbr" and file.name != "mod.rs":
        return _part_of(_of_module(file.with_name("mod.rs")), opening)
    kernel = re.search(r"Linux `net/[\w./]+`", _plain(comment))
    return kernel.group() if kernel else ""


def _part_of(module: str, comment: str) -> str:
    """The module's document, with the part that a comment names."""
    part = _PART.search(comment)
    return f"{module} section{part.group(1) or part.group(2)}".rstrip(".") if part else module


def _is_control(file: Path) -> bool:
    inside = file.parent.name in {"congestion", "bbr"} and file.name not in _NO_CONTROL
    return inside and file.relative_to(CORE).parts[-2:] != ("congestion", "tests.rs")


def _place(file: Path) -> tuple[str, str]:
    """Cargo's test binary and the module of a source file in it."""
    parts = file.relative_to(CORE).with_suffix("").parts
    if parts[0] == "tests":
        return "tests/all.rs", file.stem
    return "src/lib.rs", "::".join(part for part in parts[1:] if part != "mod")


def requirements() -> list[Requirement]:
    """Every test of a document's requirement, in the order of documents."""
    listed = []
    for file in sorted([*CORE.glob("src/**/*.rs"), *CORE.glob("tests/*.rs")]):
        target, module = _place(file)
        own = _of_module(file) if _is_control(file) else ""
        where = file.parent.name if file.stem in {"mod", "tests"} else file.stem
        for outside, name, inside in _TEST.findall(file.read_text(encoding="utf-8")):
            comment = _plain(outside + inside)
            document = _documents(comment) or (_part_of(own, comment) if own else "")
            if document:
                inner = (
                    f"{module}::tests" if target == "src/lib.rs" and not module.endswith("tests") else module
                )
                test = f"{inner}::{name}"
                text = f"{where}: {name.replace('_', ' ')}"
                listed.append(Requirement(document, text, target, test))
    return sorted(listed)


def results() -> dict[tuple[str, str], bool]:
    """(test binary, test) -> passed, from one run of the core's tests."""
    command = ["cargo", "test", "--locked", "-p", "mptune-core", "--no-fail-fast"]
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CORE
    )
    passed = {}
    target = ""
    for line in done.stdout.splitlines():
        if running := re.match(r"\s+Running (?:unittests )?(\S+) \(", line):
            target = running.group(1)
        elif outcome := re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)$", line):
            passed[target, outcome.group(1)] = outcome.group(2) == "ok"
    if not passed:
        print(done.stdout, file=sys.stderr)
    return passed


def _rows(listed: list[Requirement]) -> list[str]:
    return [f"| {r.document} | {r.text} |" for r in listed]


def write_docs(listed: list[Requirement], rules: str) -> None:
    """Put both tables into the docs page."""
    table = "\n".join(["| document | requirement |", "|---|---|", *_rows(listed)])
    docs.replace(DOCS, "rules", rules)
    docs.replace(DOCS, "requirements", table)


def check_docs() -> int:
    """Report requirements that the docs page lacks or has in excess; return 1 if there are any."""
    page = DOCS.read_text(encoding="utf-8").splitlines()
    rows = set(_rows(requirements()))
    listed = {line for line in page if line in rows or re.match(r"\| .+ \| \w+: .+ \|$", line)}
    for row in sorted(rows - listed):
        print(f"{DOCS.name} lacks: {row}")
    for row in sorted(listed - rows):
        print(f"{DOCS.name} has, but no test does: {row}")
    if rows != listed:
        print("make conformance OPTIONS=--write-docs brings it up to date")
    return int(rows != listed)


def main() -> int:
    """Print both tables; exit status 1 if any requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write-docs", action="store_true", help="put both tables into the docs too")
    parser.add_argument(
        "--check-docs", action="store_true", help="only compare the docs' requirements with the tests"
    )
    options = parser.parse_args()
    if options.check_docs:
        return check_docs()
    console = Console(width=200)
    listed = requirements()
    passed = results()
    table = Table("document", "requirement", "", title="Conformance", title_justify="left")
    rows = [(r, passed.get((r.target, r.test), False)) for r in listed]
    for requirement, met in rows:
        table.add_row(requirement.document, requirement.text, "ok" if met else "FAILED")
    console.print(table)
    good = sum(met for _, met in rows)
    print(f"{good} of {len(rows)} requirements met")
    write("conformance", [{"document": r.document, "requirement": r.text, "met": met} for r, met in rows])
    rules = _rules.measure()
    _rules.show(rules, console)
    write("rules", rules)
    if options.write_docs:
        write_docs(listed, _rules.markdown(rules))
        print(f"written to {DOCS}")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
