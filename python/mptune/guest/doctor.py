"""Abilities of this machine for trials in virtual time, as `mptune.linux.doctor` reports others."""

import platform

from mptune.guest import building, kernels
from mptune.linux.doctor import Finding

#: The machines for which User Mode Linux exists (arch/um).
_MACHINES = ("x86_64",)


def examine() -> Finding:
    """Look for kernels, or else for what building one takes."""
    name = "kernels for virtual time"
    built = kernels.built()
    machine = platform.machine()
    if machine not in _MACHINES:
        remedy = f"needs a machine of {', '.join(_MACHINES)}"
        return Finding(name=name, state="missing", found=f"no User Mode Linux for {machine}", remedy=remedy)
    if not built:
        missing = building.lacking()
        install = f"apt-get install {' '.join(missing)}, then " if missing else ""
        remedy = f"{install}mptune kernel build (--testbed virtual needs one)"
        return Finding(name=name, state="missing", found="none is built", remedy=remedy)
    stale = [kernel.release for kernel in built if not building.is_current(kernel)]
    found = ", ".join(f"Linux {kernel.version}" for kernel in built)
    if stale:
        remedy = f"built by another mptune: mptune kernel build {stale[0]}"
        return Finding(name=name, state="limited", found=found, remedy=remedy)
    return Finding(name=name, state="ok", found=found)
