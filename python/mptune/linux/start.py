"""`python -m mptune.linux.start MODULE [NAMESPACE]`: run a module of mptune as a helper process of a trial.

It dies with the program that started it, it is root in the user namespace, given by its path, where there is
one, and it has of pyroute2 what it asks for and no more.
"""

import os
import runpy
import sys

from mptune.linux import _pyroute2, _syscalls


def main() -> None:
    """Prepare this process and become the module's."""
    module, *namespaces = sys.argv[1:]
    for namespace in namespaces:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        _syscalls.setns(descriptor, _syscalls.CLONE_NEWUSER)
        os.close(descriptor)
        _syscalls.stay_readable()
    _syscalls.die_with_parent()
    _pyroute2.enter()
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
