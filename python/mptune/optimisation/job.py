"""Common state of the main job's steps: the question, the testbed, and the impact factors' conclusions.

Each step has its own module; `mptune.optimisation.main_job` runs them in order, `by_size` uses some of them
for another question. Nothing is decided here.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from mptune.errors import InputError
from mptune.impact import SubflowSets
from mptune.optimisation.candidates import brief_ns
from mptune.optimisation.options import DEFAULT_CC, DEFAULT_PM, OptimiseOptions
from mptune.options.trials import USUAL_PMS
from mptune.runner.planning import plan_run, plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.runner.running import Advance
from mptune.testbeds import Today, congestion_controls, only_stack
from mptune.topology import Topology
from mptune.trial import (
    FIXED,
    Bulk,
    Combination,
    Configuration,
    Described,
    Mix,
    Programs,
    Record,
    Transfer,
    Workload,
)
from mptune.trial.stacks import DEFAULT_STACK, STACKS
from mptune.units import MIB, format_size

#: Buffers that a response model wants at least.
_FEWEST = 3


@dataclass(frozen=True)
class Job:
    """The common ground of the steps.

    Attributes
    ----------
    round_ : of a campaign that is repeated over time.
    sets : PCDC's by congestion control, once the impact factors are known.
    transfer : what is asked for is its completion; None asks for the throughput of a saturated sender.
    sent : what is asked for is a metric of this workload.
    receive_bytes : limit of the receiver's buffer where only the sender's is searched; None where both have
        the same size.
    most_bytes : the largest fixed buffer that a host's memory for TCP has room for; None where buffers grow.
    most_default_bytes : the same where only the default has fixed buffers.
    too_large : buffers of the question that are larger, which are left out.
    """

    topology: Topology
    runner: TrialRunner
    options: OptimiseOptions
    reporter: Reporter
    round_: int = 0
    sets: Mapping[str, SubflowSets] = field(default_factory=dict)
    transfer: Transfer | None = None
    sent: Described | None = None
    receive_bytes: int | None = None
    most_bytes: int | None = None
    most_default_bytes: int | None = None
    too_large: tuple[int, ...] = ()

    @classmethod
    def on(
        cls,
        topology: Topology,
        runner: TrialRunner,
        options: OptimiseOptions,
        reporter: Reporter | None = None,
        round_: int = 0,
    ) -> "Job":
        """The job on a testbed.

        Where only the sender's buffer is searched, the receiver's grows to what the host allows today, and no
        less than the largest buffer of the search: it takes memory only for data that wait for others, and
        where it is full the fast paths stop. Fixed buffers take theirs whatever is needed, so those that
        exceed a host's (`mptune.trial.memory`) are left out; others take their place
        where too few are left.

        Raises
        ------
        MptuneError : a host cannot be reached.
        """
        job = cls(topology, runner, options, reporter or Reporter(quiet=True), round_)
        if not options.grows_at_sender and options.mode_of_trials != FIXED:
            return job
        today = job.today
        most = today.fixed_bytes
        if options.grows_at_sender:
            receive_bytes = max(today.receive_bytes, *options.buffers)
            return replace(job, receive_bytes=receive_bytes, most_default_bytes=most)
        sizes = tuple(size for size in options.buffers if size <= most)
        if len(sizes) < min(_FEWEST, len(options.buffers)):
            sizes = tuple(sorted({*sizes, most // 4, most // 2, most}))
        return replace(
            job,
            options=msgspec.structs.replace(options, buffers=sizes),
            most_bytes=most,
            too_large=tuple(size for size in options.buffers if size > most),
        )

    @cached_property
    def today(self) -> Today:
        """What the hosts do without an answer, read at the first use."""
        return self.runner.testbed.today(self.topology, msgspec.structs.asdict(self.options.stack.chosen()))

    @property
    def todays_cc(self) -> str:
        """Congestion control of the hosts, or the default one for one that trials cannot have."""
        cc = self.today.cc
        return cc if cc in congestion_controls() else DEFAULT_CC

    def refusal(self, configurations: Sequence[Configuration]) -> str:
        """Why the testbed cannot have these; empty if it can."""
        for configuration in configurations:
            planned = plan_run(self.topology, configuration, purpose="screen", run=0, base_seed=0)
            try:
                self.runner.testbed.check_there(planned.trial)
            except InputError as error:
                return str(error)
        return ""

    def may_have(self, buffer_bytes: int) -> bool:
        """True if hosts have the memory for a buffer of this size."""
        return self.most_bytes is None or buffer_bytes <= self.most_bytes

    @property
    def left_out(self) -> list[str]:
        """That buffers of the question are left out, as a sentence, if there are any."""
        return self._ruled_out() if self.too_large else []

    def limit_of(self, buffer_bytes: int) -> list[str]:
        """The same, and also where larger buffers than the answer's were not tried."""
        near = self.most_bytes is not None and 1.5 * buffer_bytes > self.most_bytes
        return self._ruled_out() if near else self.left_out

    def _ruled_out(self) -> list[str]:
        assert self.most_bytes is not None
        return [
            f"Fixed buffers of more than {format_size(self.most_bytes, 3)} are ruled out: a connection would "
            "exceed a host's memory for TCP (net.ipv4.tcp_mem), which costs throughput."
        ]

    def of_size(self, transfer_bytes: int) -> "Job":
        """The same job for transfers of one size."""
        return replace(self, transfer=Transfer(bytes=transfer_bytes))

    @property
    def mptcp(self) -> Topology:
        """The network that is left to MPTCP; plain TCP has all of it."""
        return self.topology.for_mptcp()

    @property
    def optional(self) -> dict[str, tuple[str, ...]]:
        """The set that PCDC has of itself, by congestion control."""
        return {cc: subflow_sets.optional for cc, subflow_sets in self.sets.items()}

    @property
    def is_real(self) -> bool:
        """True if trials run on a kernel and cost real time."""
        return only_stack(self.runner.testbed.name) is not None

    @property
    def is_timed(self) -> bool:
        """True if the network lives on while a trial runs; a simulated one begins anew in every trial."""
        return self.is_real and self.runner.testbed.pace is None

    @property
    def is_lean(self) -> bool:
        """True if only trials that the answer needs are done: where time is real, or limited."""
        options = self.options
        return options.learns and (options.budget_ns is not None or self.is_real)

    @property
    def has_prior(self) -> bool:
        """True if the simulator's predictions guide the strategy.

        Not where it is the testbed, nor where it does not know the network.
        """
        return self.wants_prior and not self.topology.missing

    @property
    def wants_prior(self) -> bool:
        """True if they would guide it, if the simulator knew the network.

        It has no programs of a user's, and for many connections it takes longer than it spares.
        """
        simulable = not isinstance(self.sent, Mix | Programs)
        return self.options.learns and self.options.prior and self.is_real and simulable

    @property
    def has_learnt_prior(self) -> bool:
        """True if predictions learnt from simulated trials guide the strategy: in the simulator, if wanted.

        Not for what they were not learnt from: other stacks, other workloads, buffers that grow at both ends.
        """
        options = self.options
        learnt = options.stack.chosen() == STACKS[DEFAULT_STACK]
        sized = options.grows_at_sender or options.mode_of_trials == FIXED
        wanted = options.learns and options.learnt_prior and self.sent is None
        return wanted and not self.is_real and learnt and sized

    @property
    def brief(self) -> Bulk:
        """The workload of a trial that is only a first look."""
        return Bulk(duration_ns=brief_ns(self.options.duration_ns))

    def phase(self, name: str) -> AbstractContextManager[Advance | None]:
        """The progress of a phase, with the round where there are several."""
        prefix = f"round {self.round_ + 1}, " if self.options.every_ns else ""
        return self.reporter.phase(f"{prefix}{name}")

    def configuration(self, combination: Combination, buffer_bytes: int) -> Configuration:
        """A configuration of the stack that was asked for; a chosen set of subflows is PCDC's."""
        options, told, sets = self.options, self.options.pm_options.of(combination.pm), self.sets
        common: dict[str, Any] = {
            "stack": options.stack.chosen(),
            "buffer_mode": options.mode_of_trials,
            "receive_buffer_bytes": self.receive_bytes,
            "family": options.family,
            "initial_path": combination.initial_path or None,
            "size_known": options.size_known,
            "workload": self.transfer or self.sent or Bulk(duration_ns=self.options.duration_ns),
        }
        if combination.is_tcp:
            (path,) = combination.subflows
            stack = options.stack.chosen(protocol=combination.pm)
            common |= {"protocol": combination.pm, "initial_path": path, "stack": stack}
            return configuration(USUAL_PMS[combination.pm], combination.cc, buffer_bytes, {}, **common)
        if not combination.subflows:
            return configuration(
                combination.pm, combination.cc, buffer_bytes, sets, pm_options=told, **common
            )
        order = [
            *(sets[combination.cc].optional if combination.cc in sets else ()),
            *(p.label for p in self.mptcp.paths),
        ]
        standby = tuple(label for label in dict.fromkeys(order) if label not in combination.subflows)
        pm_options = {
            **told,
            "active": combination.subflows,
            **({"standby_order": standby} if standby else {}),
        }
        if combination.cc in sets and self.transfer is not None:
            pm_options |= {"rtt_ns": sets[combination.cc].rtt_ns}
        return configuration(
            combination.pm, combination.cc, buffer_bytes, {}, pm_options=pm_options, **common
        )

    @property
    def default(self) -> Configuration:
        """The papers' default, with the largest buffer; fixed where only the sender's is searched.

        No larger than what a connection may have of the hosts' memory: beyond that its throughput collapses.
        """
        options = self.options
        plain = self.configuration(Combination(DEFAULT_PM, DEFAULT_CC), options.buffers[-1])
        if not options.grows_at_sender:
            return plain
        size = min(plain.buffer_bytes, self.most_default_bytes or plain.buffer_bytes)
        return msgspec.structs.replace(plain, buffer_bytes=size, buffer_mode=FIXED, receive_buffer_bytes=None)

    def measure(
        self,
        configurations: Sequence[Configuration],
        purpose: str,
        runs: int,
        name: str,
        topology: Topology | None = None,
        workload: Workload | None = None,
        first: int = 0,
    ) -> list[Record]:
        """Trials of every configuration, configuration by configuration, run by run from the first on."""
        asked = (
            configurations
            if workload is None
            else [configuration.under(workload) for configuration in configurations]
        )
        return self.measure_in([topology or self.topology], asked, purpose, runs, name, first)

    def measure_in(
        self,
        networks: Sequence[Topology],
        configurations: Sequence[Configuration],
        purpose: str,
        runs: int,
        name: str,
        first: int = 0,
    ) -> list[Record]:
        """The same in several networks, one after the other, as one phase."""
        planned = [
            trial
            for network in networks
            for trial in plan_trials(
                network,
                configurations,
                purpose=purpose,
                runs=runs,
                base_seed=self.options.seed,
                round_=self.round_,
                first=first,
            )
        ]
        with self.phase(name) as progress:
            return self.runner.measure(planned, progress=progress)


