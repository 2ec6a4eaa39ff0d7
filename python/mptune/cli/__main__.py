"""`python -m mptune.cli`: the same as the `mptune` command."""

from mptune.cli import main

main()
