"""One thread for numpy's matrices, in this program and not in those that it starts for its user."""

import os

_VARIABLE = "OPENBLAS_NUM_THREADS"

_set = False


def limit() -> None:
    """Let numpy, which reads it when it is loaded, use one thread, unless the user has set how many.

    The matrices are small and the processors have trials to run: BLAS's threads, which wait by spinning, cost
    several times what they give, and hundreds of times on a busy machine.
    """
    global _set
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = "1"
        _set = True


def inherited() -> dict[str, str]:
    """The environment as it was before `limit`, for programs of the user."""
    own = dict(os.environ)
    if _set:
        own.pop(_VARIABLE, None)
    return own
