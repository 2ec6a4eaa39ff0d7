"""The documentation: every link leads somewhere, and every command line shown is one that mptune takes.

Commands are parsed here, and the cheap ones run in tests/test_documented_commands.py.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from mptune.cli import app
from tests.plugins.needs import ROOT

PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    + [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"^ *(```+|~~~+)", re.M)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*?) *#*$", re.M)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
#: What a shell takes for more than words of one command: the rest of the line is not mptune's.
_SHELL = frozenset({"|", ">", ">>", "2>", "&&", "||", ";", "&", "<"})
#: What stands for something left out.
_LEFT_OUT = re.compile(r"\.\.\.|…|<[a-z]")

#: Objections to a command line that only has less than a whole one.
_UNFINISHED = re.compile(r"Missing |Usage: |Option '[a-z-]+' requires an argument")

PROGRAM = typer.main.get_command(app)
#: Base class of errors in a command line.
WRONG: type[BaseException] = typer.BadParameter.__mro__[2]


def text_of(page: Path) -> str:
    """Text of a page; of a notebook the text between its code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        return "\n\n".join("".join(cell["source"]) for cell in cells)
    return text


class Page(NamedTuple):
    """A page, split."""

    prose: str
    fenced: str


def split(text: str) -> Page:
    """Fenced blocks and the rest, each as text."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    fence = ""
    for line in text.splitlines():
        if (fence_match := _FENCE.match(line)) and (not fence or fence_match[1] == fence):
            fence = "" if fence else fence_match[1]
        else:
            kinds[bool(fence)].append(line)
    return Page("\n".join(kinds[False]), "\n".join(kinds[True]))


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a page; a heading that repeats is numbered."""
    slugs: list[str] = []
    for heading in _HEADING.findall(split(text).prose):
        anchor = slug(heading)
        slugs.append(f"{anchor}-{number}" if (number := slugs.count(anchor)) else anchor)
    return set(slugs)


