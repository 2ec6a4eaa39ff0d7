"""BPF objects of the kernel by their numbers, read with libbpf: whether something was left behind."""

import ctypes

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
