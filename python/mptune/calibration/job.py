"""The calibration itself: trials for many networks, and the answer from the ensemble."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mptune.calibration.likelihood import Floats, Simulated, errors, scales, simulated, trials
from mptune.calibration.options import CalibrationOptions
from mptune.calibration.parameters import Parameter, parameters, with_values
from mptune.calibration.result import WEAKLY, WELL, Calibration, Determined, Fitted, Inferred
from mptune.calibration.sampling import Ensemble, evaluations, posterior, sample
from mptune.errors import InputError
from mptune.runner.progress import Reporter
from mptune.runner.running import Advance, reduce_trials
from mptune.runner.seeds import seed_for
from mptune.table.configured import Measured
from mptune.testbeds import create
from mptune.topology import Topology

#: Ends of an interval, and the width of the prior's interval between them, in standard deviations.
QUANTILES = (0.1, 0.9)
_PRIOR_WIDTH = 2.5631

#: Logarithm of a likelihood ratio that is worth changing values that are not determined.
_WORTH = 1.0


class _Networks:
    """The model: errors of networks, by simulating every row on each."""

    def __init__(
        self,
        topology: Topology,
        rows: Sequence[Measured],
        inferred: Sequence[Parameter],
        options: CalibrationOptions,
        progress: Advance | None,
    ) -> None:
        self.topology, self.rows, self.inferred, self.options = topology, rows, inferred, options
        self.simulated = 0
        self._progress, self._testbed = progress, create("simulated")
        number, sweeps = evaluations(options.budget)
        self._total = number * (5 + sweeps) + 3

    def network(self, u: Floats) -> Topology:
        """The network of parameters."""
        return with_values(
            self.topology, {p: p.value(float(x)) for p, x in zip(self.inferred, u, strict=True)}
        )

    def results(self, networks: Sequence[Topology]) -> list[list[Simulated]]:
        """Every row on every network."""
        seed = seed_for(self.options.seed, "search", 0)
        per_network = len(self.rows)
        planned = [
            trial
            for network in networks
            for trial in trials(network, self.rows, self.options.longest_ns, seed)
        ]
        begun, networks_in_all = self.simulated, max(self._total, self.simulated + len(networks))

        def advance(done: int, total: int, note: str = "") -> None:
            if self._progress is not None and done % per_network == 0:
                self._progress(begun + done // per_network, networks_in_all, note)

        flat = reduce_trials(
            self._testbed,
            planned,
            lambda index, _, observation: simulated(self.rows[index % per_network], observation),
            workers=self.options.jobs,
            progress=advance,
        )
        self.simulated += len(networks)
        return [flat[i : i + per_network] for i in range(0, len(flat), per_network)]

    def __call__(self, members: Floats) -> Floats:
        """Errors of networks: (networks, numbers)."""
        found = self.results([self.network(u) for u in members])
        return np.array([errors(self.rows, results) for results in found])


def calibrate(
    topology: Topology,
    rows: Sequence[Measured],
    options: CalibrationOptions | None = None,
    *,
    data: str = "data",
    reporter: Reporter | None = None,
) -> Calibration:
    """Infer the assumed values of a topology from measurements.

    Parameters
    ----------
    rows : as `mptune.table.configured.read_configured` gives them.
    data : their name in messages and in the calibrated file.
    reporter : shows the progress.

    Returns
    -------
    Calibration
        Incomplete if Ctrl-C came after the first networks. Whether the likeliest network explains the data is
        its `explains`.

    Raises
    ------
    InputError : the topology assumes nothing that could be inferred, or is not known well enough.
    """
    options = options or CalibrationOptions()
    topology.check_known("the simulator")
    inferred = parameters(topology, options.values)
    if not inferred:
        raise InputError(topology.file, "", "expected assumed values to infer, found only published ones")
    with (reporter or Reporter(quiet=True)).phase("calibrating", "networks") as progress:
        model = _Networks(topology, rows, inferred, options, progress)
        widths = scales(rows, options.discrepancy)
        ensemble = sample(
            model, widths, [parameter.quantile for parameter in inferred], options.budget, options.seed
        )
        chosen = _likeliest(ensemble, model, widths)
        return _calibration(model, widths, ensemble, chosen, data)


def _likeliest(ensemble: Ensemble, model: _Networks, widths: Floats) -> Floats:
    """The likeliest parameters, with those that are not determined as stated, unless that fits worse.

    Two values can be undetermined although one of them must differ from the stated one, such as the rates of
    two links in a row.
    """
    best = ensemble.best
    if not ensemble.complete:
        return best
    stated = np.array([parameter.quantile for parameter in model.inferred])
    undetermined = _widths(ensemble) > WEAKLY
    median = np.median(ensemble.members, axis=0)
    candidates = np.array(
        [np.where(undetermined, stated, median), np.where(undetermined, stated, best), best]
    )
    priors = np.where(undetermined, 0.0, candidates)
    found = posterior(priors, model(candidates) / widths)
    found[-1] -= _WORTH
    return np.asarray(candidates[int(np.argmax(found))])


def _widths(ensemble: Ensemble) -> Floats:
    """Width of each interval as a share of the prior's."""
    low, high = np.quantile(ensemble.members, QUANTILES, axis=0)
    return np.asarray((high - low) / _PRIOR_WIDTH)


