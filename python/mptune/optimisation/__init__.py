"""The main job (MPCOA): impact factors, screening, sweep, decision, shortlist, confirmation.

`main_job` runs the steps in order, `by_size` asks for completion times instead of throughput, and
`measurements` decides from a table of anyone's measurements.
"""
