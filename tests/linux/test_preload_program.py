"""Programs as `mptune exec` sees them before it starts them: ELF files put together here, and real ones."""

import os
import stat
import struct
import sys
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.linux.preload import program as examined
from mptune.linux.preload.program import find

GLIBC = b"/lib64/ld-linux-x86-64.so.2\0"
MUSL = b"/lib/ld-musl-x86_64.so.1\0"
PT_LOAD, PT_INTERP = 1, 3
WRITABLE = 6


def go_information(version: str) -> bytes:
    """The section of Go's linker: magic, size of pointers, flags (version inline), the version."""
    text = version.encode()
    return (b"\xff Go buildinf:" + bytes([8, 2])).ljust(32, b"\0") + bytes([len(text)]) + text


def old_go_information() -> bytes:
    """Before Go 1.18: pointers to the version."""
    return (b"\xff Go buildinf:" + bytes([8, 0])).ljust(48, b"\1")


def elf(
    *, interpreter: bytes | None = GLIBC, go: bytes = b"", sections: bool = True, machine: int | None = None
) -> bytes:
    """A program for this machine, as far as it is looked at; wide or narrow as this machine's are."""
    with Path("/proc/self/exe").open("rb") as file:
        own = file.read(20)
    wide, order = own[4] == 2, "<" if own[5] == 1 else ">"
    number = struct.unpack_from(f"{order}H", own, 18)[0] if machine is None else machine
    head, entry, row = (64, 56, 64) if wide else (52, 32, 40)
    parts = [(PT_INTERP, 4, interpreter)] if interpreter else []
    parts += [(PT_LOAD, WRITABLE, b"\xff Go buildinf" + bytes(3) + go)]  # beside it, what only begins like it
    names = b"\0.go.buildinfo\0.names\0"
    place = head + entry * len(parts)
    table, body = b"", b""
    for kind, flags, content in parts:
        at = place + len(body)
        size = len(content)
        if wide:
            table += struct.pack(f"{order}IIQQQQQQ", kind, flags, at, 0, 0, size, size, 16)
        else:
            table += struct.pack(f"{order}8I", kind, at, 0, 0, size, size, flags, 16)
        body += content
    go_at, names_at = place + len(body) - len(go), place + len(body)
    rows = [(0, 0, 0), (1, go_at, len(go)), (15, names_at, len(names))] if sections and go else []
    rows_at = names_at + len(names)
    written = b""
    for name, at, size in rows:
        form = f"{order}IIQQQQIIQQ" if wide else f"{order}10I"
        written += struct.pack(form, name, 1, 0, 0, at, size, 0, 0, 0, 0)
    ident = own[:16]
    form = f"{order}HHIQQQIHHHHHH" if wide else f"{order}HHIIIIIHHHHHH"
    header = struct.pack(
        form, 2, number, 1, 0, head, rows_at, 0, head, entry, len(parts), row, len(rows), 2 if rows else 0
    )
    return ident + header + table + body + names + written


@pytest.fixture
def made(tmp_path: Path):
    def make(content: bytes, name: str = "program") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o755)
        return str(path)

    return make


pytestmark = pytest.mark.needs("linux")


def test_a_program_with_a_loader_can_be_preloaded(made):
    path = made(elf())
    assert find(path) == examined.Program(path=Path(path), loaded=Path(path))


def test_the_interpreter_of_these_tests_can_be_preloaded():
    assert find(sys.executable).obstacle is None


@pytest.mark.parametrize(
    ("content", "obstacle"),
    [
        (elf(interpreter=None), "static"),
        (elf(interpreter=MUSL), "musl"),
        (elf(machine=0xF00), "architecture"),
        (elf(interpreter=None, go=go_information("go1.22.1")), "go"),
        (elf(go=go_information("go1.22.1")), "go"),
    ],
    ids=["static", "musl", "architecture", "static-go", "cgo"],
)
def test_what_cannot_be_preloaded_is_recognised(made, content, obstacle):
    assert find(made(content)).obstacle == obstacle


def test_another_class_of_program_is_another_architecture(made):
    content = bytearray(elf())
    content[4] = 3 - content[4]
    with pytest.raises(InputError, match="which is no executable"):  # its tables are elsewhere, too
        find(made(bytes(content[:40])))


@pytest.mark.parametrize("sections", [True, False], ids=["sections", "stripped"])
@pytest.mark.parametrize(
    ("version", "has_mptcp"),
    [("go1.20.14", False), ("go1.21", True), ("go1.21rc2", True), ("go1.26.8", True), ("go2.0", True)],
)
def test_the_version_of_go_shows_whether_it_knows_mptcp(made, version, has_mptcp, sections):
    program = find(made(elf(interpreter=None, go=go_information(version), sections=sections)))
    assert (program.go_version, program.go_has_mptcp) == (version, has_mptcp)


def test_a_go_too_old_to_state_its_version_knows_no_mptcp(made):
    program = find(made(elf(interpreter=None, go=old_go_information())))
    assert (program.obstacle, program.go_version, program.go_has_mptcp) == ("go", "", False)


def test_a_script_is_what_its_interpreter_is(made):
    interpreter = made(elf(interpreter=None), "interpreter")
    middle = made(f"#!{interpreter} -x\necho".encode(), "middle")
    script = find(made(f"#! {middle}\n".encode(), "script"))
    assert (script.loaded, script.obstacle) == (Path(interpreter), "static")


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_a_program_that_takes_other_rights_is_recognised(made, bit, monkeypatch):
    path = made(elf())
    os.chmod(path, 0o755 | bit)  # noqa: PTH101 - as bits
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        assert find(path).obstacle is None
        return
    assert find(path).obstacle is None, "this user's own"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(os, "getgid", lambda: 12345)
    assert find(path).obstacle == "privileges"


def test_what_is_no_program_is_refused(made, tmp_path):
    with pytest.raises(InputError, match=r"COMMAND: expected a program, found no executable 'nonsense-1'"):
        find("nonsense-1")
    for content in (b"", b"echo hello\n", b"\x7fELF", elf()[:70]):
        with pytest.raises(
            InputError, match=r"COMMAND: expected a program, found .*, which is no executable"
        ):
            find(made(content))
    with pytest.raises(InputError, match="cannot read /no/interpreter"):
        find(made(b"#!/no/interpreter\n"))
    (tmp_path / "data").write_bytes(elf())
    with pytest.raises(InputError, match="there"):
        find(str(tmp_path / "data"))
