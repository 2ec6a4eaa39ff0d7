"""sysctl.d(5): sysctls at every boot. Not endpoints and not routes, which are no sysctls."""

from mptune.apply.files._base import HEADER, File, sysctls
from mptune.apply.plan import HostPlan

#: Its name; later ones win, and distributions use numbers up to 60.
NAME = "90-mptune.conf"


def files(host: HostPlan) -> list[File]:
    """One file; none without sysctls."""
    lines = [HEADER, *(f"{sysctl.name} = {sysctl.value}" for sysctl in sysctls(host))]
    return [File(NAME, ("\n".join(lines) + "\n").encode(), f"/etc/sysctl.d/{NAME}")]
