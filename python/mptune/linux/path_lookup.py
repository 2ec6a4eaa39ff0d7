"""Paths and their addresses, as the kernel reports them."""

import socket
from collections.abc import Sequence

from mptune.linux.assignment import KernelPath
from mptune.linux.mptcp_messages import Endpoint, Pair, plain


def find_path(paths: Sequence[KernelPath], pair: Pair) -> int | None:
    """Number of the path between the addresses of a pair."""
    addresses = (pair.local.address, pair.remote.address)
    for number, path in enumerate(paths):
        if any((plain(local), plain(remote)) == addresses for local, remote in path.pairs):
            return number
    return None


def addresses_of(path: KernelPath, family: socket.AddressFamily) -> tuple[str, str] | None:
    """Local and remote address of a path in a family."""
    for local, remote in path.pairs:
        if Endpoint(local).family == family:
            return local, remote
    return None
