"""Advice: what would be set on which machine, beside what is set now; what it brings, and what may go wrong.

    plan -> each machine is read, if it can be -> lines, the gain to expect, risks

It formats no tables and sets nothing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from mptune._text import digits
from mptune.apply import _words
from mptune.apply._loss import Loss, loss
from mptune.apply._risks import memory, metered
from mptune.apply._settings import Present, Setting
from mptune.apply._subflows import Subflows, subflows
from mptune.apply.kernels import kernels_of
from mptune.apply.machine import LIMITS, Reading, Seen, limits_in, look
from mptune.apply.plan import ANY, Difference, HostPlan, Kernels, Outline, Part, outline, resolve
from mptune.apply.policy import POLICIES, content
from mptune.decision.model_error import GainOnKernel, OnKernel
from mptune.errors import InputError, MptuneError, one_of
from mptune.linux.path_manager import commands
from mptune.result.values import Gain, Interval
from mptune.topology import Site
from mptune.trial import FIXED
from mptune.units import format_size

#: Looks at the machine of a site, as `mptune.apply.machine.look`.
Look = Callable[[Site, str, Callable[[Seen], Any]], Any]

#: Connections for which the memory is stated, unless the user names a number.
CONNECTIONS = 100

#: Place of a testbed's trials, as a sentence ends.
_WHERE = {
    "simulated": "in the simulator",
    "virtual": "on a kernel in virtual time, over an emulated network",
    "namespaces": "on one machine's kernel, over an emulated network",
    "hosts": "between the two machines",
}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A setting.

    Attributes
    ----------
    setting : in the form that goes to a machine.
    title, wanted : it in words.
    present : what is set now, in words; None if that is unknown.
    why, cost : a sentence each.
    """

    setting: Setting
    title: str
    present: str | None
    wanted: str
    why: str
    cost: str

    @property
    def changes(self) -> bool:
        """True if anything would be changed, as far as is known."""
        return self.present != self.wanted


class HostAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice for one machine.

    Attributes
    ----------
    site, name, ssh, part : as in `HostPlan`.
    opens : it opens the connections.
    read : how the machine was read; None if it was not.
    unread : why not.
    notes : what cannot be set, or has to be known.
    risks : what may go wrong there.
    commands : the MPTCP settings for a shell, as far as they are not there already.
    plan : with what was read.
    """

    site: str
    name: str
    ssh: str | None
    part: Part
    opens: bool
    read: str | None
    unread: str | None
    lines: tuple[Line, ...]
    commands: tuple[str, ...]
    notes: tuple[str, ...]
    risks: tuple[str, ...]
    plan: HostPlan


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of the answer as measured, Mbit/s; of an answer by an objective that of a saturated sender.

    Attributes
    ----------
    testbed, stack : where, and whose MPTCP; None where that is unknown.
    confirmed : in runs with new seeds.
    baseline : what it was compared with, in words; None if it was not.
    gain : over that; `share` of its mean.
    on_kernel, gain_on_kernel : 95 % intervals of both on a kernel, by the error of the simulator; None where
        they were measured on one, and in runs of versions that did not record it.
    is_kernel_default : whether that is what a kernel does that is left alone.
    text : all of it in sentences.
    """

    testbed: str | None
    stack: str | None
    confirmed: Interval
    baseline: str | None
    gain: Interval | None
    share: float | None
    on_kernel: OnKernel | None = None
    gain_on_kernel: GainOnKernel | None = None
    is_kernel_default: bool
    text: tuple[str, ...]


class Differing(msgspec.Struct, frozen=True, kw_only=True):
    """A difference from the answer, and its cost.

    Attributes
    ----------
    loss : None where there is nothing to compare.
    text : what it costs, as a sentence; empty where it has none.
    """

    difference: Difference
    loss: Loss | None
    text: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """All advice on a run.

    Attributes
    ----------
    answer : what the run recommends, as a sentence.
    opener : who opens connections.
    wanted : subflows that the answer sends on.
    used, standby : those that the kernel will send on, and keep in reserve.
    subflows : what a connection gets now and with the settings; None if a machine was not read.
    """

    run: str
    answer: str
    opener: Part
    initial_path: str
    wanted: tuple[str, ...]
    used: tuple[str, ...]
    standby: tuple[str, ...]
    hosts: tuple[HostAdvice, ...]
    subflows: Subflows | None
    expected: Expected
    differs: tuple[Differing, ...]
    risks: tuple[str, ...]


