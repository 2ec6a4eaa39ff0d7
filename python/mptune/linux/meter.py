"""`python -m mptune.linux.meter`: one measurement of traffic between two namespaces (crate mptune-meter)."""

import sys

from mptune._core import meter_main

if __name__ == "__main__":
    sys.exit(meter_main())
