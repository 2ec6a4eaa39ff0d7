"""`python -m mptune.linux.emulator`: the network between two sites, in real time (crate mptune-emulator)."""

import sys

from mptune._core import emulator_main

if __name__ == "__main__":
    sys.exit(emulator_main())
