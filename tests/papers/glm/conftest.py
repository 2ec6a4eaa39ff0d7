"""Measurements made from a known model, for tests of what is found in them."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from mptune.table import Measurement, Measurements

CCS = ("cubic", "olia", "vegas")
PATHS = ("U-U", "U-T", "B-U")
BUFFERS = tuple(1.0 + 3.0 * i for i in range(10))

#: Throughput (Mbit/s) of a buffer (MiB), a congestion control and an initial path.
Model = Callable[[float, str, str], float]


def simulate(
    model: Model,
    *,
    noise: float,
    seed: int,
    runs: int = 1,
    buffers: tuple[float, ...] = BUFFERS,
) -> Measurements:
    """Every combination of levels, with normal errors."""
    rng = np.random.default_rng(seed)
    rows = [
        Measurement(
            row=row,
            throughput_mbps=model(buffer, cc, path) + noise * float(rng.normal()),
            buffer_mib=buffer,
            levels={"cc": cc, "initial_path": path},
        )
        for row, (buffer, cc, path, _) in enumerate(
            itertools.product(buffers, CCS, PATHS, range(runs)), start=2
        )
    ]
    return Measurements(path="data.csv", rows=tuple(rows), factors=("cc", "initial_path"))


@pytest.fixture(name="simulate", scope="session")
def _simulate() -> Callable[..., Measurements]:
    return simulate
