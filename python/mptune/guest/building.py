"""Building a kernel for guests: source, patch, configuration, make, and a first boot.

It takes some minutes, and 2 GB of space that are free again afterwards, unless the tree is kept for the next
build (`mptune.guest.trees`), which then takes seconds. Nothing is installed, and root is not needed. What is
built appears in `mptune.guest.kernels` whole, or not at all.
"""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from mptune.errors import InputError, MptuneError
from mptune.guest import builtin, driver, kernels, machine, sources, trees
from mptune.guest.kernels import Kernel
from mptune.guest.trees import Kept
from mptune.linux.sandbox import syscalls

__all__ = ["CONFIG", "PATCH", "build", "is_current", "lacking", "recipe"]

CONFIG, PATCH = (Path(__file__).with_name(name) for name in ("kernel.config", "virtual.patch"))
#: Programs of a build, and the package of Debian that has each.
PROGRAMS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
}
#: Space that a build takes, bytes.
SPACE = 2_500_000_000
#: Without these a kernel is of no use; others differ from release to release.
_REQUIRED = (
    "UML_TIME_TRAVEL_SUPPORT",
    "HOSTFS",
    "MPTCP",
    "MPTCP_IPV6",
    "INET_MPTCP_DIAG",
    "TUN",
    "NET_NS",
    "USER_NS",
    "HIGH_RES_TIMERS",
)
_HZ = 1000
#: Lines of make that compile or link something.
_STEP = re.compile(r"^\s+(CC|LD|AR|AS|HOSTCC|LINK)\s", re.MULTILINE)
#: Their number, roughly: for the progress alone.
STEPS = 1400

#: Called with what is being done, and the share of it that is done, if that is known.
Progress = Callable[[str, float | None], None]


def recipe() -> str:
    """Digest of what is made of the sources: configuration, patch, congestion controls, and the network."""
    files = (CONFIG, PATCH, *builtin.texts())
    parts = [*(file.read_bytes() for file in files), driver.recipe()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def is_current(kernel: Kernel) -> bool:
    """True if this version of mptune would build it in the same way."""
    return kernel.recipe == recipe()


def lacking() -> list[str]:
    """Packages whose programs are not there."""
    return [package for program, package in PROGRAMS.items() if shutil.which(program) is None]


def build(
    release: str | None = None,
    *,
    source: Path | None = None,
    jobs: int | None = None,
    keep: bool = False,
    progress: Progress,
) -> Kernel:
    """Build a kernel and keep it for guests; one of the same release is replaced.

    Parameters
    ----------
    release : such as "7.3"; with `source` it is what the archive has to be.
    source : an archive of Linux's sources; None takes the distribution's.
    jobs : compilers at a time; None is one a processor.
    keep : keep the tree, and go on with one that was kept: only what has changed is compiled.

    Raises
    ------
    InputError : there is no such release, or the archive is none.
    MptuneError : programs or space are lacking, or a step failed; the message has its last line.
    """
    if missing := lacking():
        raise MptuneError(
            f"mptune kernel build needs {', '.join(missing)}: apt-get install {' '.join(missing)}"
        )
    directory = kernels.directory()
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory):
        tree = _kept_tree(release, source) if keep else None
        return _built(release, source, jobs or os.cpu_count() or 1, progress, keep, tree)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other builds out, and remove what killed ones have left."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MptuneError(f"{directory}: another build is at work") from None
        for pattern in ("build-*", "new-*"):
            for left in directory.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)
        trees.tidy()
        yield


def _kept_tree(release: str | None, source: Path | None) -> Kept | None:
    asked = release if source else release or kernels.DEFAULT
    return trees.find(asked, trees.origin(source), _base())


def _base() -> str:
    """Digest of what a tree is patched and configured with."""
    return hashlib.sha256(CONFIG.read_bytes() + PATCH.read_bytes()).hexdigest()[:16]


def _built(
    release: str | None, source: Path | None, jobs: int, progress: Progress, keep: bool, kept: Kept | None
) -> Kernel:
    directory = kernels.directory()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="build-", dir=directory)))
        if kept is None:
            if (free := shutil.disk_usage(directory).free) < SPACE:
                raise MptuneError(
                    f"{directory}: expected {SPACE / 1e9:.1f} GB free, found {free / 1e9:.1f} GB"
                )
            kept = _prepared(release, source, work, keep, progress)
        # Of what is built here: sources may change meanwhile.
        digests = recipe(), builtin.digest()
        builtin.add(kept.tree)
        driver.add(kept.tree)
        return _made(kept, digests, work, jobs, progress)


