"""A small sweep, and measurements made elsewhere, for tests of what reads runs."""

CSV = "cc,buffer_mib,throughput_mbps\n" + "".join(
    f"{cc},{size},{min(30, size * 9) + run / 10}\n"
    for cc in ("cubic", "reno")
    for size in (1, 2, 3, 4, 5, 6)
    for run in range(3)
)
SWEEP = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["default"]
cc = ["reno"]
buffers = ["0.1", "0.5"]
[trials]
runs = 2
duration = "500ms"
"""
