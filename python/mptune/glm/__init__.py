"""The GLM procedure of Wang et al. (IAEAC 2018): a formula for throughput over buffer, and what it rests on.

`equation` is the formula itself. Nothing here measures, reads files or prints.
"""

from mptune.glm.equation import Equation

__all__ = ["Equation"]
