"""Probing: measure what the paths between two machines are like, in a minute and with a few megabytes.

Interfaces and routes, round trips, rates, losses, queues, packet sizes, address translation, and what becomes
of MPTCP. `course` runs the stages, `estimates` turns samples into numbers, `file` writes the topology.
"""
