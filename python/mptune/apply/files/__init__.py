"""The settings of a host as files of the system's own kinds, so that they survive a reboot.

Each format has its own file; this one lists them. A format turns the plan of one host into files, and nothing
here installs them: `README` in their folder lists their destinations.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unicodedata import category

from mptune._text import file_name, quoted
from mptune.apply.files import ansible, network_manager, networkd, openwrt, sysctl, systemd, tuned
from mptune.apply.files._base import File
from mptune.apply.plan import HostPlan, check
from mptune.errors import InputError
from mptune.files import write as write_file

__all__ = ["FORMATS", "File", "made", "write"]

#: Every format by its folder.
FORMATS: dict[str, Callable[[HostPlan], list[File]]] = {
    "sysctl.d": sysctl.files,
    "systemd": systemd.files,
    "NetworkManager": network_manager.files,
    "networkd-dispatcher": networkd.files,
    "tuned": tuned.files,
    "openwrt": openwrt.files,
    "ansible": ansible.files,
}

#: Unicode's control and format characters, lone surrogates, and what separates lines.
_NO_TEXT = ("Cc", "Cf", "Cs", "Zl", "Zp")

_INTRODUCTION = """\
Settings of {name} for an answer of mptune. Nothing here is in effect until it is put into place:

{places}

The systemd units, NetworkManager, networkd-dispatcher, the TuneD profile and the scripts of OpenWrt each make
the same endpoints, limits and routes' congestion control: take one of them; OpenWrt reads sysctl.d too. The
role of Ansible puts sysctl.d and the systemd units into place, and with mptune_state=absent removes them.
`mptune apply` sets the same at once, until the next reboot, and takes it back.
"""


def made(host: HostPlan) -> list[File]:
    """All files of a host.

    Raises
    ------
    InputError : the plan has placeholders, or text that could be more than a value in some file.
    MptuneError : it depends on what nobody has read on the machine.
    """
    check(host, read=True)
    _check_texts(host)
    files = [
        File(
            f"{folder}/{each_file.path}", each_file.content, each_file.place, executable=each_file.executable
        )
        for folder, make in FORMATS.items()
        for each_file in make(host)
    ]
    places = "\n".join(f"  {file.path}\n      {file.place}" for file in files)
    text = _INTRODUCTION.format(name=host.name, places=places)
    return [File("README", text.encode(), ""), *files]


def write(hosts: Sequence[HostPlan], directory: Path, *, force: bool = False) -> list[Path]:
    """Write the files of hosts into a directory, a folder for each; all or none.

    Parameters
    ----------
    force : replace a directory of that kind.

    Raises
    ------
    InputError : a plan has placeholders, or the directory has something else in it, or cannot be made.
    MptuneError : a plan depends on what nobody has read on the machine.
    """
    content = {_folder(host): made(host) for host in hosts}
    _check(directory, force=force)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise InputError("--files", "", f"expected a writable place: {error.strerror}: {directory}") from None
    try:
        new = work / "new"
        for folder, files in content.items():
            for file in files:
                path = new / folder / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, file.content)
                path.chmod(0o755 if file.executable else 0o644)
        if directory.exists():
            directory.rename(work / "earlier")
        new.rename(directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [directory / folder / file.path for folder, files in content.items() for file in files]


def _check(directory: Path, *, force: bool) -> None:
    """Refuse to replace what is not ours."""
    if directory.exists() and not directory.is_dir():
        raise InputError("--files", "", f"expected a directory, found the file {directory}")
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    ours = all(
        (entry / "sysctl.d").is_dir() and (entry / "README").is_file() for entry in directory.iterdir()
    )
    if not ours:
        raise InputError(
            "--files", "", f"expected a new or empty directory, found other files in {directory}"
        )
    if not force:
        raise InputError(
            "--files", "", f"expected a new directory, found earlier files in {directory} (--force)"
        )


def _check_texts(host: HostPlan) -> None:
    """Refuse line feeds and their like: every format is made of lines, or of words of a shell."""
    for text in (host.site, host.name, host.ssh, *_texts(host.settings)):
        if text is not None and any(category(letter) in _NO_TEXT for letter in text):
            expected = "expected values without line feeds and other control characters"
            raise InputError("--files", host.site, f"{expected}, found {quoted(text)}")


def _texts(thing: object) -> Iterator[str]:
    """Every text in JSON."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, dict):
        yield from _texts([*thing, *thing.values()])
    elif isinstance(thing, list | tuple):
        for entry in thing:
            yield from _texts(entry)


def _folder(host: HostPlan) -> str:
    """A folder's name for a site."""
    return file_name(host.site, "site")
