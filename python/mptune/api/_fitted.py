"""Results of what is fitted to measurements: a formula, a stated model, a calibrated network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mptune.api._showing import figure_of, frame_of, html_of, line_of
from mptune.api._wording import in_python
from mptune.calibration import Calibration
from mptune.calibration.result import off
from mptune.papers.glm.analysis import Analysis
from mptune.papers.glm.stated import Stated
from mptune.report.charts.published import in_rows
from mptune.report.charts.style import key
from mptune.report.charts.sweep import response
from mptune.report.fit import figure
from mptune.topology import Topology

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

#: Points of a fitted equation in its chart.
_POINTS = 80


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    r"""The formula that the GLM procedure found: Mbit/s over MiB.

    Attributes
    ----------
    analysis : everything that was tried and found.

    Examples
    --------
    >>> import mptune
    >>> from pathlib import Path
    >>> better = {"cubic": 0, "olia": 5}
    >>> rows = [f"{cc},{b},{20 * b - b * b + better[cc]}" for cc in better for b in range(1, 9)]
    >>> _ = Path("data.csv").write_text("\n".join(["cc,buffer_mib,throughput_mbps", *rows]))
    >>> mptune.fit("data.csv").ranking()["cc"].tolist()
    ['olia', 'cubic']
    """

    analysis: Analysis

    @property
    def form(self) -> str:
        """Name of the form of the formula."""
        return self.analysis.best.form

    @property
    def formulas(self) -> dict[str, str]:
        """Formula by path manager and congestion control, as text: T in Mbit/s, B in MiB."""
        return {
            _named(combination): equation.formula()
            for combination, equation in self.analysis.equations.items()
        }

    def frame(self) -> pd.DataFrame:
        """A row per coefficient: name, value, error, t, p, low, high (95 %), robust_error, robust_p (HC3).

        Values, errors and intervals are Mbit/s per power of MiB, as in the formula.
        """
        return frame_of([msgspec.to_builtins(estimate) for estimate in self.analysis.best.estimates()])

    def ranking(self) -> pd.DataFrame:
        """A row per congestion control, best first: throughput_mbps, behind_mbps, p (Holm)."""
        return frame_of([msgspec.to_builtins(rank) for rank in self.analysis.ranking])

    def chart(self) -> alt.ConcatChart:
        """The measurements, and the formula through them."""
        data = self.analysis.measurements.rows
        sizes = [measurement.buffer_mib for measurement in data]
        low, high = min(sizes), max(sizes)
        points: list[dict[str, Any]] = [
            {
                "cc": measurement.levels.get("cc", ""),
                "buffer_mib": measurement.buffer_mib,
                **dict.fromkeys(("mean_mbps", "min_mbps", "max_mbps"), measurement.throughput_mbps),
            }
            for measurement in data
        ]
        curves: list[dict[str, Any]] = [
            {
                "cc": name.cc,
                "buffer_mib": size,
                "predicted_mbps": equation.predict(size),
                "predicted_low_mbps": None,
                "predicted_high_mbps": None,
            }
            for name, equation in self.analysis.equations.items()
            for size in (low + number * (high - low) / (_POINTS - 1) for number in range(_POINTS))
        ]
        colours = key("cc", "congestion control", points, marks=True)
        spec = response(points, curves, colours, top=max(measurement.throughput_mbps for measurement in data))
        return figure_of("fit", f"The {self.form} form", "Measurements and formula.", spec, colours)

    @property
    def _headline(self) -> str:
        quality = self.analysis.best.quality().r_squared
        share = "" if quality is None else f", R² {quality:.3f}"
        return f"The {self.form} form fits best{share}"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        formulas = [f"{name}: {text}" if name else text for name, text in self.formulas.items()]
        warnings = map(in_python("fit"), self.analysis.warnings)
        return html_of(self._headline, self.frame(), formulas, warnings=warnings)


def _named(entry: Any) -> str:
    return ", ".join(part for part in (entry.pm, entry.cc) if part)


class StatedFit(msgspec.Struct, frozen=True, kw_only=True):
    r"""A model that was stated, fitted as PROC GLM of SAS fits it.

    Attributes
    ----------
    stated : everything that was worked out, in the units of the columns (`units`).

    Examples
    --------
    >>> import mptune
    >>> from pathlib import Path
    >>> better = {"cubic": 1, "olia": 4}
    >>> rows = [f"{cc},{b},{better[cc] + 2 * b}" for cc in better for b in (1, 2, 4, 8)]
    >>> _ = Path("data.csv").write_text("\n".join(["cc,buffer_mib,throughput_mbps", *rows]))
    >>> found = mptune.fit("data.csv", model="T ~ B + CC", predict="B=5,CC=olia", solve="T=15,CC=cubic")
    >>> found.predictions()["mean"].round(6).tolist(), found.inverses()["value"].round(6).tolist()
    ([14.0], [7.0])
    """

    stated: Stated

    @property
    def model(self) -> str:
        """The model as it was read, "T ~ B + CC"."""
        return str(self.stated.formula)

    @property
    def r_squared(self) -> float | None:
        """Share of the variance that the model explains; None if the response does not vary."""
        return self.stated.fit.r_squared

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns of the model that have one: Mbit/s and MiB unless others were asked for."""
        names = (self.stated.formula.response, *self.stated.formula.names())
        return {name: unit for name in names if (unit := self.stated.unit(name))}

    def frame(self) -> pd.DataFrame:
        """A row per coefficient: name, value, error, t, p, low, high, robust_error, robust_p (HC3).

        Values, errors and limits are in units of the response per unit of the columns; NaN where the fit has
        no scatter, and for reference levels, whose coefficient is 0.
        """
        return frame_of([msgspec.to_builtins(estimate) for estimate in self.stated.fit.estimates()])

    def tests(self) -> pd.DataFrame:
        """A row per term and type (1 and 3, of SAS): name, type, squares, f, df, df_resid, p."""
        return frame_of(
            [
                {"name": term.name, "type": kind, "squares": squares, **test._asdict()}
                for term in self.stated.terms
                for kind, squares, test in (
                    (1, term.squares_one, term.type_one),
                    (3, term.squares_three, term.type_three),
                )
            ]
        )

    def means(self) -> pd.DataFrame:
        """A row per least-squares mean: the levels, mean, error, low, high, behind, p (Holm).

        In the unit of the response; NaN where the data do not determine it, and p of the largest.
        """
        return frame_of(
            [
                {**mean.levels, **_linear(mean.mean), "behind": mean.behind, "p": mean.p}
                for mean in self.stated.means
            ]
        )

    def predictions(self) -> pd.DataFrame:
        """A row per prediction: numbers and levels, mean, error, low and high of the mean, one_low, one_high.

        The last two are the limits of one further observation. In the unit of the response.
        """
        return frame_of(
            [
                {
                    **prediction.numbers,
                    **prediction.levels,
                    **_linear(prediction.mean),
                    "one_low": prediction.low,
                    "one_high": prediction.high,
                }
                for prediction in self.stated.predictions
            ]
        )

    def inverses(self) -> pd.DataFrame:
        """A row per value that gives a wanted response: wanted, numbers, levels, variable, value, low, high.

        In the units of the columns; value is NaN where the model does not reach the wanted response, and
        reason has why.
        """
        return frame_of(
            [
                {
                    "wanted": inverse.wanted,
                    **inverse.numbers,
                    **inverse.levels,
                    "variable": inverse.variable,
                    "value": inverse.value,
                    "low": inverse.low,
                    "high": inverse.high,
                    "reason": inverse.reason,
                }
                for inverse in self.stated.inverses
            ]
        )

    def chart(self) -> alt.ConcatChart:
        """The fitted curve with its limits, and the residuals."""
        import altair as alt

        chart: alt.ConcatChart = alt.ConcatChart.from_dict(figure(self.stated))
        return chart

    @property
    def _headline(self) -> str:
        share = "" if self.r_squared is None else f" with R² {self.r_squared:.3f}"
        return f"{self.model} explains {len(self.stated.fit.data.y)} observations{share}"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        units = [f"{name} in {unit}" for name, unit in self.units.items()]
        warnings = map(in_python("fit"), self.stated.warnings)
        return html_of(self._headline, self.frame(), ["; ".join(units)] if units else [], warnings=warnings)


