"""Probing: what the paths between two machines are like, found out within a minute and a few megabytes.

Interfaces and routes, round trips, rates, losses, queues, packet sizes, address translation, and what becomes
of MPTCP. `course` is what happens, `estimates` what follows from samples, `file` the topology that it makes.
"""
