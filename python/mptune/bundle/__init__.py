"""Bundles: everything about a run in one zip file, as an RO-Crate 1.1, for archives and artifact evaluations.

`mptune.bundle.making` writes one, `mptune.bundle.reading` opens one as the run directory that it contains. A
bundle computes nothing and measures nothing.
"""
