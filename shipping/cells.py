"""Runs the notebooks of docs/ and writes what their cells show (`make notebook`); and turns one into a page.

Cells are run one after another in this process, in a directory of their own, as `exec` runs them: without
Jupyter, whose kernel would be 35 packages more. So a cell is plain Python, without magic. Shown is, as in
Jupyter, what was printed and the value of the last expression: as a picture, as HTML, or else as text.
"""

import ast
import base64
import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: In the order of docs/pages.md: for researchers, for operators, for developers of the kernel.
NOTEBOOKS = [ROOT / f"docs/notebook{name}.ipynb" for name in ("", "-operators", "-kernel")]

#: How pandas wants its tables to look; the site has its own way for tables without a class.
_PANDAS = re.compile(
    r' border="\d" class="dataframe"| class="dataframe"|<style scoped>.*?</style>\n', re.DOTALL
)

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """A notebook."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def executed(cells: list[Cell], directory: Path) -> list[Cell]:
    """The cells with what they show when they are run in a directory.

    Raises
    ------
    Exception : whatever a cell raises.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    done: list[Cell] = []
    with contextlib.chdir(directory):
        for cell in cells:
            if cell["cell_type"] == "code":
                number = 1 + sum(one["cell_type"] == "code" for one in done)
                outputs = list(_run(source(cell), names, number))
                done.append({**cell, "execution_count": number, "outputs": outputs})
            else:
                done.append(cell)
    return done


def source(cell: Cell) -> str:
    """What is written in a cell."""
    return "".join(cell["source"])


def _run(text: str, names: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    tree, last = ast.parse(text), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined] # an Expr has one
    place, value = f"cell {number}", None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, place, "exec"), names)
        if last is not None:
            value = eval(compile(last, place, "eval"), names)
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())}
    if value is not None and not text.rstrip().endswith(";"):
        data = {kind: _lines(text) for kind, text in _shown(value).items()}
        yield {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}


def _shown(value: Any) -> dict[str, str]:
    """A value as a notebook shows it, by MIME type."""
    if hasattr(value, "_repr_mimebundle_"):
        found: dict[str, str] = value._repr_mimebundle_()
        return found
    if hasattr(value, "_repr_html_"):
        return {"text/html": value._repr_html_(), "text/plain": repr(value)}
    return {"text/plain": repr(value)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def page(cells: list[Cell]) -> str:
    """A notebook as Markdown with its pictures in it."""
    return "\n\n".join(part for cell in cells for part in _page(cell)) + "\n"


def _page(cell: Cell) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield source(cell)
        return
    yield f"```python\n{source(cell)}\n```"
    for output in cell["outputs"]:
        data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
        if picture := data.get("image/svg+xml"):
            content = base64.b64encode(picture.encode()).decode()
            yield f'<img alt="What the cell shows" src="data:image/svg+xml;base64,{content}">'
        elif html := data.get("text/html"):
            yield f"<div>\n{_PANDAS.sub('', html)}\n</div>"
        else:
            yield f"```text\n{''.join(output.get('text', [])) or data['text/plain']}\n```"


def main() -> None:
    """Run the notebooks and keep what they show."""
    for notebook in NOTEBOOKS:
        found = read(notebook)
        with tempfile.TemporaryDirectory() as directory:
            found["cells"] = executed(found["cells"], Path(directory))
        notebook.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{notebook.relative_to(ROOT)}: {notebook.stat().st_size} bytes")


if __name__ == "__main__":
    main()
