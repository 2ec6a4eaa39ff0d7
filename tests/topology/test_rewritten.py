"""Topology files written again: the same network, but for what is to change."""

from pathlib import Path

import pytest

from mptune.topology import Change, load, rewritten, shipped


@pytest.mark.parametrize("name", shipped())
def test_without_a_change_it_is_the_same_network(name: str, tmp_path: Path) -> None:
    target = tmp_path / "again.toml"
    target.write_text(rewritten(name, {}, name="again", folder=tmp_path))
    before, after = load(name), load(target)
    assert after.network() == before.network()
    assert after.name == "again"
    assert {key: (origin.source, origin.assumed) for key, origin in after.provenance.items()} == {
        key: (origin.source, origin.assumed) for key, origin in before.provenance.items()
    }


def test_a_change_has_its_origin_and_leaves_the_rest(tmp_path: Path) -> None:
    changes = {
        "sites.HiN.interfaces.P.queue_down": Change("123 kB", "assumed", 'inferred from "x"'),
        "core.segments.U-U.loss": Change("3 ppm", "measured", "today"),
    }
    target = tmp_path / "changed.toml"
    target.write_text(
        rewritten(
            "UNIS-HiN",
            changes,
            name="changed",
            background=[{"kind": "tcp", "path": "U-U", "cc": "cubic"}],
            comments=["of a test"],
        )
    )
    assert target.read_text().startswith("# of a test\n")
    before, after = load("UNIS-HiN"), load(target)
    assert after.receiver.interfaces[1].queue_down_bytes == 123_000
    assert after.path("U-U", "").core.loss_ppb == 3_000
    assert after.provenance["sites.HiN.interfaces.P.queue_down"].assumed == 'inferred from "x"'
    assert after.provenance["core.segments.U-U.loss"].measured == "today"
    assert [flow.path for flow in after.background if hasattr(flow, "path")] == ["U-U"]
    assert after.path("U-B", "") == before.path("U-B", "")


def test_a_segment_that_the_file_does_not_name_is_added(tmp_path: Path) -> None:
    target = tmp_path / "added.toml"
    target.write_text(
        rewritten("CLOUD-HOME.day", {"core.segments.T-D.loss": Change("1 %", "assumed", "x")}, name="added")
    )
    assert load(target).path("T-D", "").core.loss_ppb == 10_000_000
