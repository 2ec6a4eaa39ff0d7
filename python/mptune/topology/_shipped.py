"""The scenario files that come with mptune, and how a name on the command line becomes a file.

In a clone they are `scenarios/` beside `python/`; in an installed wheel they are packed inside the
package. This module does not look inside them.
"""

from difflib import get_close_matches
from pathlib import Path

from mptune._text import bounded
from mptune.errors import InputError

#: Most characters of the names of scenarios in an error.
_LISTED = 80

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = (_PACKAGE / "scenarios", _PACKAGE.parents[1] / "scenarios")


def shipped() -> list[str]:
    """Names of the shipped scenarios, sorted; `mptune.topology.load` accepts them."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def find(name: str | Path) -> Path:
    """File of a topology: an existing path, or the name of a shipped scenario.

    Raises
    ------
    InputError : neither, or not a possible file name.
    """
    path = Path(name)
    try:
        if path.exists() or path.is_symlink():
            return path
    except OSError as error:  # not a possible file name
        raise InputError(str(name), "", f"expected a readable file: {error.strerror}") from None
    stem = str(name).removesuffix(".toml")
    if stem in shipped():
        return _folder() / f"{stem}.toml"
    near = get_close_matches(stem, shipped(), 1)
    known = f"did you mean {near[0]}?" if near else bounded(", ".join(shipped()), _LISTED)
    raise InputError(str(name), "", f"expected a topology file or a shipped scenario ({known})")


def _folder() -> Path:
    return next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])