def _linear(mean: Any) -> dict[str, float | None]:
    return {"mean": mean.value, "error": mean.error, "low": mean.low, "high": mean.high}


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """A network with what nobody measured of it inferred.

    Attributes
    ----------
    calibration : every value with its interval, every row beside what is simulated, errors before and after.

    Examples
    --------
    >>> import mptune
    >>> mptune.Calibrated.__struct_fields__
    ('calibration',)
    """

    calibration: Calibration

    @property
    def topology(self) -> Topology:
        """The likeliest network, for any function that takes a topology."""
        return self.calibration.topology

    @property
    def complete(self) -> bool:
        """False if Ctrl-C ended it: the network is then the best so far."""
        return self.calibration.complete

    def frame(self) -> pd.DataFrame:
        """A row per value: key, kind, determined, value, low, high, width; stated_text and more for people.

        Numbers are in the topology's units (bit/s, ns, bytes, parts per billion, connections); low and high
        hold the value with 80 %, width is their distance as a share of that before any data.
        """
        return frame_of(
            [
                {
                    "key": value.key,
                    "kind": value.kind,
                    "determined": value.determined,
                    "value": value.number,
                    "low": value.low_number,
                    "high": value.high_number,
                    "width": value.width,
                    "stated_text": value.stated,
                    "value_text": value.value,
                    "low_text": value.low,
                    "high_text": value.high,
                }
                for value in self.calibration.inferred
            ]
        )

    def rows(self) -> pd.DataFrame:
        """A row per measured configuration: configuration, metric, measured, as_stated, calibrated.

        Throughputs in Mbit/s, completion times in s; rows lists the lines of the file.
        """
        return frame_of(
            [
                {
                    "rows": ", ".join(map(str, row.rows)),
                    "configuration": row.configuration,
                    "metric": row.metric,
                    "measured": row.measured,
                    "as_stated": row.nominal,
                    "calibrated": row.simulated,
                }
                for row in self.calibration.fitted
            ]
        )

    def chart(self) -> alt.ConcatChart:
        """Every measured throughput (completion times, if there are only these) beside the simulated ones."""
        fitted = self.calibration.fitted
        metric = "throughput" if any(row.metric == "throughput" for row in fitted) else "completion"
        rows: list[dict[str, Any]] = [
            {
                "name": f"{', '.join(map(str, row.rows))}: {row.configuration}",
                "source": source,
                **dict.fromkeys(("value", "low", "high"), value),
            }
            for row in fitted
            if row.metric == metric
            for source, value in (
                ("measured", row.measured),
                ("as stated", row.nominal),
                ("calibrated", row.simulated),
            )
        ]
        sources = key("source", "numbers", rows, marks=True)
        unit = "Mbit/s" if metric == "throughput" else "s"
        spec = in_rows(rows, f"{metric} ({unit})", sources)
        title = f"{self.calibration.name}, calibrated"
        return figure_of("calibrated", title, self._headline, spec, sources)

    @property
    def _headline(self) -> str:
        error, before = off(self.calibration.error), off(self.calibration.nominal_error)
        return f"{self.calibration.name}: off by {error} on average, {before} as stated"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        columns = ["key", "determined", "stated_text", "value_text", "low_text", "high_text"]
        warnings = [] if self.complete else ["Interrupted: the best network so far."]
        return html_of(self._headline, self.frame()[columns], warnings=warnings)
