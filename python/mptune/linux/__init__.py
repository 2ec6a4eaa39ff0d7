"""The Linux side of mptune: namespaces, addresses, processes, and this machine's abilities.

Nothing here measures or decides. `mptune.testbeds.namespaces` combines these parts; the emulator of the
compiled core and the agent move the packets.
"""
