"""The conformance table: every test of the core that answers to a document, run, with its result.

A test names the document it answers to in its first comment (`// RFC 8985 section 6.2 step 4: ...`), or
stands in a file whose module comment names the specification it implements; its own name is the requirement.
This reads the sources for both, runs the tests, and prints one line each.
"""

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from _measure import write

CORE = Path(__file__).parent.parent / "crates" / "mptune-core"

#: A document with the part that is meant, at the beginning of a comment.
_DOCUMENT = re.compile(
    r"(RFCs? \d+(?:(?:, | and )(?:RFC )?\d+)*(?: sections? [\d.]+(?:(?:,| and| to) [\d.]+)*)?"
    r"(?: step \d+(?:\.\w)?)?(?: \(\d+\.\d+\)(?:, \(\d+\.\d+\))*)?(?: (?:equation|figure) \d+)?"
    r"|Linux `\w+`|draft-[\w-]+(?: section [\d.]+)?"
    r"|(?:PCDC|MPCOA) section [\w.]+|Path-management study section [\w.-]+"
    r"|Raiciu et al\., NSDI 2012, section [\d.]+|Altman, Avrachenkov, Barakat 2005)"
)
_TEST = re.compile(r"#\[test\]\s+fn (\w+)\(\) \{\n((?:\s*//[^\n]*\n)*)")


def documents(comment: str) -> str:
    """Documents that a comment names, in its order, without repetition."""
    text = " ".join(line.strip().lstrip("/! ") for line in comment.splitlines())
    return "; ".join(dict.fromkeys(document.rstrip(".") for document in _DOCUMENT.findall(text)))


def requirements() -> list[tuple[str, str, str]]:
    """Document, requirement and test name of every test that answers to a document."""
    found = []
    for file in sorted([*CORE.glob("src/**/*.rs"), *CORE.glob("tests/*.rs")]):
        source = file.read_text(encoding="utf-8")
        module = documents("\n".join(line for line in source.splitlines() if line.startswith("//!")))
        controller = file.parent.name in {"congestion", "bbr"} and file.name not in {"mod.rs", "tests.rs"}
        for name, comment in _TEST.findall(source):
            document = documents(comment) or (module if controller else "")
            if document:
                found.append((document, f"{file.stem}: {name.replace('_', ' ')}", name))
    return found


def results() -> dict[str, bool]:
    """Test name -> passed, from one run of the core's tests."""
    command = ["cargo", "test", "--locked", "-p", "mptune-core", "--no-fail-fast"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=CORE)
    lines = re.findall(r"^test (?:[\w:]+::)?(\w+) \.\.\. (ok|FAILED)$", done.stdout, flags=re.MULTILINE)
    return {name: outcome == "ok" for name, outcome in lines}


def main() -> int:
    """Print the table; the exit status says whether everything passed."""
    passed = results()
    rows = [(document, text, passed.get(name, False)) for document, text, name in requirements()]
    table = Table("document", "requirement", "", title="Conformance", title_justify="left")
    for document, text, ok in sorted(rows):
        table.add_row(document, text, "ok" if ok else "FAILED")
    Console(width=200).print(table)
    good = sum(ok for *_, ok in rows)
    print(f"{good} of {len(rows)} requirements met")
    write("conformance", [{"document": d, "requirement": t, "met": ok} for d, t, ok in rows])
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
