"""From an answer to effect: what a run found, given to programs and machines.

`mptune.apply.exec` starts one program under the answer and touches nothing else. `mptune.apply.plan`
derives the settings of each machine, `mptune.apply.advice` their gain, cost and risks, and
`mptune.apply.files` writes them as files of the system's own kinds; none of these three changes anything.
`mptune.apply.apply` makes settings on machines, all or none, and puts them back; `mptune.apply.verify` lets
them stay only if programs gain by them. `mptune.apply.policy` is a run as a policy of mptune's daemon.
"""
