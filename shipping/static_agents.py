"""Agents that are linked statically, one for each processor, into the package (`make agent-static`).

A program of this kind needs nothing of its machine but the kernel: no C library of some version, no loader,
no program beside it. So it runs on OpenWrt and wherever busybox is all there is. It is compiled by the
profile `small` of Cargo.toml and linked with the C library of the compiler for its processor.

What cannot be built here is named, with what it lacks: Rust's standard library for the target (`rustup target
add`, or Debian's package), a C compiler that links for it, or the static C library. That is no error unless
the processor was asked for by its name: `static_agents.py aarch64`.

MPTUNE_CARGO_PROFILE=dev compiles in a third of the time what is three times as large: enough to test with.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import backend

PROFILE = "small"
#: Largest size of one, bytes: a router has little room, and the agent travels over its uplink.
LARGEST = 3_000_000
#: No library is loaded, the program has one place in memory, and nothing unwinds the stack.
FLAGS = "-Ctarget-feature=+crt-static -Crelocation-model=static -Cforce-unwind-tables=no"


class Target(NamedTuple):
    """Names of a processor: Rust's target, the C compiler that links for it, and Debian's architecture."""

    triple: str
    linker: str
    architecture: str


#: By what `uname -m` says there (`mptune.linux.agent.PROCESSORS`).
TARGETS = {
    "x86_64": Target("x86_64-unknown-linux-gnu", "x86_64-linux-gnu-gcc", "amd64"),
    "aarch64": Target("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", "arm64"),
    "armv7l": Target("armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf-gcc", "armhf"),
}


def lacking(target: Target) -> str | None:
    """What is missing here to build for a target; None if it can be built."""
    asked = ["rustc", "--print", "target-libdir", "--target", target.triple]
    libraries = subprocess.run(asked, cwd=backend.ROOT, capture_output=True, text=True, check=False)
    if libraries.returncode != 0 or not any(Path(libraries.stdout.strip()).glob("libstd-*.rlib")):
        return (
            f"no standard library of Rust for {target.triple} (rustup target add {target.triple}; "
            f"Debian: libstd-rust-dev:{target.architecture})"
        )
    linker = _linker(target)
    if linker is None:
        return f"no {target.linker} (Debian: {_package(target.linker)})"
    asked = [linker, "-print-file-name=libc.a"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        return f"no static C library for {target.triple} (Debian: libc6-dev:{target.architecture})"
    return None


def _linker(target: Target) -> str | None:
    """The C compiler for a target: by its long name, or this machine's own."""
    own = "cc" if target is TARGETS.get(platform.machine()) else target.linker
    return shutil.which(target.linker) or shutil.which(own)


def _package(linker: str) -> str:
    """Debian's package of a compiler."""
    return f"gcc-{linker.removesuffix('-gcc').replace('_', '-')}"


def build(processor: str) -> Path:
    """Build the agent of a processor into the package.

    Raises
    ------
    SystemExit : it is no static program, or too large.
    subprocess.CalledProcessError : it does not compile; cargo has printed why.
    """
    target = TARGETS[processor]
    name = target.triple.upper().replace("-", "_")
    environment = {
        **os.environ,
        f"CARGO_TARGET_{name}_LINKER": _linker(target) or target.linker,
        "RUSTFLAGS": FLAGS,
    }
    place = Path(os.environ.get("CARGO_TARGET_DIR", backend.ROOT / "target"), "static")
    profile = os.environ.get(backend.CARGO_PROFILE, PROFILE)
    command = ["cargo", "build", f"--profile={profile}", "--locked", "--quiet", "--package=mptune-agent"]
    command += ["--no-default-features", f"--target={target.triple}", f"--target-dir={place}"]
    subprocess.run(command, cwd=backend.ROOT, env=environment, check=True, stdout=sys.stderr)
    folder = "debug" if profile == "dev" else profile
    content = (place / target.triple / folder / "mptune-agent").read_bytes()
    if b"/ld-linux" in content[:4096]:
        sys.exit(f"{processor}: the program needs a loader")
    if profile == PROFILE and len(content) > LARGEST:
        sys.exit(f"{processor}: {len(content)} bytes, more than {LARGEST}")
    file = backend.PROGRAMS / f"mptune-agent-{processor}"
    backend.replace(content, file)
    return file


def main(wanted: Sequence[str]) -> int:
    """Build those that are wanted, or all that can be built; 1 if a wanted one cannot be."""
    status = 0
    for processor in wanted or TARGETS:
        if processor not in TARGETS:
            print(f"{processor}: expected one of {', '.join(TARGETS)}", file=sys.stderr)
            return 2
        if (reason := lacking(TARGETS[processor])) is not None:
            print(f"{processor}: not built: {reason}")
            status = 1 if wanted else status
            continue
        file = build(processor)
        print(f"{processor}: {file.relative_to(backend.ROOT)}, {file.stat().st_size / 1e6:.2f} MB")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)  # cargo has printed why
