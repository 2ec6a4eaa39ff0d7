"""What mptune does with the Linux kernel: namespaces, addresses, processes, and what this machine can do.

Nothing here measures or decides. The testbed that puts these parts together is
`mptune.testbeds.namespaces`; the packets are moved by the emulator and the meter of the compiled core.
"""