def broken(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere; those to other sites are not followed."""
    text = text_of(page)
    for target in _LINK.findall(_CODE.sub("", split(text).prose)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in anchors(text_of(file)):
            yield f"{target}: there is no such heading"


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    assert not list(broken(ROOT / name))


#: What a stranger reads at once.
README_LINES, PAGES_MOST = 90, 40
DOCS = [name for name in NAMES if name.startswith("docs/") and name.endswith(".md")]
NOTEBOOKS = [name for name in NAMES if name.endswith(".ipynb")]


def test_the_readme_is_short_and_the_pages_are_few() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES
    assert len(DOCS) + len(NOTEBOOKS) <= PAGES_MOST


#: What the README repeats of a page: the page, where it stands there, and the words of the README.
REPEATED = (
    (
        "docs/explanation/scheduling.md",
        r"<!-- path policies, virtual:.*?scheduler alone: [^(]*\(lowest ([\d.]+), mean ([\d.]+)\)",
        "{1} times the throughput in the mean, {0} times at worst",
    ),
    (
        "docs/explanation/scheduling.md",
        r"contenders, dynamics, small, virtual: .*?\| hold / better of both \| ([\d.]+) .*?"
        r"\| pm=guard / better of both \| ([\d.]+) .*?\| fullmesh / better of both \| ([\d.]+) ",
        "gives {0} of it, `guard`, which loads no program, {1}, all paths alone {2} (",
    ),
    (
        "docs/reference/regret.md",
        r"- all: cases (\d+), reached [\d.]+ %, mean share ([\d.]+) %, worst share ([\d.]+) %",
        "| {0} cases, simulator | {1} % of its throughput in the mean, {2} % at worst",
    ),
    (
        "docs/reference/regret.md",
        r"\| starlink-att \| published: MPTCP, tuned \| \d+ \| (\d+) % "
        r".*?\| by hand, cubic\+hold \|[^|]*\| (\d+) % .*?\*\*answer\*\*[^|]*\|[^|]*\| (\d+) % "
        r".*?\| starlink-verizon \| published: MPTCP, tuned \| \d+ \| (\d+) % "
        r".*?\| by hand, cubic\+hold \|[^|]*\| (\d+) % .*?\*\*answer\*\*[^|]*\|[^|]*\| (\d+) % ",
        "| {2} and {5} % of the sum of the paths instead of {0} and {3} %, `cubic+hold` {1} and {4} % (",
    ),
    (
        "docs/explanation/adaptive.md",
        r"<!-- small, targets:.*?times faster than the best rival[^|]*"
        r"\| ([\d.]+) \((?:[^|]*\|){7} ([\d.]+) \([^|]*\| ([\d.]+) \(",
        "without a prior ({0}), {1} times as fast with the simulator's as prior, {2} times with the learnt",
    ),
)


@pytest.mark.parametrize(("name", "there", "words"), REPEATED)
def test_the_readme_repeats_what_a_page_has_measured(name: str, there: str, words: str) -> None:
    found = re.search(there, (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert words.format(*found.groups()) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_list_of_pages_has_each_of_them_once() -> None:
    page = ROOT / "docs" / "pages.md"
    linked = re.findall(r"^\|.*?\]\(([^)#]+)\)", page.read_text(encoding="utf-8"), re.M)
    linked += re.findall(r"\), \[[^]]*\]\(([^)#]+)\)", page.read_text(encoding="utf-8").split("\nNext:")[0])
    assert sorted(linked) == sorted(
        name.removeprefix("docs/") for name in [*DOCS, *NOTEBOOKS] if name != "docs/pages.md"
    )


@pytest.mark.parametrize("name", DOCS)
def test_a_page_opens_with_whom_it_is_for_and_ends_with_what_is_next(name: str) -> None:
    title, _, opening, *_ = lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ") and opening.startswith("For ")
    assert lines[-1].startswith("Next: [") and lines[-1].endswith(").")
    assert lines[-2] == ""


def command_lines(page: Page) -> Iterator[tuple[str, bool]]:
    """Command lines of mptune, and whether they are whole: a line of a block, not a mention in a sentence."""
    for line in page.fenced.replace("\\\n", " ").splitlines():
        words = line.strip().removeprefix("$ ").removeprefix("sudo ").removeprefix(".venv/bin/")
        if words.startswith("mptune ") and not _output(words):
            yield words, True
    for _, code in _CODE.findall(page.prose):
        words = " ".join(code.split()).removeprefix("sudo ")
        if words.startswith("mptune "):
            yield words, False


def _output(line: str) -> bool:
    """A line of a block is something that mptune or a table of it prints: "mptune 0.2.0"."""
    return bool(re.match(r"mptune(:| +[\d(=:])", line))


def arguments(line: str) -> list[str]:
    """The words after the program's name."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    end = next((place for place, word in enumerate(words) if word in _SHELL), len(words))
    return words[1:end]


def objection(words: list[str], whole: bool) -> str | None:
    """mptune's objection to a command line; None if it takes it."""
    command, above = PROGRAM, None
    name = "mptune"
    try:
        while True:
            commands = getattr(command, "commands", None)
            context = command.make_context(name, list(words), parent=above)
            if commands is None or not (rest := [*context._protected_args, *context.args]):
                return None
            if rest[0] not in commands:
                return f"no command {rest[0]}"
            above, name, command, words = context, rest[0], commands[rest[0]], rest[1:]
    except typer.Exit:
        return None  # --help, --version
    except WRONG as error:
        message = str(getattr(error, "format_message", error.__str__)())
        return None if not whole and _UNFINISHED.match(message) else message


@pytest.mark.parametrize("name", NAMES)
def test_every_command_line_shown_is_one_that_mptune_takes(name: str) -> None:
    page = split(text_of(ROOT / name))
    wrong = {
        line: problem
        for line, whole in command_lines(page)
        if not _LEFT_OUT.search(line) and (problem := objection(arguments(line), whole))
    }
    assert not wrong


def test_a_wrong_one_would_be_detected() -> None:
    """What the tests above look for, on lines that are wrong."""
    assert "nonsense" in str(objection(["nonsense"], True))
    assert "--bufers" in str(objection(["optimise", "UNIS-HiN", "--bufers", "4"], False))
    assert "Missing" in str(objection(["run"], True)) and objection(["run"], False) is None
    assert objection(arguments("mptune campaign run FILE.toml --quiet > log 2>&1  # at night"), True) is None
    page = ROOT / "docs" / "tutorial.md"
    assert slug("`mptune fit`: what it's for") == "mptune-fit-what-its-for"
    assert "from-a-topology-file-to-an-answer" in anchors(page.read_text(encoding="utf-8"))