def advise(
    run: Path,
    *,
    host: str | None = None,
    opened_by: Part | None = None,
    connections: int = CONNECTIONS,
    simulate: bool = True,
    daemon: bool = False,
    look: Look = look,
    kernels: Kernels = ANY,
) -> Advice:
    """Give the advice of a finished run.

    Parameters
    ----------
    host : key, name or ssh of the only site to show; None shows both.
    opened_by : as in `mptune.apply.plan.outline`.
    connections : for which the memory is stated.
    simulate : whether the simulator may predict the cost of other subflows.
    daemon : as in `mptune.apply.plan.outline`.
    look : looks at machines.
    kernels : what they can do; what is read there replaces it, if that could bring the plan nearer.

    Raises
    ------
    InputError : it is no finished run with one answer, or has no such host.
    """
    outlined = outline(run, opened_by, daemon=daemon, kernels=kernels)
    chosen = [
        host_plan
        for host_plan in outlined.hosts
        if host in (None, host_plan.site, host_plan.name, host_plan.ssh)
    ]
    if not chosen:
        raise InputError("--host", "", one_of((plan.site for plan in outlined.hosts), host))
    # Once each: both sides have the same stack.
    differences = dict.fromkeys(
        (difference.what, difference.asked, difference) for plan in chosen for difference in plan.differs
    )
    read: dict[Part, tuple[HostPlan, Present]] = {}
    hosts = tuple(_host(outlined, plan, connections, look, read) for plan in chosen)
    can = kernels_of({part: present for part, (_, present) in read.items()}, outlined.opener)
    if outlined.more and can != kernels:
        return advise(
            run,
            host=host,
            opened_by=opened_by,
            connections=connections,
            simulate=simulate,
            daemon=daemon,
            look=look,
            kernels=can,
        )
    return Advice(
        run=str(run),
        answer=outlined.answered.answer.answer[0],
        opener=outlined.opener,
        initial_path=outlined.initial,
        wanted=outlined.wanted,
        used=outlined.used,
        standby=outlined.standby,
        hosts=hosts,
        subflows=subflows(outlined, read),
        expected=_expected(outlined),
        differs=tuple(_differing(outlined, difference, simulate) for _, _, difference in differences),
        risks=tuple(_risks(outlined)),
    )


def to_files(advice: Advice) -> list[HostPlan]:
    """The plans of all its hosts, for files.

    Raises
    ------
    MptuneError : a machine was not read; the message has the reason.
    """
    for host in advice.hosts:
        if host.read is None:
            raise MptuneError(
                f"{host.name} was not read: {host.unread}; no files are written without what is set there"
            )
    return [host.plan for host in advice.hosts]


def document(advice: Advice) -> dict[str, Any]:
    """`--json`: everything; `settings` as they go to machines, `lines` about them in that order."""
    raw: dict[str, Any] = msgspec.to_builtins(advice)
    for host in raw["hosts"]:
        plan = host.pop("plan")
        host["settings"] = plan["settings"]
        host["unknown"] = plan["unknown"]
        for line in host["lines"]:
            del line["setting"]
    return raw


# A host.


def _host(
    outlined: Outline,
    host: HostPlan,
    connections: int,
    look: Look,
    read: dict[Part, tuple[HostPlan, Present]],
) -> HostAdvice:
    """The advice for one machine; what was read there is added to `read`."""

    def use(seen: Seen) -> HostAdvice:
        plan = host if seen.present is None else resolve(host, _with_settings(host, seen))
        end = None if seen.present is None else seen.present.end
        if seen.present is not None:
            read[plan.part] = plan, seen.present
        reading = _reading(plan, seen)
        present = _present(plan, seen, reading)
        opens = plan.intent.opens
        lines = tuple(
            Line(
                setting=setting,
                title=_words.title(setting),
                present=None if now is None else _words.value(now),
                wanted=_target(setting, now),
                why=why,
                cost=_words.cost(setting, opens=opens),
            )
            for setting, why, now in zip(plan.settings, plan.why, present, strict=True)
        )
        return HostAdvice(
            site=plan.site,
            name=plan.name,
            ssh=plan.ssh,
            part=plan.part,
            opens=opens,
            read=seen.how or None,
            unread=seen.reason or None,
            lines=lines,
            commands=tuple(commands(_needed_there(plan, present), end)),
            notes=plan.notes,
            risks=(
                *_of_host(outlined, plan, lines, seen, connections),
                *_others(plan, seen, reading),
            ),
            plan=plan,
        )

    advice: HostAdvice = look(host.intent.site, host.intent.file, use)
    return advice


