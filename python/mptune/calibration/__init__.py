"""Calibration: what of a network was neither published nor measured, inferred from measured throughput.

The simulator is in the loop: networks are drawn from priors over plausible values (`priors`), each row of the
measurements is simulated on them (`likelihood`), and an ensemble of networks moves towards those that explain
the data (`sampling`). The answer is an interval for each value, and the likeliest network (`job`), which
`written` puts into a topology file. Measurements are read in `mptune.table.configured`. The package itself
loads nothing that calculates: `mptune.calibration.job.calibrate` does.
"""

from mptune.calibration.options import CalibrationOptions
from mptune.calibration.result import Calibration, Fitted, Inferred
from mptune.calibration.written import calibrated_text

__all__ = ["Calibration", "CalibrationOptions", "Fitted", "Inferred", "calibrated_text"]
