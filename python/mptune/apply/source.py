"""Sources of settings: a run, by its plan, or a file; and the machines that they name.

A file is a list of settings for one machine, or an object with a list for each machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptune import files
from mptune.apply.apply import HERE, Place, Target, Wanted, ask
from mptune.apply.machine import LIMITS, limits_in
from mptune.apply.policy import POLICIES, content
from mptune.apply.records import Setting
from mptune.errors import InputError, one_of

if TYPE_CHECKING:
    from mptune.apply.plan import HostPlan

#: Values that a plan fills in from the machine.
_NAMES = (
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.mptcp.enabled",
    "net.mptcp.path_manager",
)


def from_file(path: Path, hosts: Sequence[str]) -> list[Wanted]:
    """Settings from a file.

    Parameters
    ----------
    hosts : the machines to think of, as ssh knows them; none means all that the file names.

    Raises
    ------
    InputError : it is no such file, or names other machines.
    """
    document = _read(path)
    if isinstance(document, list):
        if len(hosts) > 1:
            raise InputError(str(path), "", "expected an object with a list for each --host, found one list")
        target = Target(hosts[0], hosts[0]) if hosts else HERE
        return [_fixed(target, _settings(path, "", document))]
    if not isinstance(document, dict) or not document:
        raise InputError(str(path), "", "expected a list of settings, or one for each machine")
    for host in hosts:
        if host not in document:
            raise InputError("--host", "", one_of(document, host))
    return [
        _fixed(Target(host, host), _settings(path, host, settings))
        for host, settings in document.items()
        if not hosts or host in hosts
    ]


def from_run(run: Path, hosts: Sequence[str], *, daemon: bool = False) -> list[Wanted]:
    """Settings from a run, by its plan.

    Parameters
    ----------
    hosts : names of its sites; none means all.
    daemon : a policy of mptune's daemon, as in `mptune.apply.plan.outline`.

    Raises
    ------
    InputError : it is no such run, or has no such site.
    """
    from mptune.apply.kernels import planned  # with pandas, which a file of settings does not need

    plans = _of_machines(planned(run, daemon=daemon).hosts, hosts)
    return [Wanted(target, partial(_planned, plan)) for target, plan in plans]


def machines(run: Path | None, hosts: Sequence[str]) -> list[Target]:
    """The machines that a run and the user name; this one if they name none."""
    if run is not None:
        from mptune.apply import plan as planning

        return [target for target, _ in _of_machines(planning.plan(run), hosts)]
    return [Target(host, host) for host in hosts] or [HERE]


def _of_machines(planned: Sequence[HostPlan], hosts: Sequence[str]) -> list[tuple[Target, HostPlan]]:
    """The plans for the machines that the user names, or for all."""
    plans = {plan.site: plan for plan in planned}
    for host in hosts:
        if host not in plans:
            raise InputError("--host", "", one_of(plans, host))
    chosen = [plan for site, plan in plans.items() if not hosts or site in hosts]
    here = [plan.site for plan in chosen if plan.ssh is None]
    if len(here) > 1:
        expected = f"expected which of {', '.join(here)} is this machine: the topology has no ssh ="
        raise InputError("--host", "", expected)
    return [(HERE if plan.ssh is None else Target(plan.site, plan.ssh), plan) for plan in chosen]


def _planned(plan: HostPlan, place: Place) -> Sequence[Setting]:
    """The settings of a plan on a machine that it can look at."""
    from mptune.apply import plan as planning

    looked = place.look(_NAMES)
    values = {name: value for name, value in looked["sysctls"].items() if value is not None}
    present = planning.Present(
        sysctls={name: " ".join(value.split()) for name, value in values.items()},
        interfaces=tuple(looked["interfaces"]),
        rules=tuple(looked["rules"]),
        congestion_controls=tuple(looked["congestion_controls"]["available"]),
        limits=None if plan.intent.limits is None else _limits(place),
        policies=None if plan.intent.policy is None else _policies(place),
    )
    resolved = planning.resolve(plan, present)
    planning.check(resolved, read=True)
    return resolved.settings


def _limits(place: Place) -> tuple[int, int] | None:
    """The limits of a machine."""
    return limits_in(ask(place, {"action": "read", "settings": [LIMITS]}, "read")["present"])


def _policies(place: Place) -> str | None:
    """Policies of a machine's daemon."""
    (policies,) = ask(place, {"action": "read", "settings": [{**POLICIES}]}, "read")["present"]
    return content(policies, place.name)


def _read(path: Path) -> Any:
    try:
        return files.read_json(path)
    except OSError as error:
        raise InputError(str(path), "", f"expected a file of settings: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(str(path), "", f"expected JSON: {error}") from None


def _settings(path: Path, key: str, document: object) -> list[Setting]:
    if not isinstance(document, list) or not document:
        raise InputError(str(path), key, "expected a list of settings")
    for number, entry in enumerate(document):
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
            where = f"{key}[{number}]" if key else f"[{number}]"
            raise InputError(str(path), where, 'expected an object with "kind"')
    return document


def _fixed(target: Target, settings: Sequence[Setting]) -> Wanted:
    return Wanted(target, lambda _place: settings)
