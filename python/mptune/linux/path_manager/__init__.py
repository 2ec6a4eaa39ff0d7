"""The kernel's own path manager: the subflows that come up between two ends, and the settings for others.

    settings of both ends -> predict -> subflows, and why others do not come up -> mend -> lines for a shell
    a wanted set -> nearest -> endpoints

Nothing here touches a machine.
"""

from mptune.linux.path_manager.commands import commands
from mptune.linux.path_manager.ends import NAMES, End, Endpoint, Limits, Network, end_of
from mptune.linux.path_manager.mending import Mended, mend
from mptune.linux.path_manager.prediction import Prediction, Subflow, predict

__all__ = [
    "NAMES",
    "End",
    "Endpoint",
    "Limits",
    "Mended",
    "Network",
    "Prediction",
    "Subflow",
    "commands",
    "end_of",
    "mend",
    "predict",
]
