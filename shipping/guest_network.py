"""The part of a guest's kernel as one object file, of the static library that cargo makes.

The object has the functions that the driver calls
(`python/mptune/guest/mptune_network.c`), whatever of the library they need, and no other name that the kernel
could have too. A kernel cannot unwind, and the allocator of C is not the library's: both are replaced by a
panic. It needs the linker and objcopy of binutils, and works for x86-64 alone, as such guests do.

Behind the object is the digest of its sources, by which kernels are known to be of this version (`recipe` of
`mptune.guest.building`): what a compiler makes of them is not the same everywhere.
"""

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

#: The driver's functions: those of crates/mptune-guest-network/src/boundary.rs.
PREFIX = "mptune_model_"
_NAMES = ("new", "free", "tell", "read", "devices", "frame", "enter", "deliver", "next", "fault")
FUNCTIONS = tuple(PREFIX + name for name in _NAMES)
_FAULT = PREFIX + "fault"
#: Crates whose code is in it.
_CRATES = ("mptune-core", "mptune-emulator", "mptune-guest-network")
#: Sections of the object. What is left out is for compilers, debuggers and unwinding.
_KEPT = ("text", "rodata", "data.rel.ro", "data", "bss", "tdata", "tbss", "init_array")
_LEFT_OUT = ("debug*", "llvmbc", "llvmcmd", "eh_frame", "gcc_except_table*", "comment", "note*")
#: A symbol that others have to define, as readelf prints it.
_UNDEFINED = re.compile(r" UND (_Unwind_\w+|malloc|calloc|realloc|free|posix_memalign)$", re.MULTILINE)


def linked(archive: Path, crates: Path) -> bytes:
    """The object of a static library that was made of these crates, and its digest in hexadecimal."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        script = folder / "sections.ld"
        kept = "".join(f".{name} 0 : {{ *(.{name} .{name}.*) }}\n" for name in _KEPT)
        left_out = " ".join(f"*(.{name})" for name in _LEFT_OUT)
        script.write_text(f"SECTIONS {{\n{kept}/DISCARD/ : {{ {left_out} }}\n}}\n")
        first, second, last = (folder / f"{number}.o" for number in range(3))
        roots = [f"--undefined={name}" for name in FUNCTIONS]
        link = [
            "ld",
            "--relocatable",
            "--gc-sections",
            f"--script={script}",
            f"--entry={FUNCTIONS[0]}",
            *roots,
        ]
        _run([*link, f"--output={first}", str(archive)])
        missing = _UNDEFINED.findall(_run(["readelf", "--symbols", "--wide", str(first)]))
        replaced = [f"--defsym={name}={_FAULT}" for name in sorted(set(missing))]
        _run([*link, *replaced, f"--output={second}", str(archive)])
        known = [f"--keep-global-symbol={name}" for name in FUNCTIONS]
        _run(["objcopy", "--strip-unneeded", *known, str(second), str(last)])
        return last.read_bytes() + _digest(crates).encode()


def _digest(crates: Path) -> str:
    """Of the sources without their tests; 64 characters."""
    files = sorted(file for crate in _CRATES for file in (crates / crate / "src").rglob("*.rs"))
    hashed = hashlib.sha256()
    for file in files:
        if file.name != "tests.rs":
            hashed.update(file.read_bytes())
    return hashed.hexdigest()


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
