"""The daemon from Python: start it, ask it, measure again for it, and its units for systemd.

The daemon itself is the agent's role `daemon` (crates/mptune-agent/src/daemon/), which needs no Python.
`program` runs it, `client` speaks with it, `policies` finds in its policy file what Python needs,
`remeasure` renews an answer that no longer holds, `foreground` is `mptune daemon` in a terminal, and `units`
has the units.
"""
