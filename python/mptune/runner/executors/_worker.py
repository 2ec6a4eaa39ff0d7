"""Code for a worker of another machine: trials, by value, if the worker has the same mptune.

A worker of dask calls `run` by its name, with bytes and names as arguments.
"""

import time
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

import mptune
from mptune import _core, testbeds
from mptune.errors import InputError, MptuneError
from mptune.guest import kernels
from mptune.runner.executors._base import observe
from mptune.trial import Trial

#: Folders of the package that make results; the core is added.
_MAKES_RESULTS = ("guest", "path_managers.py", "testbeds", "topology")

_DIGEST_BYTES = 8

_TRIAL = msgspec.msgpack.Decoder(Trial)

#: Outcome of a trial on a worker: a word and its values.
Outcome = tuple[Any, ...]


def identity(testbed: str) -> str:
    """Identity of a testbed's results: mptune (`_mptune`), and the kernel where it runs guests."""
    if not testbeds.own_clock(testbed):
        return _mptune()
    try:
        kernel = kernels.find(testbed.partition(":")[2])
    except MptuneError:
        return f"{_mptune()} without that kernel for guests"
    return f"{_mptune()} with Linux {kernel.version} ({kernel.recipe})"


@cache
def _bed(testbed: str) -> testbeds.Testbed:
    """A testbed for all threads of this worker: guests of one process share its processors."""
    return testbeds.create(testbed)


@cache
def _mptune() -> str:
    """Version of mptune, and a digest of the core and of the modules that make results."""
    folder = Path(mptune.__file__).parent
    files = [Path(str(_core.__file__))]
    for name in _MAKES_RESULTS:
        path = folder / name
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return f"{mptune.__version__} ({digest.hexdigest()})"


def run(expected: str, testbed: str, packed: Sequence[bytes]) -> Outcome:
    """Run trials, one after the other, if this worker's mptune is `expected`.

    Returns
    -------
    A word, this worker's address, and: "done", the packed observations and the seconds that they took;
    "input", the place, key and expectation of the error of an impossible trial; "other", this worker's
    identity.
    """
    from distributed import get_worker

    address = get_worker().address
    if (own := identity(testbed)) != expected:
        return "other", address, own
    begin = time.perf_counter()
    try:
        bed = _bed(testbed)
        observations = [msgspec.msgpack.encode(observe(bed, _TRIAL.decode(trial))) for trial in packed]
    except InputError as error:
        return "input", address, error.where, error.key, error.expected
    return "done", address, observations, time.perf_counter() - begin
