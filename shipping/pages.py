"""What the site has beside docs/*.md (a hook of mkdocs; `make docs`).

The front page is the README; a notebook is a page with what its cells show; the commands come from the
declarations that `--help` shows. Pages stand in the order in which docs/pages.md lists them; there is no
second list.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "shipping"), str(ROOT / "python")]

import cells  # noqa: E402 # found by the line above
from commands import Command, Parameter, program  # noqa: E402 # found by the line above

#: Files beside docs/, and the pages they become.
_ADDED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_WORKER, _STYLE = "assets/iframe-worker.js", "assets/site.css"
_COMMANDS = "reference/commands"
#: Pages of the notebooks, and those.
_NOTEBOOKS = {path.with_suffix(".md").name: path for path in cells.NOTEBOOKS}


def on_config(config: Any) -> Any:
    """Give the site its order."""
    config.nav = nav()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that no file of docs/ has."""
    pages = {target: _moved((ROOT / source).read_text("utf-8")) for source, target in _ADDED.items()}
    for command in program().walk():
        pages[f"{_COMMANDS}/{command.page}.md"] = "\n".join(_command(command)) + "\n"
    for page, notebook in _NOTEBOOKS.items():
        way = f"[This page as a notebook]({notebook.name})"
        pages[page] = f"{cells.page(cells.read(notebook)['cells'])}\n{way}\n"
    for path in (_WORKER, _STYLE):
        pages[path] = (ROOT / "shipping" / Path(path).name).read_text("utf-8")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to a notebook to its page, which leads to the file."""
    for name, notebook in _NOTEBOOKS.items():
        if page.file.src_uri != name:
            markdown = markdown.replace(f"{notebook.name})", f"{name})")
    return markdown


def nav() -> list[Any]:
    """Titles and pages, part by part."""
    commands = [f"{_COMMANDS}/{command.page}.md" for command in program().walk()]
    reference = [{"Commands": commands}, *_pages("reference")]
    return [
        {"mptune": "index.md"},
        "pages.md",
        "tutorial.md",
        *_NOTEBOOKS,
        {"How to": _pages("how-to")},
        {"Reference": reference},
        {"Explanation": _pages("explanation")},
        {"About": ["architecture.md", "decisions.md", "changelog.md", "contributing.md"]},
    ]


def _pages(folder: str) -> list[str]:
    """Pages of a folder: as docs/pages.md lists them, then the others."""
    there = sorted(f"{folder}/{path.name}" for path in (ROOT / "docs" / folder).glob("*.md"))
    listed = re.findall(r"\(([^)#]+\.md)", (ROOT / "docs/pages.md").read_text("utf-8"))
    return sorted(there, key=lambda page: listed.index(page) if page in listed else len(listed))


def _moved(text: str) -> str:
    """A file of the top directory with its links as they are from docs/."""
    text = text.replace("](docs/", "](")
    for source, target in _ADDED.items():
        text = text.replace(f"]({source}", f"]({target}")
    return text


def _command(command: Command) -> list[str]:
    lines = [f"# {command.name}", "", command.summary, "", "```", f"{command.name} {command.usage}", "```"]
    for text in command.description[1:]:
        lines += ["", *(["```", *text.lines, "```"] if text.lines else [_plain(text.words)])]
    lines += _table("Argument", command.arguments) + _table("Option", command.options)
    if command.commands:
        lines += ["", "## Commands"]
        for title, commands in command.grouped():
            lines += ["", *([f"**{title}**", ""] if title else [])]
            lines += [f"- [{one.name}]({one.page}.md): {_plain(one.summary)}" for one in commands]
    if command.examples:
        lines += ["", "## Examples", "", "```", *command.examples, "```"]
    return lines


def _table(title: str, found: tuple[Parameter, ...]) -> list[str]:
    if not found:
        return []
    rows = [f"| `{one.written}` | {_plain(one.help)} |" for one in found]
    return ["", f"## {title}s", "", f"| {title} | |", "|---|---|", *rows]


def _plain(text: str) -> str:
    """Text of a declaration, in which nothing is markup."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", " ".join(text.split()))
