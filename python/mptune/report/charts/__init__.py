"""Charts of a report, each a single Vega-Lite view that fits whatever width it is given.

Rows in, chart out; which charts a run has, and of which rows, stands in `mptune.report.sections`. Every chart
has one definition, for the page and for the files: ink, paper and legends differ between the two and are
left to `mptune.report.charts.style`.
"""
