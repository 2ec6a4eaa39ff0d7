"""The real kernel in virtual time: guests of User Mode Linux, one for each trial.

    building ──> kernels ──> machine ──> boot | inside
    (source, patch, make)    (a trial)   (the process that confines a guest, and what runs in it)

A guest is a process of this machine with a kernel of its own, whose clock advances by what is done in it and
jumps over idle time: the same seed gives the same bytes, however busy this machine is. It needs no root, and
sees this machine's files read-only.

This room builds kernels and runs guests. It knows nothing of topologies and trials: `mptune.testbeds.virtual`
gives a guest its work.
"""
