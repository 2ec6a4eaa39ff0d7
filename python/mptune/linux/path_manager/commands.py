"""Settings of the kernel's path manager as lines for a shell, and an end as it is after them.

A setting has the form that the agent's role `settings` takes. Other kinds than sysctls, limits and endpoints
have no line here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mptune.linux.path_manager.ends import ENABLED, JOINS, KERNEL, End, Endpoint, Limits

#: Flags that change in place (`mptcp_pm_nl_set_flags`).
_IN_PLACE = {"backup", "fullmesh"}


def commands(settings: Sequence[Mapping[str, Any]], end: End | None = None) -> list[str]:
    """The lines of `ip mptcp` and `sysctl` that make some settings.

    Parameters
    ----------
    end : as it is before; None if it is not known. What is there already needs no line.
    """
    lines: list[str] = []
    for row in settings:
        match row["kind"]:
            case "sysctl" if row["name"].startswith("net.mptcp."):
                lines.append(f"sysctl -w {row['name']}={row['value']}")
            case "limits":
                limits = Limits(subflows=row["subflows"], add_addr_accepted=row["add_addr_accepted"])
                if end is None or limits != end.limits:
                    lines.append(
                        f"ip mptcp limits set subflows {limits.subflows} "
                        f"add_addr_accepted {limits.add_addr_accepted}"
                    )
            case "endpoint":
                lines.extend(_of_endpoint(row, end))
            case _:
                pass
    return lines


def _of_endpoint(row: Mapping[str, Any], end: End | None) -> Iterator[str]:
    there = None if end is None else end.endpoint(row["address"])
    if there is not None and "implicit" in there.flags:
        there = None
    flags = row.get("flags") or ()
    if row.get("absent"):
        if there is not None:
            yield f"ip mptcp endpoint delete id {there.id}"
        return
    if there is not None:
        if set(there.flags) == set(flags):
            return
        if set(there.flags) ^ set(flags) <= _IN_PLACE:
            words = [flag if flag in flags else f"no{flag}" for flag in sorted(_IN_PLACE)]
            changed = [word for word in words if word.removeprefix("no") in set(there.flags) ^ set(flags)]
            yield f"ip mptcp endpoint change id {there.id} {' '.join(changed)}"
            return
        yield f"ip mptcp endpoint delete id {there.id}"
    device = f" dev {row['device']}" if row.get("device") else ""
    yield f"ip mptcp endpoint add {row['address']}{device} {' '.join(flags)}"


def after(end: End, settings: Sequence[Mapping[str, Any]]) -> End:
    """An end as it is once some settings are made."""
    for row in settings:
        match row["kind"]:
            case "limits":
                limits = Limits(subflows=row["subflows"], add_addr_accepted=row["add_addr_accepted"])
                end = msgspec.structs.replace(end, limits=limits)
            case "endpoint":
                end = msgspec.structs.replace(end, endpoints=tuple(_endpoints(end, row)))
            case "sysctl" if row["name"] == ENABLED:
                end = msgspec.structs.replace(end, enabled=row["value"] != "0")
            case "sysctl" if row["name"] == JOINS:
                end = msgspec.structs.replace(end, joins=row["value"] != "0")
            case "sysctl" if row["name"] in dict(KERNEL):
                managed = dict(KERNEL)[row["name"]] == row["value"]
                end = msgspec.structs.replace(end, managed=managed)
            case _:
                pass
    return end


def _endpoints(end: End, row: Mapping[str, Any]) -> Iterator[Endpoint]:
    """Its endpoints with one set or gone; the kernel appends new ones, with the next number."""
    there = end.endpoint(row["address"])
    flags = tuple(row.get("flags") or ())
    if there is None or row.get("absent") or not set(there.flags) ^ set(flags) <= _IN_PLACE:
        yield from (endpoint for endpoint in end.endpoints if endpoint is not there)
        if not row.get("absent"):
            number = max((known.id for known in end.endpoints), default=0) + 1
            yield Endpoint(address=row["address"], flags=flags, id=number, device=row.get("device"))
        return
    changed = msgspec.structs.replace(there, flags=flags)
    yield from (changed if known is there else known for known in end.endpoints)
