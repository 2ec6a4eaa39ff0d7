"""The hosts testbed: trials between two real machines, which ssh reaches.

A trial runs as in the namespaces testbed (`mptune.linux.kernel_trial`), but over a real network: the same
roles of the agent on each host, the same path managers, the same kind of result. `mptune.machines` reaches
the hosts, `_host_facts` knows what they can do, and `_hosts_venue` changes their settings.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from mptune.errors import InputError, TrialError
from mptune.testbeds import _hosts_data, _kernel_observation, _kernel_plan, _overload
from mptune.testbeds._base import Testbed
from mptune.testbeds._today import Today, read_from
from mptune.trial import FIXED, PLAIN_TCP, Observation, Trial, Workload
from mptune.trial.stacks import sysctls_of

if TYPE_CHECKING:
    from mptune.linux.addresses import NamedInterface, Side
    from mptune.linux.kernel_trial import Outcome
    from mptune.linux.venue import About
    from mptune.machines import MachineError, SshMachine
    from mptune.routes.snapshots import Snapshot
    from mptune.testbeds._host_facts import HostFacts
    from mptune.testbeds._hosts_programs import Programs, Told
    from mptune.topology import Site, Topology

#: A host whose processors were busy for more than this share of a trial is overloaded.
_BUSY = 0.9
#: Seconds between two attempts to reach a host that is away.
_PAUSE_S = 5.0


class HostsTestbed(Testbed):
    """Runs trials between the hosts of a topology, one at a time.

    Nothing happens before the first trial, or the first session with trials that were checked. The
    connections are kept until this program ends.
    """

    name = "hosts"
    only_stack = "linux"
    parallel = 1
    #: Exchanges with the hosts, handshake, last data.
    set_up_s = 2.0
    #: Interfaces may have a limit (`max_data`).
    counts = True
    cuts = False
    traces = True

    def __init__(self) -> None:
        self._machines: dict[str, SshMachine] = {}
        #: Congestion controls registered in these sessions.
        self._programs: dict[str, Programs] = {}
        self._known: set[str] = set()
        self._data = _hosts_data.Meter()
        #: One trial of each kind that was checked, to compare with the hosts before any is run.
        self._checked: dict[object, Trial] = {}
        #: A trial, or a tracing of routes before it.
        self._turn = threading.RLock()
        self._interrupted = threading.Event()
        #: Notes on hosts that did not take leave.
        self._unheard: list[str] = []
        #: Longest wait for a host that is away, and the callback that reports it.
        self._patience_s = 0.0
        self._notify: Callable[[str], None] = lambda sentence: None
        self._closing = weakref.finalize(self, _close, self._machines, self._programs)

    @staticmethod
    def notice(
        topology: Topology,
        buffer_modes: Collection[str],
        sending: Workload | None,
        sent: _hosts_data.Sent,
    ) -> str:
        """Notice: upper bound on the data sent, and effects on other programs of the hosts."""
        sentence = _hosts_data.notice(topology, sending, sent)
        if any(mode != FIXED for mode in buffer_modes):
            sentence += (
                " During trials with growing buffers, tcp_rmem and tcp_wmem of both hosts are the trial's, "
                "for every program there."
            )
        return sentence

    @property
    def sent(self) -> _hosts_data.Sent:
        """Bytes that were sent over interfaces with `max_data`, by host and interface."""
        return self._data.sent

    def recall(self, trial: Trial, observation: Observation) -> None:
        """Count a trial that was run before this program began as sent.

        Parameters
        ----------
        trial : all that decides how much it sent.
        """
        self._data.recall(trial, observation)

    def close(self) -> None:
        """End the sessions with the hosts, which put back whatever is still changed."""
        _close(self._machines, self._programs)

    def interrupt(self) -> None:
        """Abort the running trial; no further one is run, and no host that is silent is waited for."""
        self._interrupted.set()
        for machine in list(self._machines.values()):
            machine.hurry()

    def be_patient(self, patience_s: float, notify: Callable[[str], None]) -> None:
        """From now on wait for a host that is away, and repeat the trial during which it was lost.

        Parameters
        ----------
        patience_s : the longest wait; after it, trials fail.
        notify : called with a sentence when a host is away, and when it is back.
        """
        self._patience_s, self._notify = patience_s, notify

    @contextmanager
    def session(self) -> Iterator[None]:
        """Connect, and refuse now what the hosts cannot do.

        Raises
        ------
        MptuneError : a host cannot be reached or used.
        InputError : a trial that was checked cannot run on them.
        KeyboardInterrupt : Ctrl-C; its notes name any host that could not be informed.
        """
        with self._parting():
            with self._turn:
                checked, self._checked = list(self._checked.values()), {}
                for trial in checked:
                    facts = self._facts(trial.topology)
                    self._admit(trial, facts)
                    self._kernel_cc(trial.cc, facts["local"])
            yield

    def check_network(self, topology: Topology) -> None:
        """Refuse sites that are no hosts.

        Raises
        ------
        InputError : naming the first key.
        """
        for site in (topology.sender, topology.receiver):
            check_site(topology, site)
        if topology.background:
            expected = "expected none: real paths have traffic of their own"
            raise InputError(topology.file, "background", expected)

    def check(self, trial: Trial) -> None:
        """Refuse what no hosts can do, without connecting.

        Raises
        ------
        InputError : naming the option or the key.
        """
        self.check_workload(trial.workload)
        self.check_network(trial.topology)
        _kernel_plan.check(trial, self.name)
        if any(action.action in ("down", "up") for action in trial.script):
            expected = "expected standby, active, remove and add: paths between hosts are not cut (down, up)"
            raise InputError("script", "", expected)
        self._data.check(trial)
        buffer = None if trial.buffer_mode == "fixed" else trial.buffer_bytes
        told = tuple(sysctls_of(trial.members).items())
        kind = (id(trial.topology), trial.protocol, trial.pm == "default", trial.cc, told, buffer)
        known = self._checked.get(kind)
        if known is None or known.buffer_bytes < trial.buffer_bytes:
            self._checked[kind] = trial

    def check_there(self, trial: Trial) -> None:
        """Refuse what these hosts cannot do, after asking them.

        Raises
        ------
        MptuneError : a host cannot be reached or used.
        InputError : naming the option or the key.
        KeyboardInterrupt : Ctrl-C; its notes name any host that could not be informed.
        """
        with self._parting(), self._turn:
            facts = self._facts(trial.topology)
            self._admit(trial, facts)
            self._kernel_cc(trial.cc, facts["local"])

    def run(self, trial: Trial) -> Observation:
        """Run one trial; repeat it once if it was overloaded, or (with patience) if a host was lost.

        Raises
        ------
        InputError : the hosts cannot run such a trial, or it exceeds what an interface may still send.
        MptuneError : a host cannot be reached or used at all.
        TrialError : a host that was used before cannot be reached now.
        KeyboardInterrupt : Ctrl-C, or `interrupt` from another thread; its notes name any host that could
            not be informed.
        """
        self.check(trial)
        with self._parting(), self._turn:
            if self._interrupted.is_set():
                raise KeyboardInterrupt
            self.follow_now()
            observation = self._measure(trial)
            if observation.failed is not None and self._patience_s and self._lost():
                observation = _overload.again(observation, lambda: self._repeated(trial))
            return _overload.in_time(observation, lambda: self._repeated(trial), _spoiled)

    def largest_buffers(self, topology: Topology) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The hosts' own (`tcp_wmem` and `tcp_rmem`), as they are while nothing is measured.

        Raises
        ------
        MptuneError : a host cannot be reached or used.
        """
        with self._parting(), self._turn:
            facts = self._facts(topology)
        sender, receiver = facts["local"].largest_buffers, facts["remote"].largest_buffers
        return None if sender is None or receiver is None else (sender, receiver)

    def trace(self, topology: Topology) -> Snapshot:
        """Routes of the paths now; why there are none, if a host is gone.

        Raises
        ------
        InputError : the hosts are not those of the topology.
        MptuneError : a host cannot be reached or used at all.
        KeyboardInterrupt : as of `run`.
        """
        from mptune.routes import tracing
        from mptune.routes.snapshots import Snapshot

        with self._parting(), self._turn:
            try:
                facts = self._facts(topology)
                machines = {side: self._machines[fact.site.ssh or ""] for side, fact in facts.items()}
                named = {side: fact.named() for side, fact in facts.items()}
                return tracing.trace(
                    topology, named, lambda side: machines[side].start("probe"), self._interrupted.is_set
                )
            except TrialError as error:
                return Snapshot(at=tracing.now(), failed=str(error))

    def _repeated(self, trial: Trial) -> Observation:
        """Run a trial again, if its interfaces may still send so much."""
        self._data.check(trial)
        return self._measure(trial)

    @contextmanager
    def _parting(self) -> Iterator[None]:
        """On Ctrl-C end the sessions at once, and note on it which hosts could not be reached."""
        from mptune.machines import sessions

        try:
            yield
        except KeyboardInterrupt as error:
            self.interrupt()
            machines = list(self._machines.values())
            self.close()
            self._unheard += sessions.unheard(machines)
            for sentence in self._unheard:
                error.add_note(sentence)
            raise

    def _measure(self, trial: Trial) -> Observation:
        from mptune.linux import kernel_trial
        from mptune.testbeds._host_facts import managed
        from mptune.testbeds._hosts_venue import HostsVenue

        facts = self._facts(trial.topology)
        self._admit(trial, facts)
        named = {side: fact.named() for side, fact in facts.items()}
        kernel_cc = self._kernel_cc(trial.cc, facts["local"], _kernel_plan.told(trial, named))
        plan = _kernel_plan.plan(trial, kernel_cc, named)
        privileged = all(host.privileged for host in facts.values())
        plan = msgspec.structs.replace(plan, managed=managed(trial, privileged))
        machines = {side: self._machines[fact.site.ssh or ""] for side, fact in facts.items()}
        venue = HostsVenue(
            machines,
            lasting={side: _lasting(trial, fact) for side, fact in facts.items()},
            momentary={side: fact.while_connecting if plan.managed else {} for side, fact in facts.items()},
            about=_about(facts, named),
        )
        outcome = kernel_trial.run(plan, venue, self._interrupted.is_set)
        busy = _busy(outcome, facts)
        overload = [
            f"the processors of {name} were busy for {share:.0%} of the time"
            for name, share in busy.items()
            if share > _BUSY
        ]
        observation = _kernel_observation.observe(
            trial, plan, outcome, max(busy.values(), default=0.0), testbed=self.name, overload=overload
        )
        self._data.count(trial, observation)
        return observation

    def today(self, topology: Topology, members: Mapping[str, object]) -> Today:
        """Settings of the hosts outside of trials; their endpoints are not read.

        Raises
        ------
        MptuneError : a host cannot be reached or used.
        """
        with self._parting(), self._turn:
            facts = self._facts(topology)
            return read_from(facts["local"].sysctls, facts["remote"].sysctls, "the two hosts' settings")

    def _facts(self, topology: Topology) -> dict[Side, HostFacts]:
        """Present facts of both hosts.

        Raises
        ------
        MptuneError : a host cannot be reached or used.
        TrialError : one that was used before cannot be reached now.
        """
        try:
            return self._asked(topology)
        except TrialError:
            if not self._patience_s or not self._lost():
                raise
            return self._asked(topology)

    def _asked(self, topology: Topology) -> dict[Side, HostFacts]:
        from mptune.testbeds._host_facts import ASKED, HostFacts

        sites: dict[Side, Site] = {"local": topology.sender, "remote": topology.receiver}
        machines = {side: self._machine(site) for side, site in sites.items()}
        asked = {side: machine.ask("look", names=list(ASKED), pairs=[]) for side, machine in machines.items()}
        return {
            side: HostFacts(
                topology,
                side,
                machine.name,
                machine.collect(asked[side]),
                privileged=bool(machine.hello["net_admin"]),
            )
            for side, machine in machines.items()
        }

    def _machine(self, site: Site) -> SshMachine:
        """The session with a site's host; a new one if the last is over."""
        from mptune.machines import MachineError
        from mptune.machines.ssh import connect
        from mptune.testbeds._hosts_programs import Programs

        target = site.ssh or ""
        if target in self._machines and self._machines[target].killed:
            self._machines.pop(target).close()
            self._programs.pop(target).close()
        if target not in self._machines:
            try:
                machine = connect(target, site.name, self._interrupted.is_set)
            except MachineError as error:
                if not self._waits(target, error):
                    raise
                machine = self._wait(site, error)
            self._machines[target] = machine
            self._programs[target] = Programs(machine.start)
            self._known.add(target)
        return self._machines[target]

    def _kernel_cc(self, cc: str, sender: HostFacts, told: Told = ()) -> str:
        """The name of a congestion control in the sender's kernel; one that it lacks is registered first.

        So is one whose path policy is `told` of paths: another one there was told other things.

        Raises
        ------
        InputError : the host cannot provide it.
        TrialError : the host is gone.
        """
        found = sender.kernel_cc(cc)
        if found is not None and not told:
            return found
        try:
            return self._programs[sender.site.ssh or ""].name(cc, told)
        except TrialError as error:
            if error.kind != "refused":
                raise
            raise sender.refuse_cc(cc, str(error)) from None

    def _waits(self, target: str, error: MachineError) -> bool:
        """True if a host that cannot be used is only away, and not one that never can be."""
        return target in self._known or (self._patience_s > 0 and error.away)

    def _lost(self) -> bool:
        """True if a host has stopped answering."""
        try:
            for machine in self._machines.values():
                machine.look()
        except TrialError:
            return True
        return False

    def _wait(self, site: Site, error: MachineError) -> SshMachine:
        """A new session with a host that is away, as soon as it is back.

        Raises
        ------
        TrialError : it stays away.
        MachineError : it is back, but cannot be used and never was.
        KeyboardInterrupt : Ctrl-C, or `interrupt` from another thread.
        """
        from mptune.machines import MachineError
        from mptune.machines.ssh import connect

        began = time.monotonic()
        if self._patience_s:
            self._notify(f"Waiting for {error}")
        while time.monotonic() - began < self._patience_s:
            if self._interrupted.wait(_PAUSE_S):
                raise KeyboardInterrupt
            try:
                machine = connect(site.ssh or "", site.name, self._interrupted.is_set)
            except MachineError as another:
                if not self._waits(site.ssh or "", another):
                    raise
                error = another
            else:
                self._notify(f"{site.name} is back after {time.monotonic() - began:.0f} s.")
                return machine
        raise TrialError(str(error), "unreachable") from None

    def _admit(self, trial: Trial, facts: Mapping[Side, HostFacts]) -> None:
        for host in facts.values():
            host.check(trial)
            host.named()


