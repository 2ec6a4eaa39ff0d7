"""Why a connection over all paths is slower than its paths: measured, diagnosed, put into sentences.

    plan: next experiments -> measuring: run(trial) -> evidence -> causes -> diagnosis

`evidence` has the numbers of trials, `plan` decides which experiment is next, `causes` has one file for each
cause, and `diagnose` makes the account of what is missing; all of that is pure. `measuring` runs the
experiments on a testbed within a budget, and `rfc6349` has the figures of that RFC.
"""
