"""Campaigns: which trials, on all cores, with what seeds, and the directory that keeps the result.

`grid` and `planning` say what to measure, `seeds` with which randomness, `running` does it with
`progress` shown, `records` keeps what each trial gave, and `directory` writes a campaign down. No
statistics and no decisions here.
"""
