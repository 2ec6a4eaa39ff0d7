"""Charts of a report, each a single Vega-Lite view that fits any width.

Rows in, chart out; `mptune.report.sections` decides which charts a run has, and of which rows. Every chart
has one definition for the page and for the files; ink, paper and legends differ between the two and are left
to `mptune.report.charts.style`.
"""