def _close(machines: dict[str, SshMachine], programs: dict[str, Programs]) -> None:
    """End the sessions, and with them what they hold."""
    while machines:
        machines.popitem()[1].close()
    while programs:
        programs.popitem()[1].close()


def _spoiled(observation: Observation) -> bool:
    """True if it is repeated: after any other failure it is not, because a host may be gone."""
    return observation.failed is not None and observation.failed.kind == "overloaded"


def check_site(topology: Topology, site: Site) -> None:
    """Refuse a site that is no host.

    Raises
    ------
    InputError : naming the key.
    """
    where = f"sites.{site.abbr}"
    if site.ssh is None:
        raise InputError(topology.file, f"{where}.ssh", 'expected "user@host", needed by the testbed hosts')
    for interface in site.interfaces:
        if interface.device is None and interface.ipv4 is None and interface.ipv6 is None:
            expected = "expected its device or an address, needed by the testbed hosts"
            raise InputError(topology.file, f"{where}.interfaces.{interface.abbr}.device", expected)


def _lasting(trial: Trial, facts: HostFacts) -> dict[str, str]:
    """Settings of a host for the whole trial."""
    from mptune.linux.sandbox import sysctls

    wanted: dict[str, str] = {}
    if trial.protocol != PLAIN_TCP and facts.sysctls.get("net.mptcp.enabled") == "0":
        wanted["net.mptcp.enabled"] = "1"
    if trial.buffer_mode == "auto":
        wanted |= sysctls.buffer_limits(trial.buffer_bytes, trial.receive_buffer_bytes)
    return wanted | facts.told(trial)


