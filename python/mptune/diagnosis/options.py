"""Options of a diagnosis: what the connection is like now, and the budget."""

from collections.abc import Iterator
from typing import Annotated

from mptune import units
from mptune.options import Option, Options, size, time
from mptune.options.buffers import BUFFER
from mptune.options.path_managers import PathManagerOptions
from mptune.options.stacks import StackOptions
from mptune.options.trials import USUAL_PMS, BufferMode, Cc, InitialPath, Pm, Seed

#: Linux's own limits of growing buffers, bytes: tcp_wmem[2] and tcp_rmem[2] (ip-sysctl.rst).
SEND_BYTES, RECEIVE_BYTES = 4 * units.MIB, 6 * units.MIB


class WhyOptions(Options, frozen=True, kw_only=True):
    """The settings now, and what the diagnosis may cost."""

    budget_ns: Annotated[
        int, Option(time(positive=True), "Time of all trials together, both directions.", flag="--budget")
    ] = 120_000_000_000
    max_data: Annotated[
        int | None,
        Option(size(), "Payload of all trials together, about.", flag="--max-data", unset="no limit"),
    ] = None
    pm: Pm = None
    cc: Cc = "cubic"
    buffer_bytes: Annotated[
        int | None,
        Option(
            BUFFER,
            "Send buffer of the connection now, and receive buffer; a bare number is MiB.",
            flag="--buffer",
            unset="4MiB and 6MiB, Linux's; of hosts their own",
        ),
    ] = None
    receive_bytes: Annotated[
        int | None,
        Option(BUFFER, "Its receive buffer, if it is another.", flag="--receive-buffer", unset="as --buffer"),
    ] = None
    buffer_mode: BufferMode = "auto"
    initial_path: InitialPath = None
    seed: Seed = 1
    stack: StackOptions = StackOptions()
    pm_options: PathManagerOptions = PathManagerOptions()

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Options only of the path manager that is used."""
        for name, pm in self.pm_options.unused((self.manager,)):
            yield f"pm_options.{name}", f"expected only with --pm {pm}, found with {self.manager}"

    @property
    def manager(self) -> str:
        """The path manager."""
        return self.pm or USUAL_PMS["mptcp"]
