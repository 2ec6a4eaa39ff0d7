"""Results of the face's functions: as records, frames, charts, and notebook output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mptune.api._showing import chart_of, figure_of, frame_of, html_of, line_of
from mptune.api._wording import in_python
from mptune.decision.agreement import Cell, Comparison
from mptune.errors import InputError, one_of
from mptune.impact import Impact
from mptune.report.charts import factors, subflows
from mptune.report.charts.style import key
from mptune.report.sections import sections
from mptune.result.answer import Answer, ImpactSets, ObjectiveAnswer, SizesAnswer
from mptune.result.making import impact_document
from mptune.result.run_data import RunData, TrialRow
from mptune.runner.one_trial import mbps_of_bins, times_line, trial_document
from mptune.store import open_store
from mptune.store.directory import STORE
from mptune.topology import Topology
from mptune.trial import BIN_NS, Observation, Timed, Trial, size_of
from mptune.trial.records import in_ms
from mptune.units import MIB, format_size

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class OneTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial and what was observed.

    Attributes
    ----------
    trial : what was measured: sizes in bytes, times in ns.
    observation : what was found: payload in bytes, times in ns, `bins` of 100 ms.

    Examples
    --------
    >>> import mptune
    >>> one = mptune.run("UiT-HAW", duration="4s")
    >>> one.frame()["path"].tolist()
    ['P-D', 'T-D']
    >>> bool(one.throughput_mbps > 0) and one.completion_s is None
    True
    """

    trial: Trial
    observation: Observation

    @property
    def throughput_mbps(self) -> float:
        """Payload received in order per second over the whole trial, Mbit/s."""
        return self.observation.throughput_bps / 1e6

    @property
    def completion_s(self) -> float | None:
        """Of a transfer, from the first SYN to its last byte in order, s; None for a saturated sender."""
        taken = self.observation.completion_ns
        return None if taken is None else taken / 1e9

    @property
    def times_ms(self) -> tuple[float, ...]:
        """Delay of each message, or time of each response or page, ms; empty of other workloads."""
        return in_ms(self.observation.delays_ns)

    @property
    def failed(self) -> str | None:
        """Why the trial gave no usable number; None if it did."""
        return None if self.observation.failed is None else str(self.observation.failed)

    def as_dict(self) -> dict[str, Any]:
        """The document of `mptune run --json`: Mbit/s, s and ms."""
        return trial_document(self.trial, self.observation)

    def frame(self) -> pd.DataFrame:
        """A row per subflow: path, active, throughput_mbps, rtt_ms, min_rtt_ms, retransmitted, timeouts.

        Throughput is payload delivered first, Mbit/s; the RTT is the smoothed one at the end, ms;
        retransmissions are packets, timeouts a count.
        """
        left_out = ("counters", "series_mbps")
        subflows = self.as_dict()["subflows"]
        return frame_of(
            [{name: subflow[name] for name in subflow if name not in left_out} for subflow in subflows]
        )

    def series(self) -> pd.DataFrame:
        """A row per subflow and 100 ms: subflow, place, t_s, throughput_mbps.

        Subflows have places from 0; t_s is where the 100 ms begin, s; throughput is payload that this
        subflow delivered first, Mbit/s.
        """
        return frame_of(self._series())

    def chart(self) -> alt.ConcatChart:
        """Throughput over time, stacked by subflow."""
        rows = self._series()
        ends: dict[float, float] = {}
        for row in rows:
            ends[row["t_s"]] = ends.get(row["t_s"], 0.0) + row["throughput_mbps"]
        colours = key("subflow", "subflow", rows)
        spec = subflows.stacked(rows, colours, top=max(ends.values(), default=1.0))
        return figure_of("series", self._headline, "Delivered per 100 ms.", spec, colours)

    def _series(self) -> list[dict[str, Any]]:
        observation = self.observation
        return [
            {"subflow": subflow.path, "place": place, "t_s": number * BIN_NS / 1e9, "throughput_mbps": value}
            for place, subflow in enumerate(observation.subflows)
            for number, value in enumerate(mbps_of_bins(subflow.bins, observation.duration_ns))
        ]

    @property
    def _headline(self) -> str:
        trial = self.trial
        how = f"{trial.topology.name}, {trial.pm}, {trial.cc}, {format_size(trial.buffer_bytes)}"
        if self.completion_s is not None:
            return f"{format_size(size_of(trial.workload) or 0)} in {self.completion_s:.3f} s ({how})"
        if isinstance(trial.workload, Timed):
            return f"{times_line(trial, self.observation)} ({how})"
        return f"{self.throughput_mbps:.4g} Mbit/s ({how})"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        return html_of(self._headline, self.frame(), warnings=() if self.failed is None else (self.failed,))