def _about(facts: Mapping[Side, HostFacts], named: Mapping[Side, tuple[NamedInterface, ...]]) -> About:
    """Metadata that may explain a result, from both ends."""
    about: About = {"kernel": str(facts["local"].looked.get("kernel", "")), "scheduler": "default"}
    for side, fact in facts.items():
        end = "sender" if side == "local" else "receiver"
        about[f"{end} host"] = fact.name
        about[f"{end} kernel"] = str(fact.looked.get("kernel", ""))
        about[f"{end} machine"] = str(fact.looked.get("machine", ""))
        about[f"{end} privileged"] = int(fact.privileged)
        about |= {f"{end} sysctl {name}": value for name, value in fact.sysctls.items()}
        for interface in named[side]:
            about[f"offloads {end} {interface.device}"] = fact.offloads(interface.device)
            for family, address in interface.public.items():
                about[f"nat {end} {interface.device}"] = f"{interface.address(family)} is {address} outside"
    return about


def _busy(outcome: Outcome, facts: Mapping[Side, HostFacts]) -> dict[str, float]:
    """Share of all processors in use during the trial, by host, as far as the meter reported it."""
    shares: dict[str, float | None] = (outcome.result or {}).get("busy_share", {})
    ends: dict[Side, str] = {"local": "sender", "remote": "receiver"}
    found = {fact.name: shares.get(ends[side]) for side, fact in facts.items()}
    return {name: share for name, share in found.items() if share is not None}
