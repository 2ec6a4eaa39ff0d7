"""Compiles the core for what trials do most: profile-guided optimisation, in three steps.

The extension is compiled with counters, runs a few short trials, and is compiled again by what was counted.
Nothing but its speed changes. The profile fits one version of the sources and of Rust; where it does not,
the compiler goes without. llvm-profdata, which merges the counters, is Rust's own: `rustup component add
llvm-tools`. How the compiler uses the profile: rustc book, "Profile-guided Optimization".

    python shipping/tuned.py                 # profile, then put the tuned extension into python/mptune
    python shipping/tuned.py --profile-only  # prints its path; nothing without llvm-profdata
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

from backend import ROOT, replace, with_profile

WORK = ROOT / "target/profile"
PROFILE = WORK / "core.profdata"
EXTENSION = ROOT / "python/mptune/_core.abi3.so"
MISSING = "llvm-profdata of this Rust is missing (`rustup component add llvm-tools`)"

#: Scenarios with two to eight subflows, with and without shared links, losses and deep queues.
SCENARIOS = ("UNIS-HiN", "SRL-HU", "HU-KRU")
CCS = ("reno", "cubic", "lia", "olia")
#: Scheduler and accounting, as in `mptune.trial.stacks`.
STACKS = (("minrtt", "payload"), ("kernel", "linux"))
BUFFERS = (1 << 20, 16 << 20)
SECONDS = 5


def main() -> None:
    """Profile, and compile by it, as on the command line."""
    parser = argparse.ArgumentParser(description="Compile the core by a profile of trials.")
    parser.add_argument(
        "--profile-only", action="store_true", help="print the profile's path; compile nothing by it"
    )
    parser.add_argument("--train", type=Path, metavar="EXTENSION", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return
    merge = Path(_rustc("target-libdir")).parent / "bin/llvm-profdata"
    if not merge.exists():
        print(f"mptune: not tuned: {MISSING}", file=sys.stderr)
        sys.exit(0 if arguments.profile_only else 2)
    try:
        measure(merge)
        if arguments.profile_only:
            print(PROFILE)
        else:
            replace(_compiled("tuned", with_profile(PROFILE)).read_bytes(), EXTENSION)
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)  # the program has printed why


def measure(merge: Path) -> None:
    """Write the profile of this version of the sources."""
    raw = WORK / "counters"
    shutil.rmtree(raw, ignore_errors=True)
    flags = f"{os.environ.get('RUSTFLAGS', '')} -Cprofile-generate={raw}".strip()
    extension = _compiled("counting", {"RUSTFLAGS": flags})
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([sys.executable, __file__, "--train", extension], env=environment, check=True)
    subprocess.run([merge, "merge", f"--output={PROFILE}", *raw.glob("*.profraw")], check=True)


def train(extension: Path) -> None:
    """Run the trials in this process, with that extension as `mptune._core`."""
    spec = importlib.util.spec_from_file_location("mptune._core", extension)
    if spec is None or spec.loader is None:
        sys.exit(f"mptune: {extension}: not an extension")
    sys.modules["mptune._core"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["mptune._core"])
    from mptune.testbeds.simulated import SimulatedTestbed
    from mptune.topology import load
    from mptune.trial import Bulk, Trial

    testbed = SimulatedTestbed()
    for name, cc, (scheduler, accounting), buffer in product(SCENARIOS, CCS, STACKS, BUFFERS):
        trial = Trial(
            topology=load(name),
            pm="fullmesh",
            cc=cc,
            scheduler=scheduler,
            accounting=accounting,
            buffer_bytes=buffer,
            seed=1,
            workload=Bulk(duration_ns=SECONDS * 1_000_000_000),
        )
        testbed.run(trial)


def _compiled(folder: str, environment: dict[str, str]) -> Path:
    """The extension, compiled in a folder of its own.

    A profile knows functions by names that depend on whether the target is named, as it is for a wheel.
    """
    target = _rustc("host-tuple")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--package=mptune-python"]
    command += [f"--target={target}", f"--target-dir={WORK / folder}"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=sys.stderr)
    return WORK / folder / target / "release/lib_core.so"


def _rustc(asked: str) -> str:
    command = ["rustc", "--print", asked]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
