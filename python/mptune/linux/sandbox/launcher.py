"""`python -m mptune.linux.sandbox.launcher MODULE [NAMESPACE]`: a module of mptune as a process of a trial.

It dies with the program that started it, and is root in the user namespace given by its path, if any.
"""

import os
import runpy
import sys

from mptune.linux.sandbox import syscalls


def main() -> None:
    """Prepare this process and run the module in it."""
    module, *namespaces = sys.argv[1:]
    for namespace in namespaces:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        syscalls.setns(descriptor, syscalls.CLONE_NEWUSER)
        os.close(descriptor)
        syscalls.stay_readable()
    syscalls.die_with_parent()
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
