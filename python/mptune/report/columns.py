"""Column names for people: words and a unit, for tables, axes and tooltips.

A column's name ends in its unit, as in the exported files; the words match the docs.
"""

#: Units as column names end in them, and as people write them.
_UNITS = {
    "mbps": "Mbit/s",
    "mib": "MiB",
    "kib": "KiB",
    "ms": "ms",
    "s": "s",
    "min": "min",
    "h": "h",
    "percent": "%",
}

#: Words that differ from the column's name.
_WORDS = {
    "pm": "path manager",
    "manager": "path manager",
    "cc": "congestion control",
    "q10": "10 % quantile",
    "q90": "90 % quantile",
    "min": "minimum",
    "max": "maximum",
    "low": "95 % from",
    "high": "95 % to",
    "r_squared": "R-square",
    "n": "observations",
    "rtt": "RTT",
    "base_rtt": "RTT, empty queues",
    "smallest_rtt": "smallest RTT",
    "min_rtt": "RTT, minimum",
    "max_rtt": "RTT, maximum",
    "again_per_mb": "retransmitted, segments per MB",
    "min_again_per_mb": "retransmitted, minimum",
    "max_again_per_mb": "retransmitted, maximum",
    "retransmitted": "retransmitted segments",
    "again_per_s": "retransmitted, segments per s",
    "q25": "25 % quantile",
    "q75": "75 % quantile",
    "transfer_bytes": "transfer (bytes)",
    "predicted_low": "95 % from",
    "predicted_high": "95 % to",
    "room": "may miss",
    "buffer_low": "buffer, 95 % from",
    "buffer_high": "buffer, 95 % to",
    "throughput_low": "throughput, 95 % from",
    "throughput_high": "throughput, 95 % to",
}


def heading(name: str) -> str:
    """Heading of a column: `mean_mbps` is "mean (Mbit/s)"."""
    if name in _WORDS:
        return _WORDS[name]
    stem, _, unit = name.rpartition("_")
    if not stem or unit not in _UNITS:
        return name.replace("_", " ")
    return f"{_WORDS.get(stem, stem.replace('_', ' '))} ({_UNITS[unit]})"
