"""Errors of ssh, passed on in one line with a remedy."""

import re
from typing import NamedTuple


class Complaint(NamedTuple):
    """Why ssh failed, in one line, and whether the host is away: it may be back without any remedy."""

    text: str
    away: bool = False


#: ssh's message -> remedy; the first match counts. {target} is the name in the topology.
_REMEDIES = (
    ("Temporary failure in name resolution", Complaint("unreachable: {message}", away=True)),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        Complaint(
            "its host key has changed. If that is expected, remove the old one (ssh-keygen -R), "
            "then accept the new one with `ssh {target}`"
        ),
    ),
    (
        "Host key verification failed",
        Complaint("its host key is not known here: accept it once with `ssh {target}`"),
    ),
    (
        r"Permission denied \(",
        Complaint(
            "{message}: `ssh -o BatchMode=yes {target} true` must work without a question "
            "(ssh-copy-id, ssh-add)"
        ),
    ),
    (
        "Could not resolve hostname",
        Complaint("unreachable: {message}: expected a host that `ssh {target}` finds (~/.ssh/config, DNS)"),
    ),
    (
        "Connection timed out|Operation timed out|timed out during banner",
        Complaint(
            "unreachable: {message}: is it switched on, and does a firewall let SSH through?", away=True
        ),
    ),
    ("Connection refused", Complaint("unreachable: {message}: is an SSH server running there?", away=True)),
    ("No route to host|Network is unreachable", Complaint("unreachable: {message}", away=True)),
    (
        "This account is currently not available|nologin",
        Complaint("{message}: the account needs a login shell"),
    ),
    ("GLIBC|cannot execute|Exec format error", Complaint("the agent does not run there: {message}")),
    # While it goes down or comes up, sshd answers and hangs up.
    ("Connection (closed|reset) by|Broken pipe", Complaint("unreachable: {message}", away=True)),
)


def complaint(target: str, stderr: str, otherwise: str) -> Complaint:
    """Why ssh failed, in one line.

    Parameters
    ----------
    stderr : all that it wrote.
    otherwise : the reason if it wrote nothing.
    """
    lines = [line.strip() for line in stderr.split("\n") if line.strip()]
    for pattern, remedy in _REMEDIES:
        for line in lines:
            if re.search(pattern, line):
                # Its own line, without the program's name.
                message = line.removeprefix("ssh: ").strip("@ ").rstrip(".")
                return remedy._replace(text=remedy.text.format(target=target, message=message))
    return Complaint(lines[-1].removeprefix("ssh: ") if lines else otherwise)