def _needed_there(plan: HostPlan, present: list[Setting | None]) -> list[Setting]:
    """Settings that are not there already, as far as that is known."""
    return [
        row
        for row, now in zip(plan.settings, present, strict=True)
        if now is None or _words.value(now) != _words.value(row)
    ]


def _with_settings(host: HostPlan, seen: Seen) -> Present:
    """Values read, with the limits, and with the daemon's policies if the plan adds to them."""
    assert seen.present is not None
    if seen.read is None:
        return seen.present
    asked = [
        *([] if host.intent.limits is None else [LIMITS]),
        *([] if host.intent.policy is None else [POLICIES]),
    ]
    read = seen.read(asked).present if asked else ()
    files = [each for each in read if each["kind"] == "file"]
    text = content(files[0], host.name) if files and host.intent.policy is not None else None
    return msgspec.structs.replace(seen.present, policies=text, limits=limits_in(read))


def _reading(plan: HostPlan, seen: Seen) -> Reading:
    """Present values of the plan's settings, where they can be read."""
    placeholders = [unknown.placeholder for unknown in plan.unknown]
    asked = [
        setting
        for setting in plan.settings
        if not any(text in (setting.get("address"), setting.get("device")) for text in placeholders)
    ]
    return Reading() if seen.read is None else seen.read(asked)


def _present(plan: HostPlan, seen: Seen, reading: Reading) -> list[Setting | None]:
    """The present value of every setting, as far as it is known."""
    known = {_identity(row): row for row in reading.present}
    return [known.get(_identity(setting), _from_sysctls(setting, seen)) for setting in plan.settings]


def _from_sysctls(row: Setting, seen: Seen) -> Setting | None:
    """A value from the machine's facts."""
    if row["kind"] == "sysctl" and seen.present is not None and row["name"] in seen.present.sysctls:
        return {**row, "value": seen.present.sysctls[row["name"]]}
    return None


def _identity(row: Setting) -> tuple[object, ...]:
    return tuple(row.get(name) for name in ("kind", "name", "address", "path")) + (
        (row["to"], row.get("table"), row.get("device")) if row["kind"] == "route" else ()
    )


def _target(setting: Setting, now: Setting | None) -> str:
    """The value wanted; a program that is registered already stays."""
    if setting["kind"] == "congestion" and now is not None and not now.get("absent"):
        return _words.value(now)
    return _words.value(setting)


def _of_host(
    outlined: Outline, plan: HostPlan, lines: tuple[Line, ...], seen: Seen, connections: int
) -> Iterator[str]:
    """Risks on one machine."""
    intent = plan.intent
    yield memory(intent, None if seen.present is None else seen.present.memory_bytes, connections)
    yield from _lowered(lines)
    yield from metered(outlined, plan)
    strict = [name for name in seen.strict if name in _devices(plan)]
    if strict:
        yield (
            f"The reverse path filter of {', '.join(strict)} is strict: joins fail silently unless packets "
            "leave by the device of their source address (`mptune doctor --hosts`)."
        )
    elif len(intent.leaves_by) > 1 and outlined.used != outlined.wanted[:1]:
        yield (
            "Packets must leave by the device of their source address, otherwise joins fail silently "
            "(`mptune doctor --hosts` shows the routes and rules to add)."
        )


