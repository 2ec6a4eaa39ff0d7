"""Fidelity of the simulator to kernels, specifications and the papers."""
