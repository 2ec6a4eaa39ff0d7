"""Parts of mptune that only Linux has."""

import sys

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]
