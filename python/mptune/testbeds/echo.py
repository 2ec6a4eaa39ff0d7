"""The echo testbed: a toy that shows what adding a testbed takes. It measures nothing.

Every path carries the same fixed throughput, whatever the trial.
"""

from mptune.errors import InputError
from mptune.testbeds._base import BIN_NS, Observation, SubflowObservation, Trial

#: Throughput of each path, bytes per bin of 100 ms: 8 Mbit/s.
_BYTES_PER_BIN = 100_000


class EchoTestbed:
    """Answers at once, with as many trials side by side as there are cores."""

    name = "echo"
    parallel: int | None = None

    def check(self, trial: Trial) -> None:
        """Refuse transfers, as nothing is sent.

        Raises
        ------
        InputError : naming the option.
        """
        if trial.duration_ns is None:
            raise InputError("--transfer", "", f"expected --duration with --testbed {self.name}")

    def run(self, trial: Trial) -> Observation:
        """Give the observation of a trial: a fixed throughput, for as long as it would have taken.

        Raises
        ------
        InputError : the trial is a transfer.
        """
        self.check(trial)
        duration_ns = trial.duration_ns or 0
        labels = [path.label for path in trial.topology.paths]
        size, number = len(labels) * _BYTES_PER_BIN, duration_ns // BIN_NS
        subflows = [
            SubflowObservation(
                path=label,
                active=True,
                bytes=number * _BYTES_PER_BIN,
                srtt_ns=path.base_rtt_ns,
                min_rtt_ns=path.base_rtt_ns,
                retransmitted=0,
                timeouts=0,
                bins=[_BYTES_PER_BIN] * number,
            )
            for label, path in zip(labels, trial.topology.paths, strict=True)
        ]
        return Observation(
            testbed=self.name,
            duration_ns=duration_ns,
            in_order_bytes=number * size,
            bins=[size] * number,
            subflows=subflows,
        )