def _prepared(release: str | None, source: Path | None, work: Path, keep: bool, progress: Progress) -> Kept:
    """Unpack a tree, patch and configure it; in `work`, or where it is kept."""
    with ExitStack() as stack:
        if source is None:
            progress("fetching", None)
            wanted = stack.enter_context(sources.fetched(release or kernels.DEFAULT, work))
        else:
            wanted = sources.Source(source, source.name)
        tree = sources.unpack(wanted, work / "tree", lambda share: progress("unpacking", share))
    named, version = sources.version_of(tree)
    if release is not None and named != release:
        raise InputError("--source", "", f"expected Linux {release}, found {version}")
    progress("configuring", None)
    with PATCH.open("rb") as patch:
        _step("patch", ["patch", "--strip=1", "--batch", "--fuzz=3"], tree, stdin=patch)
    if keep:
        tree = trees.begin(named, tree)
    # What mptune adds needs no configuration.
    made = Kept(
        release=named,
        source=wanted.name,
        origin=trees.origin(source),
        base=_base(),
        place=str(tree),
    )
    _out(made).mkdir()
    _step("make allnoconfig", [*_make(made), "allnoconfig"], tree)
    _check(_out(made) / ".config")
    if keep:
        trees.finish(made)
    return made


def _out(kept: Kept) -> Path:
    return kept.tree.parent / "out"


def _make(kept: Kept) -> list[str]:
    return ["make", "ARCH=um", f"O={_out(kept)}", f"KCONFIG_ALLCONFIG={CONFIG}"]


def _made(kept: Kept, digests: tuple[str, str], work: Path, jobs: int, progress: Progress) -> Kernel:
    _compile([*_make(kept), f"-j{jobs}", "linux"], kept.tree, lambda share: progress("compiling", share))
    # A guest is nobody, who enters no temporary directory itself, but a directory in it.
    program = work / "new" / kernels.PROGRAM
    program.parent.mkdir()
    _step("strip", ["strip", "-o", str(program), str(_out(kept) / kernels.PROGRAM)], work)
    progress("booting", None)
    facts = machine.facts(program)
    kernel = Kernel(
        release=kept.release,
        version=facts.version,
        source=kept.source,
        recipe=digests[0],
        programs=digests[1],
        compiler=subprocess.run(
            ["gcc", "--version"], capture_output=True, text=True, check=True
        ).stdout.split("\n", 1)[0],
        congestion_controls=tuple(sorted(facts.congestion_controls)),
        schedulers=tuple(sorted(facts.schedulers)),
    )
    return _kept(kernel, program)


def _kept(kernel: Kernel, program: Path) -> Kernel:
    """Put the kernel where it is found, in one step."""
    folder = kernels.directory() / kernel.release
    new = Path(tempfile.mkdtemp(prefix="new-", dir=kernels.directory()))
    new.chmod(0o755)
    shutil.copy(program, new / kernels.PROGRAM)
    (new / kernels.ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(kernel)))
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return kernel


def _check(configuration: Path) -> None:
    """Refuse a configuration in which something essential was lost."""
    lines = set(configuration.read_text().splitlines())
    lost = [name for name in _REQUIRED if f"CONFIG_{name}=y" not in lines]
    if f"CONFIG_HZ={_HZ}" not in lines:
        lost.append(f"HZ={_HZ}")
    if lost:
        raise MptuneError(f"this release's configuration has no {', '.join(lost)}")


def _step(name: str, command: Sequence[str], cwd: Path, **options: object) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise MptuneError(f"{name}: {_last(done.stderr or done.stdout)}")


def _compile(command: Sequence[str], cwd: Path, advance: Callable[[float], None]) -> None:
    """Run make in a group of its own, which an interrupt ends whole."""
    process = subprocess.Popen(
        ["nice", "-n", "10", *command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=syscalls.die_with_parent,
    )
    assert process.stdout is not None
    steps, errors = 0, [""]
    try:
        for line in process.stdout:
            if _STEP.match(line):
                steps += 1
                advance(min(1.0, steps / STEPS))
            elif "rror" in line:
                errors.append(line)
        if process.wait():
            raise MptuneError(f"make linux: {_last(''.join(errors[:5]))}")
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "failed")[:300]
