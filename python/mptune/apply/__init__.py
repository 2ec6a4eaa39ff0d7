"""From an answer to effect: what a run found, given to programs and machines.

`mptune.apply.plan` says what would be set on which machine, `mptune.apply.advice` what that brings and costs,
and `mptune.apply.files` writes it as files of the system's own kinds. None of them changes anything.
"""
