"""What mptune does with the Linux kernel: namespaces, addresses, processes, and what this machine can do.

Nothing here measures or decides. `mptune.testbeds.namespaces` combines these parts; the emulator of the
compiled core and the agent move the packets.
"""
