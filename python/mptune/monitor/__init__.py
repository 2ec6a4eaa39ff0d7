"""MPTCP connections at work: what the agent's role `watch` reports, made into rates, limits and rows.

`shape` has the report, `figures` what follows from two or more of them, `limits` what holds a subflow back,
`view` which rows there are and in which order, `columns` their cells. `sources` starts the role, `daemon`
listens to the daemon if there is one. None of these draws anything: that is `mptune.monitor.screen`.
"""
