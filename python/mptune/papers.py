"""Path managers and congestion controls of the papers (MPCOA section 3): what is varied by default.

Only the names; imports nothing, so that `mptune --help` stays quick.
"""

PMS = ("fullmesh", "pcdc")
CCS = ("cubic", "olia", "hybla", "reno", "scalable", "vegas")
