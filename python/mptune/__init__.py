"""mptune: the best Multipath TCP configuration for a multi-homed host.

The public face of the package. The simulator itself is the Rust core behind `mptune._core`; everything
else is imported from the module that holds it, so that `import mptune` stays cheap.
"""

from mptune._core import version

__all__ = ["__version__", "version"]

#: Version of the package; the Python files and the compiled core always carry the same one.
__version__ = version()
