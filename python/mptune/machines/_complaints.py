"""What ssh complains about, passed on in one line with what to do about it."""

import re

#: What ssh writes -> what helps; the first match counts. {target} is the name in the topology.
_REMEDIES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed. If that is expected, remove the old one (ssh-keygen -R), "
        "then accept the new one with `ssh {target}`",
    ),
    ("Host key verification failed", "its host key is not known here: accept it once with `ssh {target}`"),
    (
        r"Permission denied \(",
        "{said}: `ssh -o BatchMode=yes {target} true` must work without a question (ssh-copy-id, ssh-add)",
    ),
    ("Could not resolve hostname", "unreachable: {said}: write ssh = as ssh itself understands it"),
    (
        "Connection timed out|Operation timed out|timed out during banner",
        "unreachable: {said}: is it switched on, and does a firewall let SSH through?",
    ),
    ("Connection refused", "unreachable: {said}: is an SSH server running there?"),
    ("No route to host|Network is unreachable", "unreachable: {said}"),
    ("This account is currently not available|nologin", "{said}: the account needs a login shell"),
    ("GLIBC|cannot execute|Exec format error", "the agent does not run there: {said}"),
)


def complaint(target: str, stderr: str, otherwise: str) -> str:
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
                said = line.removeprefix("ssh: ").strip("@ ").rstrip(".")
                return remedy.format(target=target, said=said)
    return lines[-1].removeprefix("ssh: ") if lines else otherwise
