"""A wheel for another processor, tried by its emulator: `make check-wheel TARGET=aarch64-unknown-linux-gnu`.

    python shipping/emulated_wheel.py WHEEL SITE

SITE is a directory with the wheel and what it needs, unpacked for that processor. Debian's Python 3.11 for it
comes into `target/emulated-PROCESSOR`, where it stays; nothing is installed on this machine. Tried is what
does not depend on the processor's own kernel: the simulator has to give what it gives here, to the byte, and
the agent has to start. An emulator takes no programs that an emulated one starts, so that whole commands with
an agent in them are not tried.

Needs root, debootstrap, dpkg, and qemu-user-static.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Debian's name of a processor.
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
#: The release that has Python 3.11, the oldest that a wheel is for.
SUITE = "bookworm"
PACKAGES = "python3.11,libpython3.11-stdlib"
#: The same on both sides: a trial, its subflows, and its throughput.
PROGRAM = """
import hashlib, mptune
trial = mptune.run("UNIS-HiN", cc="cubic", buffer="1MiB", duration="5s", seed=7)
print(hashlib.sha256(trial.frame().to_csv().encode()).hexdigest(), f"{trial.throughput_mbps:.9f}")
"""


def main(wheel: Path, site: Path) -> None:
    """Try it.

    Raises
    ------
    SystemExit : a program is missing, or the wheel does something else than the package of this machine.
    """
    processor = wheel.stem.rpartition("manylinux_")[2].split("_", 2)[2]
    emulator = _found(f"qemu-{processor}-static", "qemu-user-static")
    root = _system(processor)
    python = [emulator, "-L", str(root), str(root / "usr/bin/python3.11")]
    places = {"PYTHONPATH": str(site), "PYTHONHOME": str(root / "usr")}
    with tempfile.TemporaryDirectory() as home:
        there = _output([*python, "-c", PROGRAM], {**places, "HOME": home})
    here = _output([sys.executable, "-c", PROGRAM], {})
    if there != here:
        sys.exit(f"{wheel.name}: the simulator gives {there} on {processor}, here {here}")
    agent = site / "mptune/_bin/mptune-agent"
    version = _output([emulator, "-L", str(root), str(agent), "--version"], {})
    if version.split()[:1] != ["mptune-agent"]:
        sys.exit(f"{agent}: expected its version, found {version!r}")
    print(f"{wheel.name}: {version}; the simulator gives what it gives here, to the byte")


def _system(processor: str) -> Path:
    """Directory of a Debian with Python for a processor, unpacked and not configured."""
    root = ROOT / f"target/emulated-{processor}"
    if (root / "usr/bin/python3.11").exists():
        return root
    debootstrap = _found("debootstrap", "debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    fresh = root.with_name(f"{root.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = [debootstrap, "--foreign", f"--arch={ARCHITECTURES[processor]}", "--variant=minbase"]
    subprocess.run([*command, f"--include={PACKAGES}", SUITE, fresh], check=True, stdout=subprocess.DEVNULL)
    for package in sorted(fresh.glob("var/cache/apt/archives/*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, fresh], check=True)
    fresh.rename(root)
    return root


def _found(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        sys.exit(f"needs {program}: apt-get install {package}")
    return path


def _output(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: emulated_wheel.py WHEEL SITE")
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
