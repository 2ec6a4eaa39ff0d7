"""From an answer to effect: what a run found, given to programs and machines.

`mptune.apply.apply` makes settings on machines, all or none, and puts them back.
"""
