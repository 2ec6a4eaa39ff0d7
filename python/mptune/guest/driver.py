"""The network as a part of a guest's kernel: a driver in C, and the simulator's model as an object file.

The object is mptune's own code in Rust (crate mptune-guest-network, MIT licence), compiled with mptune:
whoever builds a kernel needs no Rust. A kernel without the driver has TUN devices, and the emulator is a
process of the guest.
"""

from pathlib import Path

import mptune
from mptune.guest import trees

__all__ = ["OBJECT", "SOURCE", "add", "recipe"]

SOURCE = Path(__file__).with_name("mptune_network.c")
#: The model, for x86-64.
OBJECT = Path(mptune.__file__).parent / "_bin" / "mptune-guest-network.o"
#: Below drivers/net of the tree.
_FOLDER = "mptune"
#: Characters behind the object: the digest of its sources (`shipping/guest_network.py`).
_DIGEST = 64
_MAKEFILE = f"obj-y += {SOURCE.stem}.o model.o\n"


def recipe() -> bytes:
    """Identity of a driver; empty where mptune was installed without the object."""
    return SOURCE.read_bytes() + OBJECT.read_bytes()[-_DIGEST:] if OBJECT.exists() else b""


def add(tree: Path) -> None:
    """Add it to a kernel's tree, if it is there, or bring it up to date."""
    if not OBJECT.exists():
        return
    # An object that is shipped becomes the object itself.
    contents = {SOURCE.name: SOURCE.read_bytes(), "model.o_shipped": OBJECT.read_bytes()}
    trees.replace(tree / "drivers/net" / _FOLDER, contents | {"Makefile": _MAKEFILE.encode()})
    trees.append(tree / "drivers/net/Makefile", f"obj-y += {_FOLDER}/\n")
