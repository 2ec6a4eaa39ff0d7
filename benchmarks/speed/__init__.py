"""Speed of the simulator, the emulator, the store and the report."""
