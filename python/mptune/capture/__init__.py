"""Recordings of trials: every packet at the network's edge, and samples of what the senders thought.

The simulator and the emulator make the same records (`crates/mptune-core/src/recording.rs`), so recordings
can be compared whatever made them. `_model` has what a recording is, `_file` reads and writes files, `series`
makes curves over time. It compares nothing: `mptune.capture.divergence` does. Captures of other programs are
another thing: `mptune.capture.pcap` reads them, `mptune.capture.connections` analyses them, and
`mptune.capture.export` makes one of a recorded run.
"""

from mptune.capture._file import read, write
from mptune.capture._model import (
    ARRIVED,
    FATES,
    PACKET,
    SAMPLE,
    About,
    Recording,
    Run,
    empty_samples,
    packet_type,
    sample_type,
)

__all__ = [
    "ARRIVED",
    "FATES",
    "PACKET",
    "SAMPLE",
    "About",
    "Recording",
    "Run",
    "empty_samples",
    "packet_type",
    "read",
    "sample_type",
    "write",
]
