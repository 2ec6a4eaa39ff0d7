"""Rate of wrong payload delivered by this kernel's MPTCP: many transfers, every byte compared.

A kernel that never did so in n transfers does so, with 95 % confidence, in fewer than 3 of n (the rule of
three). Besides transfers as any program makes them there are a few provoked ones, which meet a known fault of
Linux each time (docs/explanation/kernel-findings.md). Nothing outside its own namespaces is touched, and they
end with it.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from mptune.errors import TrialError
from mptune.linux.sandbox.namespaces import STEP_S, Sites
from mptune.linux.sandbox.processes import Child

#: Page that describes the faults found.
PAGE = "docs/explanation/kernel-findings.md"
#: Rule of three: no event in n trials, then its probability is below this over n, with 95 % confidence.
RULE_OF_THREE = 3
#: Provoked transfers, and their size in bytes.
PROVOKED, _PROVOKED_BYTES = 5, 200_000
#: Sizes of the others, bytes: long enough for the second subflow to join and carry something.
_SIZES = (64_000, 1_000_000)
_RATES_BITS_S, _PROVOKED_RATES_BITS_S = (400_000_000, 200_000_000), (2_000_000, 200_000_000)
#: The kernel's own path manager, under both names of the setting.
_KERNEL_PM = {"net.mptcp.path_manager": "kernel", "net.mptcp.pm_type": "0"}
#: Longest time for one transfer; the process itself gives up earlier, seconds.
_TRANSFER_S = 60.0


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer with wrong payload: the first wrong byte, how many in all, and how many miss at the end."""

    size: int
    provoked: bool
    at: int | None
    wrong_bytes: int
    missing: int


class Integrity(msgspec.Struct, frozen=True, kw_only=True):
    """Findings.

    Attributes
    ----------
    kernel : its release.
    transfers, transferred_bytes, seconds : of the plain transfers.
    provoked : how many provoked ones ran; `not_provoked` is why not all.
    wrong : those with wrong payload.
    """

    kernel: str
    transfers: int
    transferred_bytes: int
    seconds: float
    provoked: int
    not_provoked: str | None
    wrong: list[Wrong]

    @property
    def plain_wrong(self) -> int:
        """Plain transfers with wrong payload."""
        return sum(not wrong.provoked for wrong in self.wrong)

    @property
    def provoked_wrong(self) -> int:
        """Provoked transfers with wrong payload."""
        return len(self.wrong) - self.plain_wrong

    @property
    def fewer_than_one_in(self) -> int | None:
        """Fewer than one in this many plain transfers is wrong (95 %); None if some were, or none ran."""
        least = self.transfers // RULE_OF_THREE
        return least if least > 0 and self.plain_wrong == 0 else None


def examine(
    transfers: int,
    limit_s: float | None = None,
    advance: Callable[[int, int], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Integrity:
    """Transfer, compare, and count.

    Parameters
    ----------
    transfers : plain ones.
    limit_s : stop after this time, even if it were fewer.
    advance : is given the number of transfers done, and of all.

    Raises
    ------
    TrialError : namespaces, devices or MPTCP are not to be had, or a transfer hangs.
    KeyboardInterrupt : nothing is left behind.
    """
    wrong: list[Wrong] = []
    refused, provoked = None, 0
    try:
        for _ in _course(PROVOKED, _PROVOKED_RATES_BITS_S, wrong, provoked=True):
            provoked += 1
    except TrialError as error:
        refused = str(error)
    done = moved = 0
    start = clock()
    for size in _course(transfers, _RATES_BITS_S, wrong, provoked=False):
        done, moved = done + 1, moved + size
        if advance is not None:
            advance(done, transfers)
        if limit_s is not None and clock() - start >= limit_s:
            break
    return Integrity(
        kernel=os.uname().release,
        transfers=done,
        transferred_bytes=moved,
        seconds=clock() - start,
        provoked=provoked,
        not_provoked=refused,
        wrong=wrong,
    )


def _course(
    count: int, rates_bits_s: tuple[int, int], wrong: list[Wrong], *, provoked: bool
) -> Iterator[int]:
    """Run transfers one after another and give the size of each."""
    sizes = random.Random(1)
    with Sites(_KERNEL_PM) as sites, _transfers(sites) as process:
        network = {"local": sites.local, "remote": sites.remote, "bits_s": rates_bits_s}
        process.tell({**network, "seed": 1, "largest": max(*_SIZES, _PROVOKED_BYTES)})
        process.expect("ready", STEP_S)
        for _ in range(count):
            size = _PROVOKED_BYTES if provoked else sizes.randint(*_SIZES)
            process.tell({"size": size, "provoked": provoked})
            result = process.expect("transferred", _TRANSFER_S)
            if result["wrong"] or result["received"] != size:
                wrong.append(
                    Wrong(
                        size=size,
                        provoked=provoked,
                        at=result["wrong"][0][0] if result["wrong"] else None,
                        wrong_bytes=sum(length for _, length in result["wrong"]),
                        missing=size - result["received"],
                    )
                )
            yield size


def _transfers(sites: Sites) -> Child:
    """The process, which enters the user namespace by itself."""
    command = [sys.executable, "-m", "mptune.linux.integrity.transfers"]
    return Child("transfers", [*command, *([] if sites.user is None else [sites.user])], sites.run)