def _others(plan: HostPlan, seen: Seen, reading: Reading) -> Iterator[str]:
    """Programs that make the same settings, and existing endpoints that are not planned."""
    if reading.foreign:
        names = ", ".join(reading.foreign)
        yield f"Running here: {names}. `mptune apply` refuses to work beside them without --despite NAME."
    present = None if seen.present is None else seen.present.endpoints
    if plan.intent.limits is None or not present:
        return
    planned = {setting.get("address") for setting in plan.settings}
    telling = {"subflow", "fullmesh"} if plan.intent.opens else {"signal"}
    for address, has in present.items():
        if address not in planned and telling & set(has):
            yield (
                f"Endpoint {address} ({', '.join(has)}) is not part of the plan: its subflows take the place "
                "of planned ones. Find out what created it before you remove it."
            )


def _devices(plan: HostPlan) -> set[str]:
    given = {plan.intent.site.interfaces[index].device for index, _ in plan.intent.leaves_by}
    return {*filter(None, given), *(setting["device"] for setting in plan.settings if setting.get("device"))}


def _lowered(lines: tuple[Line, ...]) -> Iterator[str]:
    """Buffers that become smaller for everybody."""
    for line in lines:
        if line.setting["kind"] != "sysctl" or not line.setting["name"].startswith("net.ipv4.tcp_"):
            continue
        texts = (line.present or "").split(), line.wanted.split()
        if all(len(words) == 3 for words in texts) and int(texts[0][2]) > int(texts[1][2]):
            before, after = (format_size(int(words[2]), 3) for words in texts)
            yield (
                f"{line.title} falls from {before} to {after}: connections over longer or faster paths "
                "than those measured will be slower."
            )


# What is to be expected.


def _expected(outlined: Outline) -> Expected:
    answer = outlined.answered.answer
    gain = answer.gain
    testbed = outlined.answered.testbed or None
    where = _WHERE.get((testbed or "").partition(":")[0], "where it was measured")
    default = answer.default
    is_default = default is not None and default.pm == "default"
    baseline = None if default is None else f"{default.pm}, {default.cc} and {default.buffer_mib:g} MiB"
    text = [_confirmed(answer.confirmed, answer.otp_mbps, where, answer.stack)]
    if outlined.answered.objective:
        # Sentences of figures, with those of a saturated sender among them.
        text = [*answer.answer[1:], f"All of it {where}."]
    elif gain is not None and gain.mean is not None and baseline is not None:
        now = None if answer.baselines is None else answer.baselines.now
        text.append(f"That is {_more(gain)}, over {baseline}.")
        if now is not None and now.gain.mean is not None:
            text.append(
                f"Over what the hosts do today ({', '.join(now.subflows)} alone) it is {_more(now.gain)}."
            )
        elif is_default:
            text.append(
                "That is one subflow, as with the kernel's defaults, except for buffer and congestion "
                "control."
            )
        else:
            text.append(
                "An unconfigured kernel behaves differently: without endpoints it opens one subflow. "
                "That was not measured, so the gain over it is unknown."
            )
    else:
        text.append("It was not compared with a baseline, so the gain is unknown.")
    if testbed == "simulated":
        if outlined.answered.objective:
            text.append("How far delays on a kernel are from the simulator's is not known.")
        else:
            text.extend(_on_kernel(answer.on_kernel, answer.gain_on_kernel))
        text.append("Nothing was measured between the machines: `mptune optimise --testbed hosts` does that.")
    return Expected(
        testbed=testbed,
        stack=answer.stack,
        confirmed=answer.confirmed,
        baseline=baseline,
        gain=None
        if gain is None or baseline is None
        else Interval(mean=gain.mean, low=gain.low, high=gain.high, runs=gain.runs),
        share=None if gain is None else gain.share,
        on_kernel=answer.on_kernel,
        gain_on_kernel=answer.gain_on_kernel,
        is_kernel_default=is_default,
        text=tuple(text),
    )


