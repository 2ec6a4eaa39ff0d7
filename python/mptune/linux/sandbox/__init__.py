"""Two sites as network namespaces for the time of one trial, and the processes that run in them.

Nothing here knows a trial. Nothing is left behind: namespaces live as long as the process that holds them.
"""
