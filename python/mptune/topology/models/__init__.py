"""Models of links that nobody has measured for you: one file per model, with its papers and their numbers.

To add a model, write `<name>.py` and its name in `_effects.Effects.model`.
"""

from mptune.topology.models._process import Model, Moment
from mptune.topology.models.mobile5g import Mobile5g
from mptune.topology.models.starlink import Starlink
from mptune.topology.models.wifi import Wifi

__all__ = ["Mobile5g", "Model", "Moment", "Starlink", "Wifi"]
