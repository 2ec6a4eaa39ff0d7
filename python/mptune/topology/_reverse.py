"""The parts of a topology when sender and receiver are exchanged.

Values of a site's links stay with the site: up stays up, down stays down. Values relative to
the direction of the data stays relative to it: a core segment loses data, not ACKs, whichever way the data
go, and a TCP connection of others runs in their direction. So the result is what the same file means with
`sender` and `receiver` exchanged and the two halves of every path's label with them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mptune.topology._families import label
from mptune.topology._flows import Background, TcpBackground
from mptune.topology._sites import Path, Provenance

#: End of the name of a topology in reverse.
REVERSED = "-reversed"

_SEGMENTS = "core.segments."
_CORE_WAYS = ("forward", "back")


def reverse_name(name: str) -> str:
    """Name of the topology the other way round."""
    return name.removesuffix(REVERSED) if name.endswith(REVERSED) else name + REVERSED


def reverse_labels(paths: Sequence[Path]) -> dict[str, str]:
    """Label of every path, and name of every segment -> what it is called the other way round."""
    segments = {path.crosses: label(path.remote, path.local, None) for path in paths}
    return segments | {path.label: label(path.remote, path.local, path.family) for path in paths}


def reverse_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """All paths, by the interfaces of the new sender, those over IPv4 first; core segments as they are."""
    labels = reverse_labels(paths)
    turned = (
        msgspec.structs.replace(
            path,
            label=labels[path.label],
            local_index=path.remote_index,
            remote_index=path.local_index,
            local=path.remote,
            remote=path.local,
            segment=None if path.segment is None else labels[path.segment],
        )
        for path in paths
    )
    return tuple(
        sorted(turned, key=lambda path: (path.family == "ipv6", path.local_index, path.remote_index))
    )


def reverse_background(flow: Background, labels: Mapping[str, str]) -> Background:
    """The flow on the path or core link of the new name; access links keep theirs."""
    if isinstance(flow, TcpBackground):
        return msgspec.structs.replace(flow, path=_place(flow.path, labels))
    return msgspec.structs.replace(flow, link=_place(flow.link, labels))


def reverse_provenance(
    provenance: Mapping[str, Provenance], labels: Mapping[str, str]
) -> dict[str, Provenance]:
    """Origin of every value, by its keys in the reverse direction."""
    found = {}
    for key, each_provenance in provenance.items():
        if key == "initial_path" or (key.startswith("background[") and key.endswith((".path", ".link"))):
            each_provenance = msgspec.structs.replace(
                each_provenance, value=_place(each_provenance.value, labels)
            )
        found[_key(key, labels)] = each_provenance
    return found


def reverse_missing(
    missing: Collection[str], labels: Mapping[str, str], possible: Iterable[str]
) -> tuple[str, ...]:
    """Keys of what is not known the other way round, in the order of all `possible` ones there."""
    turned = {_key(key, labels) for key in missing}
    return tuple(key for key in possible if key in turned)


def _place(name: str, labels: Mapping[str, str]) -> str:
    """Name of a path, or a link, in the reverse direction."""
    segment, _, way = name.rpartition(" ")
    return f"{labels.get(segment, segment)} {way}" if way in _CORE_WAYS else labels.get(name, name)


def _key(key: str, labels: Mapping[str, str]) -> str:
    """Dotted key of a value, with the new label of its segment."""
    if not key.startswith(_SEGMENTS):
        return key
    segment, dot, rest = key.removeprefix(_SEGMENTS).partition(".")
    return f"{_SEGMENTS}{labels.get(segment, segment)}{dot}{rest}"
