"""Topology files: two multi-homed sites, the core between them, and where every number comes from.

`load` turns a TOML file (or the bare name of a shipped scenario) into a frozen `Topology` of integers:
bit/s, nanoseconds, bytes, parts per billion. Nothing here measures or decides; what the numbers do to
packets is the core's business (`Topology.network` is all it gets to see). The file format is described
in `_schema`, the values a file may leave out in `_defaults`.
"""

from mptune.topology._load import load
from mptune.topology._model import CoreSegment, Interface, Path, Provenance, Site, Topology
from mptune.topology._shipped import shipped

__all__ = ["CoreSegment", "Interface", "Path", "Provenance", "Site", "Topology", "load", "shipped"]
