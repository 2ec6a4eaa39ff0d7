"""The errors a user can meet, and the exit code of each.

One tree, drawn here once::

    MptuneError                 exit 1: the work could not be done
    ├── InputError              exit 2: something the user wrote is wrong
    └── TrialError              exit 1: one trial failed (campaigns record it and go on)

This module formats one-line messages; it neither prints them nor exits: that is `mptune.cli`.
"""


class MptuneError(Exception):
    """Base of every error whose message is meant for the user (one line, no traceback)."""

    exit_code = 1


class InputError(MptuneError):
    """Bad input: names where it stands, which key, and what was expected.

    Parameters
    ----------
    where : the file or command-line option the value came from.
    key : the key inside it (dotted path), or "" when the whole of `where` is meant.
    expected : what was expected, and what was found instead.
    """

    exit_code = 2

    def __init__(self, where: str, key: str, expected: str) -> None:
        self.where, self.key, self.expected = where, key, expected
        super().__init__(": ".join(part for part in (where, key, expected) if part))


class TrialError(MptuneError):
    """A trial that could not be carried out; the message is the reason that gets recorded."""
