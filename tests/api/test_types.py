"""The types of `import mptune`, as the checker of a user sees them: complete, and the right ones.

pyright agrees by hand: `pyright --ignoreexternal --verifytypes mptune` finds no unknown type in what
`mptune.__all__` names. It is no dependency here, as its package fetches the program when it is run.
"""

import re
import subprocess
import sys

import mptune
from tests.plugins.needs import ROOT

#: What a user writes. `reveal_type` has the checker say which type it sees.
SCRIPT = """
from pathlib import Path

import mptune

topology: mptune.Topology = mptune.load("UNIS-HiN")
trial = mptune.run(topology, cc="cubic", buffer="1MiB", duration="2s")
reveal_type(trial.throughput_mbps)
reveal_type(trial.frame())
reveal_type(trial.failed)
swept = mptune.sweep(topology, cc=["reno", "cubic"], pm="fullmesh", buffers="1,4", runs=1, duration="1s")
reveal_type(swept)
reveal_type(mptune.optimise("UNIS-HiN", out=Path("run"), progress=True).answer)
reveal_type(mptune.open_run("run").frame())
reveal_type(mptune.impact_factors(topology))
agreement: mptune.Agreement = mptune.compare(topology)
reveal_type(mptune.calibrate)
reveal_type(mptune.fit)
try:
    mptune.load("nowhere")
except mptune.InputError as error:
    reveal_type(error.key)
except mptune.MptuneError as error:
    reveal_type(error.exit_code)
print(mptune.__version__, mptune.version())
"""
#: And what it must not get away with.
WRONG = 'import mptune\nmptune.run("UNIS-HiN", colour="red")\nmptune.load(7)\nmptune.nothing\n'

#: No type of a chart is shown here: without altair's own, which are most, it takes a quarter of the time.
WITHOUT_CHARTS = "[mypy]\n[mypy-altair.*]\nfollow_imports = skip\n"


def checked(tmp_path, text: str) -> tuple[int, str]:
    """Exit status and output of mypy on a script of the user's, with its strictest settings."""
    file, settings = tmp_path / "script.py", tmp_path / "mypy.ini"
    file.write_text(text, encoding="utf-8")
    settings.write_text(WITHOUT_CHARTS, encoding="utf-8")
    cache = f"--cache-dir={ROOT}/target/mypy-user"
    options = ("--strict", f"--config-file={settings}", cache, "--no-error-summary")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_script_of_a_user_has_types_throughout(tmp_path):
    status, output = checked(tmp_path, SCRIPT)
    assert status == 0, output
    revealed = re.findall(r'Revealed type is "(.*)"', output)
    assert len(revealed) == SCRIPT.count("reveal_type(")
    named = dict(zip(re.findall(r"reveal_type\((.*)\)\n", SCRIPT), revealed, strict=True))
    assert not [name for name, kind in named.items() if re.search(r"\bAny\b", kind.split("->")[0])], named
    assert named["trial.frame()"].endswith("pandas.core.frame.DataFrame")
    assert named["swept"] == "mptune.api._records.Run" and named["error.key"].endswith("str")
    unused = {name for name in mptune.__all__ if f"mptune.{name}" not in SCRIPT}
    assert unused <= {"Calibrated", "Fit", "ImpactFactors", "OneTrial", "Run", "StatedFit"}


def test_what_does_not_exist_is_an_error(tmp_path):
    status, output = checked(tmp_path, WRONG)
    lines = {int(line) for line in re.findall(r"script.py:(\d+): error", output)}
    assert status == 1 and lines == {2, 3, 4}, output
