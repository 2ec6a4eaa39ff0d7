"""The network's driver in a kernel's tree, and what makes kernels with it the same."""

import pytest

from mptune.guest import building, driver


@pytest.fixture
def tree(tmp_path):
    net = tmp_path / "drivers/net"
    net.mkdir(parents=True)
    (net / "Makefile").write_text("obj-y += phy/\n")
    return tmp_path


@pytest.fixture
def object_file(tmp_path, monkeypatch):
    """Makes an object with a digest."""
    file = tmp_path / "network.o"
    monkeypatch.setattr(driver, "OBJECT", file)
    return lambda code, digest: file.write_bytes(code + digest * 64)


def test_source_and_object_are_added_to_the_tree(tree, object_file):
    object_file(b"code", b"a")
    driver.add(tree)
    folder = tree / "drivers/net/mptune"
    assert (folder / "Makefile").read_text() == "obj-y += mptune_network.o model.o\n"
    assert (folder / "mptune_network.c").read_bytes() == driver.SOURCE.read_bytes()
    assert (folder / "model.o_shipped").read_bytes() == b"code" + b"a" * 64
    assert (tree / "drivers/net/Makefile").read_text() == "obj-y += phy/\nobj-y += mptune/\n"


def test_without_the_object_a_kernel_is_built_without_the_driver(tree, monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "OBJECT", tmp_path / "missing.o")
    driver.add(tree)
    assert not (tree / "drivers/net/mptune").exists() and driver.recipe() == b""
    assert len(building.recipe()) == 16


def test_the_recipe_follows_the_sources_of_the_object_and_not_the_compiler(object_file):
    recipes = []
    for code, digest in ((b"one", b"a"), (b"another", b"a"), (b"one", b"b")):
        object_file(code, digest)
        recipes.append(building.recipe())
    assert recipes[0] == recipes[1] != recipes[2]