def configuration(
    pm: str,
    cc: str,
    buffer_bytes: int,
    sets: Mapping[str, SubflowSets],
    *,
    pm_options: Mapping[str, Any] | None = None,
    workload: Workload,
    **others: Any,
) -> Configuration:
    """PCDC gets the sets of its congestion control, if any, beside the options that were given.

    It gets the RTTs too where there is a transfer: a saturated sender takes the whole optional set, in
    whatever order.
    """
    options = dict(pm_options or {})
    if pm == "pcdc" and cc in sets:
        told = sets[cc]
        rtt_ns = told.rtt_ns if isinstance(workload, Transfer) else None
        measured = {"active": told.optional, "standby_order": told.standby, "rtt_ns": rtt_ns}
        options |= {name: value for name, value in measured.items() if value}
    return Configuration(
        pm=pm, cc=cc, buffer_bytes=buffer_bytes, pm_options=options, workload=workload, **others
    )


def failures(records: Sequence[Record], name: str) -> list[str]:
    """A sentence about failed trials, which are left out."""
    failed = [record for record in records if record.failed is not None]
    if not failed:
        return []
    first = failed[0]
    return [
        f"{len(failed)} of {len(records)} {name} trials failed and are left out (first: "
        f"{first.manager}/{first.cc} with {first.buffer_bytes / MIB:.4g} MiB: {first.failed})."
    ]
