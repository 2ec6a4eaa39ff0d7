"""Routes over time as a part of a campaign: the option, and the testbed that traces them between trials."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

from mptune import files, testbeds
from mptune.errors import InputError, MptuneError
from mptune.options import TEXT, Option, Options, time
from mptune.testbeds import Testbed
from mptune.topology import Topology

#: Shortest interval, nanoseconds: tracing takes seconds, in which no trial runs.
_LEAST_NS = 10_000_000_000


class RoutesOptions(Options, frozen=True, kw_only=True):
    """Routes of the paths, traced while a campaign runs.

    Attributes
    ----------
    networks : file with the autonomous systems of routers; relative to the campaign file.
    """

    every_ns: Annotated[
        int | None,
        Option(time(positive=True), "Trace the routes of all paths at this interval.", key="routes.every"),
    ] = None
    networks: Annotated[
        str | None,
        Option(TEXT, "A CSV file with autonomous systems by prefix.", key="routes.networks"),
    ] = None

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Networks are those of routes, and tracing needs some time."""
        if self.every_ns is None and self.networks is not None:
            yield "networks", "expected only together with every"
        if self.every_ns is not None and self.every_ns < _LEAST_NS:
            yield "every_ns", f"expected at least {_LEAST_NS // 10**9} s"

    def check_on(self, testbed: str, where: str) -> None:
        """Refuse routes that a testbed does not have, and an unreadable file of networks.

        Raises
        ------
        InputError : naming the key, or the line of the file.
        """
        if self.every_ns is not None and not testbeds.create(testbed).traces:
            expected = f'expected only with testbed = "hosts", found {testbed}'
            raise InputError(where, "routes.every", expected)
        if self.networks is not None:
            from mptune.routes.networks import read_networks

            read_networks(Path(self.networks))


def keep_networks(options: RoutesOptions, directory: Path) -> None:
    """Copy the file of networks to the others of the run.

    Raises
    ------
    MptuneError : it cannot be read or written any more.
    """
    from mptune.routes.keeping import NETWORKS

    if options.networks is not None:
        try:
            files.write(directory / NETWORKS, files.read_bytes(Path(options.networks)))
        except OSError as error:
            raise MptuneError(f"{options.networks}: {error.strerror}") from None


def follow(options: RoutesOptions, topology: Topology, testbed: Testbed, directory: Path) -> None:
    """Have the testbed trace routes from now on, if that is wanted."""
    from mptune.routes.keeping import ROUTES, Follower

    if options.every_ns is not None:
        every_ns, file = options.every_ns, directory / ROUTES
        testbed.follow(lambda: Follower(every_ns, lambda: testbed.trace(topology), file))


def waiting(testbed: Testbed, wait: Callable[[datetime], None]) -> Callable[[datetime], None]:
    """A wait until a time in which routes are traced that become due."""

    def until(moment: datetime) -> None:
        while (due := testbed.due) is not None and due < moment:
            wait(due)
            testbed.follow_now()
        wait(moment)

    return until
