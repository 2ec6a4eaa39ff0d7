"""`python -m mptune.linux.sandbox.enter PARENT NETNS USERNS COMMAND...`: becomes a program in a namespace.

It has the process number that its parent knows, keeps its standard input and output, and dies with the thread
that started it. USERNS is "-" for the present one.
"""

import os
import sys

from mptune.linux.sandbox import syscalls


def main() -> None:
    """Enter, and become the program."""
    parent, network, user, *command = sys.argv[1:]
    for path, kind in ((user, syscalls.CLONE_NEWUSER), (network, syscalls.CLONE_NEWNET)):
        if path != "-":
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            syscalls.setns(descriptor, kind)
            os.close(descriptor)
    syscalls.die_with_parent()
    if os.getppid() != int(parent):
        sys.exit(1)  # it ended before
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
