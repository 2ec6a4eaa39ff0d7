"""`mptune paths`: the table, the origins of the values, and the JSON that tools read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.topology import load
from tests.plugins import two_hosts

runner = CliRunner()


def test_json_lists_every_path_and_every_value() -> None:
    result = runner.invoke(app, ["paths", "UNIS-HiN", "--json"])
    assert result.exit_code == 0
    document, topology = json.loads(result.stdout), load("UNIS-HiN")
    assert [path["path"] for path in document["paths"]] == [path.label for path in topology.paths]
    slow = next(path for path in document["paths"] if path["path"] == "U-P")
    expected = {
        "local": "Uninett",
        "remote": "PowerTech",
        "rate_bps": 6_000_000,
        "rtt_ms": 45.0,
        "loss": 0.001,
    }
    assert expected.items() <= slow.items()
    assert slow["bdp_bytes"] == 6_000_000 * 45 // 8000
    origins = {entry["key"]: entry for entry in [*document["published"], *document["assumed"]]}
    assert origins.keys() == topology.provenance.keys()
    assert origins["sites.HiN.interfaces.P.down"]["source"] == "MPCOA (Electronics 2021), Table 1"
    assert "274.2" in origins["sites.UNIS.interfaces.U.up"]["reason"]
    assert origins["lsrr"]["default"]


def test_output_into_a_pipe_is_neither_cut_nor_wrapped() -> None:
    lines = runner.invoke(app, ["paths", "SRL-HU"]).stdout.splitlines()
    assert "…" not in "".join(lines)
    row = next(line for line in lines if line.startswith("T-CU"))
    assert " ".join(row.split()) == "T-CU Telenor CnUnicom 768 kbit/s 386 ms 0.1 % 132.8 KiB 36.19 KiB"
    for origin in load("SRL-HU").provenance.values():
        assert any((origin.source or origin.assumed or "") == line.strip() for line in lines)


def test_every_value_stands_below_its_origin() -> None:
    lines = [line.strip() for line in runner.invoke(app, ["paths", "UiT-HAW"]).stdout.splitlines()]
    published = lines[lines.index("Published") + 1 : lines.index("Assumed in the file")]
    assert published[0] == "MPCOA (Electronics 2021), Table 1"
    assert "UiT.P.up = 512 kbit/s" in published[1]
    reason = next(line for line in lines if line.startswith("the pair's RTTmax is 1.8 s"))
    assert lines[lines.index(reason) + 1] == "UiT.P.queue_up = 112 kB; UiT.T.queue_up = 84 kB"


def test_bad_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("name = 'x'\nspeed = 3\n", encoding="utf-8")
    for extra in ([], ["--json"]):
        result = runner.invoke(app, ["paths", str(file), *extra])
        assert result.exit_code == 2
        assert result.stderr.startswith(f"mptune: error: {file}: speed: unknown key")
        assert result.stdout == ""


@pytest.mark.parametrize("module", ["numpy", "pandas", "statsmodels", "altair", "rich", "dask"])
def test_importing_the_cli_leaves_the_heavy_modules_alone(module: str) -> None:
    code = f"import sys, mptune.cli; mptune.cli.app; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_links_do_and_others_send_is_shown_where_there_is_any() -> None:
    lines = runner.invoke(app, ["paths", "CLOUD-HOME.hybrid"]).stdout.splitlines()
    at = lines.index("Further effects of links")
    assert lines[at + 1] == "  HOME M down: rate trace, 6.271 Mbit/s on average, repeating every 60 s"
    at = lines.index("Background traffic")
    assert lines[at + 1] == "  UDP on HOME D down, 1.2 Mbit/s in packets of 1200 bytes"
    assert lines[at + 2] == "  TCP on T-D, cubic, from 10 s, until 20 s"
    plain = runner.invoke(app, ["paths", "UNIS-HiN"]).stdout
    assert "Further effects of links" not in plain and "Background" not in plain and "long run" not in plain


def test_json_lists_effects_and_background() -> None:
    document = json.loads(runner.invoke(app, ["paths", "HOME-CLOUD.fq_codel", "--json"]).stdout)
    assert list(document["effects"]) == ["HOME D up"]
    assert document["effects"]["HOME D up"][0].startswith("FQ-CoDel, 12 ms in 120 ms")
    assert len(document["background"]) == 1
    plain = json.loads(runner.invoke(app, ["paths", "UNIS-HiN", "--json"]).stdout)
    assert (plain["effects"], plain["background"]) == ({}, [])


def test_every_effect_has_its_words(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n", encoding="ascii")
    file = tmp_path / "all.toml"
    file.write_text(
        """
name = "all"
sender = "A"
receiver = "B"
core = { delay = "5 ms", rate = "9 Mbit/s", discipline = { kind = "step", mark = "9 kB" } }

[sites.A]
name = "A"
interfaces = [{ isp = "a", abbr = "a", up = "1 Mbit/s", down = "1 Mbit/s" }]

[sites.B]
name = "B"

[[sites.B.interfaces]]
isp = "b"
abbr = "b"
up = "1 Mbit/s"
trace_down = "lte.trace"
bucket_up = { rate = "0.5 Mbit/s", burst = "3 kB" }
discipline_up = { kind = "red", min = "10 kB", max = "30 kB", ecn = true }
discipline_down = "codel"
gilbert_elliott_down = { enter = "1 %", leave = "24 %", bad_loss = "50 %" }
reorder_up = { probability = "1 %", delay = "2 ms" }
duplicate_up = "0.5 %"
schedule = [{ at = "1 s", up = "2 Mbit/s" }, { at = "2 s", up = "3 Mbit/s" }]
schedule_period = "3 s"

