"""mptune's congestion controls and scheduler as a part of a guest's kernel, which runs no BPF programs.

The text is that of the BPF programs (`bpf/`). This puts it into a kernel's tree, with a source of a few lines
for each window algorithm that kernels lack, and for each pair of a window algorithm and a path policy. In the
kernel they have the names that they have in mptune.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from mptune.guest import trees
from mptune.trial.congestion import PAIRS, PLUS

__all__ = ["add", "digest", "names", "texts"]

#: The text of the programs.
PROGRAMS = Path(__file__).with_name("bpf")
#: Below net/ipv4 of the tree.
_FOLDER = "mptune"
#: Window algorithms that every kernel for guests has itself.
_OF_THE_KERNEL = {"cubic", "reno", "hybla", "scalable", "vegas"}

#: Table of path parameters, and the scheduler.
_TABLE, _SCHEDULER = "builtin/table.c", "scheduler/hold.c"
#: The interface that the scheduler is written for (include/net/mptcp.h of Linux 7.x).
_SCHEDULERS = "(*get_send)(struct mptcp_sock *msk)"

_SOURCE = """\
#define ALGORITHM {name}
#define REGISTERED {name}
#define NAME "{cc}"
/* Of the whole kernel there is one of each name. */
#define _license license_of_{name}
#define paths paths_of_{name}
#include "builtin/headers.h"
{includes}#include "builtin/register.h"
"""
_MAKEFILE = """\
# Before Linux 6.10 it is relative.
here := $(if $(filter /%,$(src)),$(src),$(srctree)/$(src))
ccflags-y += -I$(here)/builtin -I$(here)/include -I$(here) -I$(srctree)/net/mptcp
ccflags-y += -Wno-missing-prototypes -Wno-missing-declarations {defines}
obj-y += {objects}
"""


def names(*, pairs: bool) -> list[str]:
    """Names in mptune of what is added; `pairs` are those with a path policy."""
    alone = sorted({path.stem for path in (PROGRAMS / "congestion").glob("*.h")} - _OF_THE_KERNEL)
    return [*alone, *(PAIRS if pairs else ())]


def texts() -> list[Path]:
    """Every file of the programs' text."""
    folders = ("builtin/bpf", "builtin", "congestion", "include", "scheduling")
    headers = (file for folder in folders for file in sorted((PROGRAMS / folder).glob("*.h")))
    return [PROGRAMS / "program.bpf.c", PROGRAMS / _TABLE, PROGRAMS / _SCHEDULER, *headers]


def digest() -> str:
    """Of that text, 16 characters."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in texts())).hexdigest()[:16]


def add(tree: Path) -> None:
    """Add them to a kernel's tree, or bring those that are there up to date.

    Pairs need the hook `cong_control` with the ACK's flags (Linux 6.10), the scheduler the hook `get_send`.
    """
    header = (tree / "include/net/tcp.h").read_text()
    contents = {str(file.relative_to(PROGRAMS)): file.read_bytes() for file in texts()}
    objects = [str(Path(_TABLE).with_suffix(".o"))]
    if _SCHEDULERS in (tree / "include/net/mptcp.h").read_text():
        objects.append(str(Path(_SCHEDULER).with_suffix(".o")))
    for cc in names(pairs="cong_control)(struct sock *sk, u32 ack, int flag" in header):
        name = cc.replace(PLUS, "_")
        includes = "".join(f'#include "{part}.h"\n' for part in _parts(cc))
        contents[f"{name}.c"] = _SOURCE.format(name=name, cc=cc, includes=includes).encode()
        objects.append(f"{name}.o")
    # Hooks of Cubic that programs may call are known to that file alone.
    cubic = tree / "net/ipv4/tcp_cubic.c"
    trees.put(cubic, cubic.read_bytes().replace(b"__bpf_kfunc static ", b"__bpf_kfunc "))
    defines = "-DTX_START" if "(*cwnd_event_tx_start)" in header else ""
    contents["Makefile"] = _MAKEFILE.format(defines=defines, objects=" ".join(objects)).encode()
    trees.replace(tree / "net/ipv4" / _FOLDER, contents)
    trees.append(tree / "net/ipv4/Makefile", f"obj-y += {_FOLDER}/\n")


def _parts(cc: str) -> Iterator[str]:
    """Headers in their order: the path policy's first."""
    window, _, policy = cc.partition(PLUS)
    if policy:
        yield f"scheduling/{policy}"
    yield f"congestion/{window}"
