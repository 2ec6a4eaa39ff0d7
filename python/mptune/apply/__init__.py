"""From an answer to effect: what a run found, given to programs and machines.

`mptune.apply.exec` starts one program under the answer and touches nothing else.
"""
