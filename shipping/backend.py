"""Builds the package: maturin's PEP 517 hooks, and before them the programs that maturin does not build.

The wheel has four compiled files. The extension is maturin's; `mptune-agent`, the library of `mptune exec`
and the network of guests' kernels (`guest_network.py`; x86-64 alone) are built here, with cargo, into
`python/mptune/_bin`, so that `pip install` of a source distribution gives all of mptune. BPF objects are made
if there are none yet and clang is there; man pages come along where `make man` has written them. Run as a
program it only makes the files of `_bin` (`make agent`).

The variable MPTUNE_WHEEL_TARGET, such as `x86_64-unknown-linux-gnu.2.17`, builds for any Linux with that
version of glibc or a later one, with zig as the linker (`make wheel`). MPTUNE_CARGO_PROFILE names a profile
of Cargo.toml other than `release`: the tests of a wheel take what is compiled already.
"""

import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import guest_network

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "python/mptune/_bin"
BPF_OBJECTS = ROOT / "python/mptune/bpf_objects"
PAGES = ROOT / "man"
#: What pyproject.toml calls the wheel's data: files that go below the prefix of the installation.
DATA = ROOT / "target/wheel-data"
TARGET = "MPTUNE_WHEEL_TARGET"
#: Where `tuned.py` has left a profile of the core, the extension is compiled by it.
PROFILE = "MPTUNE_PROFILE"
#: Crates whose results are files of the package, and those files.
FILES = {"mptune-agent": "mptune-agent", "mptune-preload": "libmptune_preload.so"}
#: The network of guests' kernels: its crate, library, profile of Cargo.toml, and file of the package.
GUEST = ("mptune-guest-network", "libmptune_guest_network.a", "guest", "mptune-guest-network.o")
#: A wheel is compiled by this profile of Cargo.toml instead of `release`.
CARGO_PROFILE = "MPTUNE_CARGO_PROFILE"
#: The profile of whoever works in the sources: compiled sooner than a release, and nearly as fast.
SETUP = "setup"

Settings = Mapping[str, Any] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel; its name."""
    import maturin

    with _for_this_machine():
        prepare(os.environ.get(CARGO_PROFILE, "release"))
        if profile := os.environ.get(PROFILE):
            os.environ.update(with_profile(Path(profile)))
        return str(maturin.build_wheel(wheel_directory, _settings(config_settings), metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel that points to the sources, by the profile of pyproject.toml; its name."""
    import maturin

    prepare(SETUP)
    return str(maturin.build_editable(wheel_directory, _settings(config_settings), metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Pack the sources; the name of the archive."""
    import maturin

    _data()
    return str(maturin.build_sdist(sdist_directory, config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """What an installer asks before it builds."""
    import maturin

    _data()
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Nothing beside what pyproject.toml names: cargo must be there."""
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare(profile: str) -> None:
    """Make every file that the wheel takes as it is."""
    if sys.platform == "linux":
        programs(profile)
    objects()
    _data()


def programs(profile: str) -> None:
    """Build the agent and the library by a profile of Cargo.toml, and put them into the package."""
    if shutil.which("cargo") is None:
        oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
        sys.exit(
            "mptune: cargo, which compiles its programs, is missing: "
            f"install Rust {oldest} or later, or a wheel"
        )
    target, glibc = _target()
    command = ["cargo", "zigbuild" if glibc else "build", f"--profile={profile}", "--locked", "--quiet"]
    command += [f"--package={crate}" for crate in FILES]
    if target:
        command.append(f"--target={target}.{glibc}" if glibc else f"--target={target}")
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), target, profile)
    for file in FILES.values():
        replace((built / file).read_bytes(), PROGRAMS / file)
    _network_of_guests(target)


def _network_of_guests(target: str) -> None:
    """Build the network of guests' kernels for a target; without effect where there are no guests."""
    crate, library, profile, file = GUEST
    if not (target or platform.machine()).startswith("x86_64"):
        (PROGRAMS / file).unlink(missing_ok=True)
        return
    # It is linked by whoever builds a kernel: no glibc is chosen here.
    command = ["cargo", "build", f"--profile={profile}", "--locked", "--quiet", f"--package={crate}"]
    command += [f"--target={target}"] if target else []
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), target, profile)
    replace(guest_network.linked(built / library, ROOT / "crates"), PROGRAMS / file)


def objects() -> None:
    """Compile the BPF programs, unless they came with the sources or there is no clang."""
    if not any(BPF_OBJECTS.glob("*.bpf.o")) and shutil.which("make"):
        subprocess.run(["make", "--silent", "-C", "bpf"], cwd=ROOT, check=True, stdout=sys.stderr)


def _target() -> tuple[str, str]:
    """The target and its oldest glibc; empty for this machine's own."""
    target, _, glibc = os.environ.get(TARGET, "").partition(".")
    return target, glibc


@contextmanager
def _for_this_machine() -> Iterator[None]:
    """Leave this machine's own programs in the sources after the block, whatever it is built for."""
    files = (*FILES.values(), GUEST[-1])
    own = {file: (PROGRAMS / file).read_bytes() for file in files if (PROGRAMS / file).exists()}
    try:
        yield
    finally:
        if any(_target()):
            for file, content in own.items():
                replace(content, PROGRAMS / file)


def _settings(given: Settings) -> dict[str, Any]:
    """Arguments of maturin: the caller's, and where the wheel is to run."""
    settings = dict(given or {})
    target, glibc = _target()
    if profile := os.environ.get(CARGO_PROFILE):
        settings["build-args"] = f"{settings.get('build-args', '')} --profile {profile}".strip()
    if target:
        settings["build-args"] = f"{settings.get('build-args', '')} --target {target}".strip()
    if glibc:
        tag = f"manylinux_{glibc.replace('.', '_')}"
        settings["build-args"] += f" --zig --compatibility {tag}"
    return settings


def with_profile(profile: Path) -> dict[str, str]:
    """Environment in which cargo compiles by a profile; without a word on functions that it does not have."""
    flags = f"-Cprofile-use={profile} -Cllvm-args=-pgo-warn-missing-function=false"
    return {"RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {flags}".strip()}


def _data() -> None:
    """The directory of the wheel's data, with the man pages that there are."""
    shutil.rmtree(DATA, ignore_errors=True)
    pages = DATA / "data/share/man/man1"
    pages.mkdir(parents=True)
    for page in sorted(PAGES.glob("*.1")):
        shutil.copy(page, pages)


def replace(content: bytes, place: Path) -> None:
    """Replace a program that may be running, if it is another one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and place.read_bytes() == content:
        return
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(place)


if __name__ == "__main__":
    try:
        programs(SETUP)
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)  # cargo has printed why
