"""Routes of a topology's paths over time: traced between its hosts, kept in a file, and compared.

`tracing` asks the hosts, `snapshots` has what they answered and what changed between two answers, `keeping`
the file and the intervals, `networks` the autonomous systems and places that a file of the user gives. How
one route is traced is the business of `mptune.probe`.
"""
