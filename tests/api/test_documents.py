"""Python in the documents: the reference is as generated, the README's example runs."""

import re
from pathlib import Path

from mptune.api.reference import reference

ROOT = Path(__file__).parents[2]


def test_the_reference_is_as_generated():
    assert (ROOT / "docs/reference/python.md").read_text(encoding="utf-8") == reference()


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(code, names)
    trial = names["trial"]
    printed = capsys.readouterr().out
    assert printed.startswith(str(trial.throughput_mbps)) and trial.throughput_mbps > 0
    subflows = trial.frame()["path"]
    assert len(subflows) > 1 and all(path in printed for path in subflows)
    assert (tmp_path / "series.svg").stat().st_size > 0
