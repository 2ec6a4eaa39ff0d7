"""pyroute2's message classes without the rest of pyroute2.

`import pyroute2` loads all of it, which takes 0.4 s of a processor, and every trial has two small processes
that only encode some messages: more than everything else takes that a trial needs. Here the package is
entered without its `__init__`. Only for processes of mptune that use nothing but messages.
"""

import importlib.util
import sys
import types


def enter() -> None:
    """Make `pyroute2` importable module by module; without effect if it is loaded already, or missing."""
    if "pyroute2" in sys.modules:
        return
    spec = importlib.util.find_spec("pyroute2")
    if spec is None or spec.submodule_search_locations is None:
        return
    package = types.ModuleType("pyroute2")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules["pyroute2"] = package
