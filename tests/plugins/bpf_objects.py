"""BPF objects of the kernel by their numbers, read with libbpf: whether something was left behind."""

import ctypes
import os
import re
from pathlib import Path

KINDS = ("prog", "map", "link", "btf")


def objects() -> set[tuple[str, int]]:
    """Kind and number of every BPF program, map, link and type information in the kernel."""
    library = ctypes.CDLL("libbpf.so.1")
    objects = set()
    for kind in KINDS:
        following = getattr(library, f"bpf_{kind}_get_next_id")
        number = ctypes.c_uint32(0)
        while following(number, ctypes.byref(number)) == 0:
            objects.add((kind, number.value))
    return objects


def verified(program: int) -> int:
    """Instructions that the verifier followed in a program, at most a million; 0 if it is gone."""
    descriptor = ctypes.CDLL("libbpf.so.1").bpf_prog_get_fd_by_id(ctypes.c_uint32(program))
    if descriptor < 0:
        return 0  # another test's
    try:
        facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    finally:
        os.close(descriptor)
    return int(re.findall(r"verified_insns:\s*(\d+)", facts)[0])