class ImpactFactors(msgspec.Struct, frozen=True, kw_only=True):
    """Impact factors of all subflows under one congestion control, and the sets that follow.

    Attributes
    ----------
    topology : what was measured.
    impact : the factors (no unit: shares of the throughput), their statistics, the decisions, the warnings.

    Examples
    --------
    >>> import mptune
    >>> found = mptune.impact_factors("UiT-HAW", runs=2, duration="2s")
    >>> sorted(found.optional + found.standby)
    ['P-D', 'T-D']
    """

    topology: Topology
    impact: Impact

    @property
    def optional(self) -> tuple[str, ...]:
        """Labels of the subflows that contribute."""
        return self.impact.sets.optional

    @property
    def standby(self) -> tuple[str, ...]:
        """Labels of the others, the first to take over first."""
        return self.impact.sets.standby

    def as_dict(self) -> dict[str, Any]:
        """The document of `mptune impact --json`: factors without unit, RTTs in ms."""
        return impact_document(self.impact)

    def frame(self) -> pd.DataFrame:
        """A row per path: carries_data, decision, mean, median, min, max, q10, q90, low, high, rtt_ms.

        From mean to q90 they are statistics of the factor over the runs, low and high are the interval that
        decided: shares without unit, NaN where there was no number. RTTs are in ms.
        """
        return frame_of(self._rows())

    def chart(self) -> alt.ConcatChart:
        """Impact factors with minimum, maximum and the quantiles of 10 and 90 %."""
        rows = [row for row in self._rows() if row["mean"] is not None]
        colours = key("cc", "congestion control", rows)
        lead = "Share of the throughput that is lost without the subflow; filled: it carries data."
        title = f"{self.topology.name}: impact factors"
        return figure_of("omegas", title, lead, subflows.omegas(rows, colours), colours)

    def _rows(self) -> list[dict[str, Any]]:
        names = ("mean", "median", "min", "max", "q10", "q90")
        return [
            {
                "path": path.path,
                "cc": self.impact.cc,
                "carries_data": path.path in self.optional,
                "decision": path.decision,
                **{name: None if path.omega is None else getattr(path.omega, name) for name in names},
                "low": path.low,
                "high": path.high,
                "rtt_ms": path.rtt_ms,
            }
            for path in self.impact.paths
        ]

    @property
    def _headline(self) -> str:
        return f"{self.topology.name}, {self.impact.cc}: send on {', '.join(self.optional)}"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        columns = self.frame()[["path", "carries_data", "decision", "mean", "low", "high", "rtt_ms"]]
        return html_of(
            self._headline, columns, warnings=map(in_python("impact_factors"), self.impact.warnings)
        )


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The same configurations in the simulator and on a kernel.

    Attributes
    ----------
    topology : what was measured.
    comparison : both throughputs of every configuration (Mbit/s), and how well they agree.

    Examples
    --------
    >>> import mptune
    >>> mptune.Agreement.__struct_fields__
    ('topology', 'comparison')
    """

    topology: Topology
    comparison: Comparison

    def frame(self) -> pd.DataFrame:
        """A row per configuration: pm, cc, buffer_bytes, simulated_mbps, kernel_mbps, error.

        Throughputs are means of the runs that gave a number, Mbit/s; the error is the simulated one relative
        to the kernel's, minus 1. NaN where there is none.
        """
        return frame_of(
            [
                {
                    "pm": row.pm,
                    "cc": row.cc,
                    "buffer_bytes": row.buffer_bytes,
                    "simulated_mbps": row.simulated.throughput_mbps,
                    "kernel_mbps": row.kernel.throughput_mbps,
                    "error": row.error,
                }
                for row in self.comparison.rows
            ]
        )

    def chart(self) -> alt.ConcatChart:
        """Throughput over buffer with the range of the runs, a line per testbed and configuration."""
        rows: list[dict[str, Any]] = []
        for row in self.comparison.rows:
            cells: tuple[tuple[str, Cell], ...] = (("simulated", row.simulated), ("kernel", row.kernel))
            for side, cell in cells:
                if cell.throughput_mbps is not None:
                    rows.append(
                        {
                            "configuration": f"{row.pm}, {row.cc}, {side}",
                            "buffer_mib": row.buffer_bytes / MIB,
                            "mean_mbps": cell.throughput_mbps,
                            "low_mbps": cell.low_mbps,
                            "high_mbps": cell.high_mbps,
                        }
                    )
        colours = key("configuration", "configuration", rows, marks=True)
        spec = factors.by_buffer(rows, colours, top=max((row["high_mbps"] for row in rows), default=1.0))
        title = f"{self.topology.name}: simulator and kernel"
        return figure_of("agreement", title, "Mean and range of the runs.", spec, colours)

    @property
    def _headline(self) -> str:
        median = self.comparison.median_error
        error = (
            "no configuration gave a number on both sides" if median is None else f"median error {median:.1%}"
        )
        return f"{self.topology.name}: {error}"

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        reasons = [
            f"{row.pm}, {row.cc}, {format_size(row.buffer_bytes)}, {side}: {cell.reason}"
            for row in self.comparison.rows
            for side, cell in (("simulated", row.simulated), ("kernel", row.kernel))
            if cell.reason
        ]
        return html_of(self._headline, self.frame(), warnings=reasons)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: of `optimise`, of `sweep`, or a run directory opened again.

    Attributes
    ----------
    data : the documents and trials of the run directory.
    subflow_rows : a row per trial and subflow, in the order of the trials.

    Examples
    --------
    >>> import mptune
    >>> swept = mptune.sweep("UiT-HAW", pm="fullmesh", cc="cubic", buffers="1MiB", runs=2, duration="2s")
    >>> (len(swept.frame()), swept.answer)
    (2, None)
    >>> "over-time" in swept.figures
    True
    """

    data: RunData
    subflow_rows: tuple[dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Of the topology, or of the file of measurements."""
        return self.data.name

    @property
    def topology(self) -> Topology | None:
        """The topology; None if only measurements were given."""
        return self.data.topology

    @property
    def answer(self) -> Answer | None:
        """The answer (MiB, Mbit/s, 95 % intervals); None for a sweep, and for the two other kinds."""
        return self.data.answer

    @property
    def answer_by_size(self) -> SizesAnswer | None:
        """The answer for each size of transfer (bytes, s), if that was asked for."""
        return self.data.by_size

    @property
    def answer_by_objective(self) -> ObjectiveAnswer | None:
        """The answer for a workload (bytes; its figures have units of their own), if that was asked for."""
        return self.data.by_objective

    @property
    def impact(self) -> tuple[ImpactSets, ...]:
        """Impact factors and sets by congestion control; empty if none were measured."""
        return self.data.impact

    @property
    def trials(self) -> tuple[TrialRow, ...]:
        """Every trial, in the order asked for."""
        return self.data.trials

    def frame(self) -> pd.DataFrame:
        """A row per trial, in the order asked for; columns carry their units.

        Among them purpose (impact, sweep, confirm, ...), run, pm and manager (the path manager without and
        with its subflows), cc, buffer_mib, throughput_mbps, completion_s (of transfers), p99_ms (delays
        of messages, times of responses or pages), failed (the reason), and started (s since 1970).
        """
        left_out = ("key", "subflows", "failed", "workload")
        names = [name for name in TrialRow.__struct_fields__ if name not in left_out]
        return frame_of(
            [
                {
                    **{name: getattr(trial, name) for name in names},
                    "subflows": " ".join(trial.subflows),
                    "failed": None if trial.failed is None else str(trial.failed),
                }
                for trial in self.trials
            ]
        )

    def subflows(self) -> pd.DataFrame:
        """A row per trial and subflow: trial, number, path, active, throughput_mbps, rtt_ms, retransmitted.

        trial is the row of `frame()`, for joins; retransmissions are packets. Empty where there is no store.
        """
        return frame_of(list(self.subflow_rows))

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that `chart` draws, the most useful first."""
        return tuple(section.name for section in sections(self.data) if section.panels)

    def chart(self, figure: str | None = None) -> alt.ConcatChart:
        """A figure of the report.

        Parameters
        ----------
        figure : one of `figures`; None is the first.

        Raises
        ------
        InputError : there is no such figure.
        """
        by_name = {section.name: section for section in sections(self.data) if section.panels}
        chosen = next(iter(by_name), "") if figure is None else figure
        if chosen not in by_name:
            raise InputError("figure", "", one_of(by_name, figure))
        return chart_of(by_name[chosen])

    @property
    def _answered(self) -> Answer | SizesAnswer | ObjectiveAnswer | None:
        return self.answer or self.answer_by_size or self.answer_by_objective

    @property
    def _headline(self) -> str:
        answer = self._answered
        return f"{self.name}: {len(self.trials)} trials" if answer is None else answer.answer[0]

    def __repr__(self) -> str:
        return line_of(self, self._headline)

    def _repr_html_(self) -> str:
        answer = self._answered
        if answer is None:
            return html_of(self._headline, self._means())
        if self.answer_by_objective is not None:
            frame = self._figures(self.answer_by_objective)
        else:
            frame = self._means() if self.answer is None else self._confirmed(self.answer)
        words = in_python("optimise")
        return html_of(
            self._headline, frame, map(words, answer.answer[1:]), warnings=map(words, answer.warnings)
        )

    def _means(self) -> pd.DataFrame:
        """Means over the runs of each configuration: completion times (s), p99 (ms), or throughputs."""
        frame = self.frame()
        if frame.empty:
            return frame
        by, value = ["manager", "cc", "buffer_mib"], "throughput_mbps"
        if frame["transfer_bytes"].notna().any():
            by, value = ["transfer_bytes", *by], "completion_s"
        elif frame["p99_ms"].notna().any():
            value = "p99_ms"
        means = frame.groupby(by, sort=False)[value].agg(["mean", "min", "max", "count"])
        return means.rename(columns={"mean": value, "count": "runs"}).reset_index()

    def _figures(self, answer: ObjectiveAnswer) -> pd.DataFrame:
        """The figures of the recommendation and of the default, each in its unit."""
        return frame_of(
            [
                {
                    "": f"{figure.name} ({figure.unit})",
                    **{
                        f"{name}{end}": value
                        for name, pair in (
                            ("recommended", figure.recommended),
                            ("default", figure.default),
                            ("better by", figure.gain),
                        )
                        for end, value in (("", pair.mean), (", low", pair.low), (", high", pair.high))
                    },
                }
                for figure in (*answer.figures, answer.throughput)
            ]
        )

    def _confirmed(self, answer: Answer) -> pd.DataFrame:
        """The confirmed configurations, Mbit/s."""
        return frame_of(
            [
                {
                    "": name,
                    "path manager": manager,
                    "CC": cc,
                    "buffer (MiB)": buffer_mib,
                    "mean (Mbit/s)": pair.mean,
                    "low": pair.low,
                    "high": pair.high,
                    "runs": pair.runs,
                }
                for name, manager, cc, buffer_mib, pair in answer.confirmed_ones()
            ]
        )


def of_directory(directory: Path, data: RunData) -> Run:
    """A run with what its store has of subflows."""
    if not (directory / STORE).is_file():
        return Run(data=data)
    with open_store(directory / STORE, write=False) as store:
        rows = [
            *store.rows("SELECT trial.key, subflow.* FROM subflow JOIN trial ON trial.id = subflow.trial")
        ]
    # The store numbers trials as they end, which is never the same twice.
    places = {trial.key: place for place, trial in enumerate(data.trials)}
    placed = [{**row, "trial": places[key]} for row in rows if (key := row.pop("key")) in places]
    return Run(data=data, subflow_rows=tuple(sorted(placed, key=lambda row: (row["trial"], row["number"]))))