def _calibration(
    model: _Networks, widths: Floats, ensemble: Ensemble, chosen: Floats, data: str
) -> Calibration:
    topology, options = model.topology, model.options
    shares = _widths(ensemble)
    quantiles = np.quantile(ensemble.members, (QUANTILES[0], 0.5, QUANTILES[1]), axis=0)
    inferred = [
        _inferred(parameter, float(chosen[i]), quantiles[:, i].tolist(), float(shares[i]))
        for i, parameter in enumerate(model.inferred)
    ]
    values = {
        value.key: (parameter, value.number)
        for parameter, value in zip(model.inferred, inferred, strict=True)
        if value.number != parameter.stated
    }
    network = with_values(topology, dict(values.values()))
    nominal, likeliest = model.results([topology, network])
    errors_before, errors_after = errors(model.rows, nominal) / widths, errors(model.rows, likeliest) / widths
    totals = np.cumsum([0] + [1 + len(row.subflows) for row in model.rows])[:-1]
    return Calibration(
        name=topology.name,
        data=data,
        inferred=tuple(inferred),
        fitted=tuple(
            Fitted(
                rows=row.rows,
                configuration=row.named,
                metric=row.metric,
                measured=row.value,
                nominal=nominal[i].value,
                simulated=likeliest[i].value,
                error=float(errors_after[totals[i]]),
            )
            for i, row in enumerate(model.rows)
        ),
        misfit=_root_mean_square(errors_after),
        nominal_misfit=_root_mean_square(errors_before),
        error=float(np.abs(errors_after * widths)[totals].mean()),
        nominal_error=float(np.abs(errors_before * widths)[totals].mean()),
        networks=model.simulated,
        seed=options.seed,
        discrepancy=options.discrepancy,
        complete=ensemble.complete,
        topology=network,
        values=values,
    )


def _inferred(parameter: Parameter, chosen: float, quantiles: Sequence[float], share_: float) -> Inferred:
    low, median, high = (parameter.value(u) for u in quantiles)
    determined: Determined = "well" if share_ <= WELL else "weakly" if share_ <= WEAKLY else "not"
    number = parameter.stated if chosen == parameter.quantile else parameter.value(chosen)
    words: dict[str, Any] = {
        "stated": parameter.words(parameter.stated),
        "value": parameter.words(number),
        "low": parameter.words(low),
        "high": parameter.words(high),
    }
    return Inferred(
        key=parameter.key,
        kind=parameter.kind,
        prior=parameter.prior,
        determined=determined,
        width=share_,
        number=number,
        low_number=low,
        median_number=median,
        high_number=high,
        **words,
    )


def _root_mean_square(scaled: Floats) -> float:
    return float(np.sqrt((scaled**2).mean()))
