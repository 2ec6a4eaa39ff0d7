"""pyroute2's message classes without the rest of pyroute2.

`import pyroute2` loads all of it, which takes 0.4 s of processor time, more than everything else in the two
small processes of a trial that only encode some messages. This module makes the package importable without
its `__init__`. It is only for processes of mptune that use nothing but messages.
"""

import importlib.util
import sys
import types


def enter() -> None:
    """Make `pyroute2` importable module by module; no effect if it is already loaded, or missing."""
    if "pyroute2" in sys.modules:
        return
    spec = importlib.util.find_spec("pyroute2")
    if spec is None or spec.submodule_search_locations is None:
        return
    package = types.ModuleType("pyroute2")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules["pyroute2"] = package
