"""Options in words."""

from mptune.report.settings import in_words


def test_names_lose_their_units_and_values_get_them() -> None:
    options = {
        "duration_ns": 30_000_000_000,
        "buffers": [1048576 * i for i in range(1, 61)],
        "ccs": ["cubic", "reno"],
        "on_grid": False,
        "every_ns": None,
        "transfers": [],
        "impact": {"window_ns": 500_000_000, "buffer_bytes": 16777216, "runs": 10},
    }
    assert in_words(options) == {
        "duration": "30 s",
        "buffers": "60 values, 1 MiB to 60 MiB",
        "ccs": "cubic, reno",
        "on grid": "no",
        "every": "none",
        "transfers": "none",
        "impact window": "500 ms",
        "impact buffer": "16 MiB",
        "impact runs": "10",
    }
