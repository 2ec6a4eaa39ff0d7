"""A PDF file brought into one form: the same drawing gives the same bytes.

The library that writes the files numbers and orders their objects as its hash tables happen to be ordered,
differently each time. Here resources are sorted by their names, which are the same in every file, and objects
are numbered as they are reached from the root. It understands what that library writes (a plain table of
references, no object streams), and returns anything else unchanged.
"""

import re

_REFERENCE = re.compile(rb"(?<![\d.])(\d+) 0 R\b")
_OBJECT = re.compile(rb"(\d+) 0 obj\b")
_ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])")
#: Resources of a page or form, one to a line: a name that ends in a number, and an object.
_RESOURCES = re.compile(rb"(?:^[ \t]*/[A-Za-z]+\d+ \d+ 0 R\n)+", re.M)
_STREAM = re.compile(rb"\bstream\r?\n")


def same(pdf: bytes) -> bytes:
    """The file with its objects in the order in which its root refers to them."""
    table = pdf.rfind(b"\nxref")
    trailer = pdf.find(b"trailer", table)
    root, info = (re.search(rb"/%s (\d+) 0 R" % name, pdf[trailer:]) for name in (b"Root", b"Info"))
    starts = sorted(int(at) for at, _, kind in _ENTRY.findall(pdf[table:trailer]) if kind == b"n")
    if table < 0 or trailer < 0 or root is None or not starts:
        return pdf
    objects: dict[int, tuple[bytes, bytes]] = {}
    for start, end in zip(starts, [*starts[1:], table], strict=True):
        head = _OBJECT.match(pdf, start)
        if head is None:
            return pdf
        body = pdf[head.end() : end].rstrip()
        stream = _STREAM.search(body)
        cut = len(body) if stream is None else stream.start()
        objects[int(head[1])] = _RESOURCES.sub(_sorted, body[:cut]), body[cut:]
    roots = [int(match[1]) for match in (root, info) if match is not None]
    numbers = _numbered(roots, objects)
    if set(numbers) - set(objects):
        return pdf
    return _written(pdf[: starts[0]], [numbers[number] for number in roots], numbers, objects)


def _sorted(match: re.Match[bytes]) -> bytes:
    """The lines by their number."""
    lines: list[bytes] = match[0].splitlines(keepends=True)
    lines.sort(key=lambda line: (len(line.split()[0]), line))
    return b"".join(lines)


def _numbered(roots: list[int], objects: dict[int, tuple[bytes, bytes]]) -> dict[int, int]:
    """New numbers by old ones, breadth first."""
    order = dict.fromkeys(roots)
    queue = list(order)
    for number in queue:
        for reference in _REFERENCE.findall(objects.get(number, (b"",))[0]):
            if int(reference) not in order:
                order[int(reference)] = None
                queue.append(int(reference))
    return {old: new for new, old in enumerate(order, start=1)}


def _written(
    head: bytes, roots: list[int], numbers: dict[int, int], objects: dict[int, tuple[bytes, bytes]]
) -> bytes:
    parts, places, size = [head], [], len(head)
    for old, new in numbers.items():
        words, stream = objects[old]
        words = _REFERENCE.sub(lambda match: b"%d 0 R" % numbers[int(match[1])], words)
        part = b"%d 0 obj%s%s\n\n" % (new, words, stream)
        places.append(size)
        parts.append(part)
        size += len(part)
    names = zip((b"Root", b"Info"), roots, strict=False)
    parts += [
        b"xref\n0 %d\n0000000000 65535 f\r\n" % (len(places) + 1),
        *(b"%010d 00000 n\r\n" % place for place in places),
        b"trailer\n<<\n  /Size %d\n" % (len(places) + 1),
        *(b"  /%s %d 0 R\n" % (name, number) for name, number in names),
        b">>\nstartxref\n%d\n%%%%EOF" % size,
    ]
    return b"".join(parts)