[[background]]
kind = "udp"
link = "B b up"
rate = "1 Mbit/s"
on = "1 s"
off = "2 s"
""",
        encoding="utf-8",
    )
    lines = runner.invoke(app, ["paths", str(file)]).stdout.splitlines()
    assert "  a-b forward, a-b back: ECN marks above 8.789 KiB" in lines
    document = json.loads(runner.invoke(app, ["paths", str(file), "--json"]).stdout)
    assert document["effects"] == {
        "B b up": [
            "schedule of 2 steps repeating every 3 s, 2.667 Mbit/s in the long run",
            "token bucket, 500 kbit/s and 2.93 KiB",
            "RED, 9.766 KiB to 29.3 KiB, marks ECN",
            "1 % of the packets 2 ms late",
            "0.5 % of the packets twice",
        ],
        "B b down": [
            "rate trace, 12 Mbit/s on average, repeating every 1 ms",
            "CoDel, 5 ms in 100 ms, drops",
            "Gilbert-Elliott losses, 2 % on average, bad for 4.17 packets at a time",
        ],
        "a-b forward": ["ECN marks above 8.789 KiB"],
        "a-b back": ["ECN marks above 8.789 KiB"],
    }
    assert document["background"] == [
        "UDP on B b up, 1 Mbit/s in packets of 1500 bytes, 1 s on, 2 s off on average"
    ]


@pytest.mark.parametrize("command", [["paths"], ["campaign", "run"]])
@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a" + ".a" * 5000 + " = 1"])
def test_what_is_nested_too_deeply_is_one_line(command: list[str], text: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(text)
    result = CliRunner().invoke(app, [*command, str(file)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"mptune: error: {file}: ") and result.stderr.count("\n") == 1
    assert len(result.stderr) < 500


def test_what_nobody_knows_is_not_shown_as_a_number(tmp_path: Path) -> None:
    file = str(two_hosts.write(tmp_path))
    lines = runner.invoke(app, ["paths", file]).stdout.splitlines()
    by_path = {line.split()[0]: " ".join(line.split()) for line in lines if line.startswith(tuple("ABC"))}
    assert by_path["A-X"] == "A-X Fibre Transit 41 Mbit/s 300 us 0 % 150.1 KiB 1.502 KiB"
    for label, isp in (("B-X", "Cable"), ("C-X", "Mobile")):
        assert by_path[label] == f"{label} {isp} Transit not known not known 0 % not known not known"
    (unknown,) = [line for line in lines if line.startswith("Not known: ")]
    assert unknown.startswith("Not known: S.A.down, S.B.up") and unknown.endswith(
        "`mptune probe` measures that."
    )
    document = json.loads(runner.invoke(app, ["paths", file, "--json"]).stdout)
    assert tuple(document["missing"]) == two_hosts.MISSING
    numbers = [
        [path[name] for name in ("rate_bps", "rtt_ms", "queue_bytes", "bdp_bytes")]
        for path in document["paths"]
    ]
    assert numbers == [[41_000_000, 0.3, 153_750, 1538], [None] * 4, [None] * 4]


def test_measured_values_and_hosts_are_shown(tmp_path: Path) -> None:
    file = str(two_hosts.write(tmp_path))
    lines = [line.strip() for line in runner.invoke(app, ["paths", file]).stdout.splitlines()]
    at = lines.index("Measured")
    assert lines[at + 1 : at + 5] == [
        "2026-11-22, 5 probes",
        "S.A.up = 41 Mbit/s",
        "2026-11-22, smallest of 20",
        "A-X.rtt = 300 us",
    ]
    at = lines.index("Hosts")
    assert (
        lines[at + 1] == "S: ssh me@laptop.example; A is eth0; B is eth1; C is wwan0, metered, at most 2 GB"
    )
    assert lines[at + 2] == "R: ssh server; X is 192.0.2.1"
    document = json.loads(runner.invoke(app, ["paths", file, "--json"]).stdout)
    assert document["measured"][0] == {
        "key": "sites.S.interfaces.A.up",
        "value": "41 Mbit/s",
        "how": "2026-11-22, 5 probes",
    }
    listed = [entry["key"] for kind in ("published", "measured", "assumed") for entry in document[kind]]
    assert sorted(listed) == sorted(load(file).provenance)
    assert [host["ssh"] for host in document["hosts"]] == ["me@laptop.example", "server"]
    mobile = document["hosts"][0]["interfaces"][2]
    assert mobile == {
        "abbr": "C",
        "device": "wwan0",
        "ipv4": None,
        "ipv6": None,
        "metered": True,
        "max_data_bytes": 2_000_000_000,
    }


def test_others_have_nothing_of_it() -> None:
    text = runner.invoke(app, ["paths", "UNIS-HiN"]).stdout
    assert not {"Measured", "Hosts"} & set(text.splitlines()) and "not known" not in text.lower()
    document = json.loads(runner.invoke(app, ["paths", "UNIS-HiN", "--json"]).stdout)
    assert document["missing"] == document["measured"] == document["hosts"] == []
