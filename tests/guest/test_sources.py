"""Archives of sources: what is unpacked of them, and what is no such archive."""

import io
import tarfile

import pytest

from mptune.errors import InputError
from mptune.guest import sources
from tests.plugins.bad_input import NO_FILES

TREE = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n",
    "arch/um/Kconfig": "config HZ\n",
    "arch/x86/Kconfig": "",
    "arch/arm64/crypto/Kconfig": "",
    "arch/arm64/Makefile": "",
    "arch/Kconfig": "",
    "Documentation/Kconfig": "",
    "Documentation/index.rst": "text",
    "net/mptcp/protocol.c": "code",
    "drivers/gpu/drm/Kconfig": "",
    "drivers/gpu/drm/drm.c": "code",
}


def archive(path, files, top="linux-7.3.4/"):
    with tarfile.open(path, "w:xz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return sources.Source(path, path.name)


def unpacked(source, tmp_path):
    return sources.unpack(source, tmp_path / "tree", lambda share: None)


def test_what_no_guest_needs_is_left_out(tmp_path):
    tree = unpacked(archive(tmp_path / "linux.tar.xz", TREE), tmp_path)
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert files == set(TREE) - {"arch/arm64/Makefile", "Documentation/index.rst", "drivers/gpu/drm/drm.c"}
    assert sources.version_of(tree) == ("7.3", "7.3.4")


@pytest.mark.parametrize(
    "files",
    [{}, {"Makefile": TREE["Makefile"]}, {"arch/x86/Kconfig": ""}],
    ids=["empty", "makefile", "no um"],
)
def test_an_archive_of_something_else_is_refused(tmp_path, files):
    (tmp_path / "tree").mkdir()
    with pytest.raises(InputError, match=r"--source: expected an archive of Linux's sources"):
        unpacked(archive(tmp_path / "other.tar.xz", files), tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", b"\xfd7zXZ\0rest"], ids=["empty", "text", "damaged"])
@pytest.mark.parametrize("name", ["linux.tar.xz", "linux.tar"])
def test_a_file_that_is_no_archive_is_refused(tmp_path, name, content):
    (tmp_path / "tree").mkdir()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"^--source: expected an archive of Linux's sources"):
        unpacked(sources.Source(tmp_path / name, name), tmp_path)


@pytest.mark.parametrize("maker", [*NO_FILES, None])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, maker):
    if maker is not None:
        maker(tmp_path / "linux.tar.xz")
    with pytest.raises(InputError, match=r"^--source: expected an archive of Linux's sources, found .*linux"):
        unpacked(sources.Source(tmp_path / "linux.tar.xz", ""), tmp_path)


def test_an_archive_that_ends_early_is_refused(tmp_path):
    whole = archive(tmp_path / "linux.tar.xz", TREE).archive.read_bytes()
    (tmp_path / "linux.tar.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"^--source: expected an archive"):
        unpacked(sources.Source(tmp_path / "linux.tar.xz", ""), tmp_path)


@pytest.mark.parametrize("filters", [True, False], ids=["this Python", "3.11.2"])
def test_members_that_lead_elsewhere_are_not_followed(tmp_path, monkeypatch, filters):
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    files = TREE | {"../../outside": "text"}
    with pytest.raises(InputError, match=r"^--source: expected an archive"):
        unpacked(archive(tmp_path / "linux.tar.xz", files), tmp_path)
    assert not (tmp_path.parent / "outside").exists()


def test_a_makefile_without_a_version_is_refused(tmp_path):
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(InputError, match="expected a version"):
        sources.version_of(tmp_path)