def _on_kernel(expected: OnKernel | None, gain: GainOnKernel | None) -> Iterator[str]:
    """The kernel's expected throughput and gain, from the simulator's error, as sentences."""
    if expected is None:
        yield "No kernel error estimate: a version without one made this run."
    elif expected.low_mbps is None or expected.high_mbps is None:
        yield f"No kernel error estimate: {expected.unknown}."
    else:
        yield (
            f"On a Linux kernel expect {digits(expected.low_mbps)} to {digits(expected.high_mbps)} Mbit/s "
            f"(95 % interval for the mean of {expected.runs} runs)."
        )
        if gain is not None and gain.low_mbps is not None and gain.high_mbps is not None:
            low, high = digits(gain.low_mbps, 3, "+"), digits(gain.high_mbps, 3, "+")
            doubt = " It may be a loss." if gain.low_mbps < 0 else ""
            yield f"The gain there is {low} to {high} Mbit/s (95 %).{doubt}"
        elif gain is not None:
            yield f"No kernel error estimate of the gain: {gain.unknown}."


def _confirmed(confirmed: Interval, otp_mbps: float, where: str, stack: str | None) -> str:
    whose = f", with {stack}" if stack else ""
    if confirmed.mean is None:
        return f"{digits(otp_mbps)} Mbit/s is predicted, but no new run confirmed it."
    runs = f"{confirmed.runs} new run{'' if confirmed.runs == 1 else 's'}"
    ends = _ends(confirmed.low, confirmed.high)
    return f"{digits(confirmed.mean)} Mbit/s{ends} in {runs}, {where}{whose}."


def _more(gain: Gain) -> str:
    """A gain in Mbit/s with its interval, and as a share."""
    share = "" if gain.share is None else f", {100 * gain.share:+.1f} %"
    return f"{digits(gain.mean or 0.0, 3, '+')} Mbit/s{_ends(gain.low, gain.high, '+')}{share}"


def _ends(low: float | None, high: float | None, sign: str = "") -> str:
    """A 95 % interval in brackets; nothing where there is none."""
    if low is None or high is None:
        return ""
    return f" (95 %: {digits(low, 4 if not sign else 3, sign)} to {digits(high, 4 if not sign else 3, sign)})"


def _differing(outlined: Outline, difference: Difference, simulate: bool) -> Differing:
    if difference.what != "subflows":
        return Differing(difference=difference, loss=None, text="")
    lost = loss(outlined, simulate=simulate)
    if isinstance(lost, str):
        return Differing(difference=difference, loss=None, text=lost)
    return Differing(difference=difference, loss=lost, text=_lost(lost))


def _lost(lost: Loss) -> str:
    where = "Measured" if lost.source == "measured" else "Simulated"
    if lost.change is None or lost.asked is None or lost.got is None:
        which = "with both" if lost.asked is None else "with the kernel's subflows"
        return f"{where}: every run {which} failed."
    percent = "" if lost.share is None else f", {100 * lost.share:+.1f} %"
    ends = _ends(lost.change.low, lost.change.high, "+")
    return (
        f"{where}: {digits(lost.got.mean)} instead of {digits(lost.asked.mean)} Mbit/s, "
        f"{digits(lost.change.mean, 3, '+')}{ends}{percent}, {lost.change.n} runs each."
    )


def _risks(outlined: Outline) -> Iterator[str]:
    """Risks on every machine."""
    answer = outlined.answered.answer
    others: Literal["sender", "receiver"] = "receiver" if outlined.opener == "sender" else "sender"
    if answer.protocol != "tcp":
        yield (
            f"Connections that the {others} opens need different settings: endpoints `subflow` take effect "
            f"on the side that opens a connection (--opened-by {others})."
        )
        yield (
            "Programs must request MPTCP (`mptune exec` does it for them). After a failed MPTCP handshake "
            "the kernel uses plain TCP for an hour (net.mptcp.blackhole_timeout)."
        )
    if (answer.buffer_mode or FIXED) != FIXED:
        limit = format_size(answer.obs_bytes, 4)
        yield (
            f"{limit} is the limit of autotuned buffers. A program that sets SO_SNDBUF or SO_RCVBUF disables "
            "autotuning, so that its buffer differs from the measured one."
        )
        whose = "the sender" if answer.receive_bytes else "both hosts"
        yield (
            f"It holds for every connection of {whose}: one to elsewhere gets at most {limit} a round trip, "
            f"{answer.obs_bytes * 8 / 1e5:.3g} Mbit/s at 100 ms."
        )
