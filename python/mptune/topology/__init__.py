"""Topology files: two multi-homed sites, the core between them, and where every number comes from.

`load` turns a TOML file (or the bare name of a shipped scenario) into a frozen `Topology` of integers: bit/s,
nanoseconds, bytes, parts per billion. Nothing here measures or decides; the core determines what the numbers
do to packets (it sees only `Topology.network`). The file format is described in `_schema` and, for authors of
such files, in `docs/reference/topology.md`; the values a file may leave out in `_defaults`, the effects of
links in `_effects`, each declared once.
"""

from mptune.topology._checked import from_document
from mptune.topology._defaults import NO_SOURCE
from mptune.topology._effects import Effects, Schedule, Step
from mptune.topology._families import BOTH, FAMILIES, OVER_IPV6, Family
from mptune.topology._flows import Background, TcpBackground, UdpBackground
from mptune.topology._flows import in_words as background_in_words
from mptune.topology._known import Known
from mptune.topology._load import from_tables, load
from mptune.topology._model import Topology
from mptune.topology._names import check_name, coordinate
from mptune.topology._network import Link
from mptune.topology._perturb import perturbed
from mptune.topology._reverse import REVERSED
from mptune.topology._rewritten import Change, rewritten, written
from mptune.topology._shipped import find as file_of
from mptune.topology._shipped import shipped
from mptune.topology._sites import (
    UNKNOWN,
    CoreSegment,
    Interface,
    Path,
    Provenance,
    SharedSegment,
    Site,
    together_bps,
)
from mptune.topology._vary import WRITE, Place, Uncertain, place, uncertain

__all__ = [
    "BOTH",
    "FAMILIES",
    "NO_SOURCE",
    "OVER_IPV6",
    "REVERSED",
    "UNKNOWN",
    "WRITE",
    "Background",
    "Change",
    "CoreSegment",
    "Effects",
    "Family",
    "Interface",
    "Known",
    "Link",
    "Path",
    "Place",
    "Provenance",
    "Schedule",
    "SharedSegment",
    "Site",
    "Step",
    "TcpBackground",
    "Topology",
    "UdpBackground",
    "Uncertain",
    "background_in_words",
    "check_name",
    "coordinate",
    "file_of",
    "from_document",
    "from_tables",
    "load",
    "perturbed",
    "place",
    "rewritten",
    "shipped",
    "together_bps",
    "uncertain",
    "written",
]
