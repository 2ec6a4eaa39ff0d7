"""Path managers, congestion controls and buffers of the papers (MPCOA section 3), the default factors."""

from mptune.units import MIB

PMS = ("fullmesh", "pcdc")
CCS = ("cubic", "olia", "hybla", "reno", "scalable", "vegas")
#: 0.5 to 30 MiB in steps of 0.5, bytes.
BUFFERS = tuple(range(MIB // 2, 30 * MIB + 1, MIB // 2))
