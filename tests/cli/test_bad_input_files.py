"""Bad files of every kind that a command reads: refused in one line that names the file, its key and what was
expected.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.plugins.bad_input import NO_FILES, Case, Maker, verdict

LONG = "x" * 100_000
DEEP = 50_000

TOPOLOGY = """\
name = "net"
sender = "A"
receiver = "B"
[sites.A]
name = "Here"
[[sites.A.interfaces]]
isp = "One"
abbr = "P"
up = "10 Mbit/s"
down = "10 Mbit/s"
[[sites.A.interfaces]]
isp = "Two"
abbr = "Q"
up = "5 Mbit/s"
down = "5 Mbit/s"
[sites.B]
name = "There"
[[sites.B.interfaces]]
isp = "Three"
abbr = "D"
up = "100 Mbit/s"
down = "100 Mbit/s"
[[core.segments]]
path = "P-D"
rtt = "20 ms"
[[core.segments]]
path = "Q-D"
rtt = "30 ms"
"""

CAMPAIGN = """\
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["default"]
cc = ["reno"]
buffers = ["0.1", "0.5"]
[trials]
runs = 1
duration = "1s"
"""

POLICY = """\
[daemon]
socket = "/run/mptune-test/daemon.sock"
[[policy]]
name = "one"
to = ["192.0.2.0/24"]
pm = "fullmesh"
"""

CSV = "cc,buffer_mib,throughput_mbps\n" + "".join(
    f"{cc},{size},{size * 3 + run / 10}\n"
    for cc in ("cubic", "reno")
    for size in (1, 2, 4, 8)
    for run in range(3)
)

#: What no text file may be, whatever it is about: a name for the case, and the content.
ODD: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 8,
    "latin": 'name = "Tromsø"\n'.encode("latin-1"),
    "utf16": "name = 'a'\n".encode("utf-16"),
    "nul": b'name = "a\0b"\n',
    "deep": b"a = " + b"[" * DEEP + b"]" * DEEP,
    "deep_tables": b"a = " + b"{a = " * DEEP + b"1" + b"}" * DEEP,
    "one_line": b'name = "' + LONG.encode(),
    "escape": b"\x1b[2Jname = 1\n",
    "long_key": LONG.encode() + b" = 1\n",
}


#: Parts of a topology that are wrong.
RED = '{ kind = "red", min = "9 kB", max = "1 kB" }'
BACKWARDS = '[{ at = "2s", up = "1 Mbit/s" }, { at = "1s", up = "1 Mbit/s" }]'
THIRD = "[sites.C]\nname = 'Third'\n[[sites.C.interfaces]]\nisp = 'x'\nabbr = 'Z'"
NO_RATE = "[[background]]\nkind = 'udp'\nlink = 'A.P.up'\nrate = '0 Mbit/s'"


def changed(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


def edits(text: str, *pairs: tuple[str, str, str]) -> Iterator[tuple[str, str]]:
    """Texts with one fault each, and the key that the error has to name."""
    for old, new, key in pairs:
        yield changed(text, old, new), key


def topologies() -> Iterator[tuple[str, str]]:
    up = 'up = "10 Mbit/s"'
    rtt = 'rtt = "20 ms"'
    name = 'name = "net"'
    yield from edits(
        TOPOLOGY,
        *((up, f"up = {value}", "sites.A.interfaces.P.up") for value in (
            *('"fast"', '"-1 Mbit/s"', '"0 Mbit/s"', '"10"', "10", "true", '"nan Mbit/s"', "[]"),
            *('"1e999 Mbit/s"', '"10 MiB"', "1979-05-27"),
            *('""', "nan", "inf", f'"{"9" * 5000} Mbit/s"', f'"{LONG}"', "{}", '{ value = "fast" }'),
            *('{ value = "1 Mbit/s", assumed = "" , source = "" }', '{ assumed = "why" }'),
        )),
        *((rtt, f"rtt = {value}", "core.segments.P-D.rtt") for value in (
            *('"soon"', '"-1 ms"', '"20"', "20", '"1e999 s"', "[]", '"0 ms"', '"1000 d"', f'"{LONG}"'),
        )),
        (name, "", "name"),
        (name, 'name = ""', "name"),
        (name, "name = 7", "name"),
        (name, f'name = "{LONG}"', "name"),
        (name, 'name = "a\\u001bb"', "name"),
        (name, 'name = "a\\nb"', "name"),
        (name, f"{name}\n{name}", "TOML"),
        (name, f'{name}\nnonsense = 1', "nonsense"),
        (name, f'{name}\n"{LONG}" = 1', ""),
        (name, f'{name}\ninitial_path = "X-Y"', "initial_path"),
        (name, f"{name}\ninitial_path = 3", "initial_path"),
        (name, f'{name}\nlsrr = "maybe"', "lsrr"),
        (name, f"{name}\nbackground = 3", "background"),
        (name, f"{name}\nbackground = [3]", "background"),
        ('sender = "A"', 'sender = "X"', "sender"),
        ('sender = "A"', 'sender = "B"', "receiver"),
        ('sender = "A"', "", "sender"),
        ('sender = "A"', "sender = []", "sender"),
        ('abbr = "P"', 'abbr = "Q"', "abbr"),
        ('abbr = "P"', 'abbr = "P-"', "abbr"),
        ('abbr = "P"', 'abbr = ""', "abbr"),
        ('abbr = "P"', f'abbr = "{LONG}"', "abbr"),
        ('abbr = "P"', "abbr = 1", "abbr"),
        ('isp = "One"', "", "isp"),
        ('isp = "One"', 'isp = "One"\nadsl = 1', "adsl"),
        ('isp = "One"', 'isp = "One"\nipv4 = "300.1.1.1"', "ipv4"),
        ('isp = "One"', 'isp = "One"\nipv6 = "1.2.3.4"', "ipv6"),
        ('isp = "One"', 'isp = "One"\ndevice = "a/b"', "device"),
        ('isp = "One"', 'isp = "One"\ndevice = "a\\n[x]"', "device"),
        ('isp = "One"', f'isp = "One"\ndevice = "{LONG}"', "device"),
        ('isp = "One"', 'isp = "One"\nmax_data = "-1 GB"', "max_data"),
        ('isp = "One"', 'isp = "One"\nmonthly_data = "much"', "monthly_data"),
        ('isp = "One"', 'isp = "One"\nprice_per_gb = -1', "price_per_gb"),
        ('isp = "One"', 'isp = "One"\nprice_per_gb = nan', "price_per_gb"),
        ('isp = "One"', 'isp = "One"\nprice_per_gb = "2 EUR"', "price_per_gb"),
        ('isp = "One"', 'isp = "One"\nprice_per_gb = true', "price_per_gb"),
        ('isp = "One"', 'isp = "One"\nloss = "200 %"', "loss"),
        ('isp = "One"', 'isp = "One"\nloss = -0.5', "loss"),
        ('isp = "One"', 'isp = "One"\nqueue = "0 B"', "queue"),
        ('isp = "One"', 'isp = "One"\nqueue = 5', "queue"),
        ('isp = "One"', 'isp = "One"\ndiscipline = "nonsense"', "discipline"),
        ('isp = "One"', f'isp = "One"\ndiscipline = {RED}', "discipline"),
        ('isp = "One"', 'isp = "One"\nschedule = 3', "schedule"),
        ('isp = "One"', 'isp = "One"\nschedule = [{ at = "-1s" }]', "schedule"),
        ('isp = "One"', f'isp = "One"\nschedule = {BACKWARDS}', "schedule"),
        ('isp = "One"', 'isp = "One"\ngilbert_elliott = { enter = "2", leave = "1" }', "gilbert_elliott"),
        ('isp = "One"', 'isp = "One"\nreorder = { probability = "50 %" }', "reorder"),
        ("[sites.B]", f"{THIRD}\n[sites.B]", "sites.C"),
        ("[sites.A]", "[sites.A]\nssh = 'a b; rm'", "ssh"),
        ("[sites.A]", "[sites.A]\nssh = '-oProxyCommand=x'", "ssh"),
        ("[sites.A]", "[sites.A]\nssh = ''", "ssh"),
        ("[sites.A]", "[sites.A]\nnonsense = 1", "sites.A.nonsense"),
        ('path = "P-D"', 'path = "X-D"', "core.segments"),
        ('path = "P-D"', 'path = "Q-D"', "core.segments"),
        ('path = "P-D"', "path = 3", "core.segments"),
        ('path = "P-D"', 'path = "P-D"\nbucket = { rate = "1 Mbit/s" }', "bucket"),
        ('path = "P-D"', 'path = "P-D"\nrate = "0 Mbit/s"', "rate"),
        ("[[core.segments]]", "[core]\nnonsense = 1\n[[core.segments]]", "core.nonsense"),
        ("[[core.segments]]", "[[background]]\nkind = 'x'\n[[core.segments]]", "background"),
        ("[[core.segments]]", "[[background]]\nkind = 'tcp'\npath = 'X-Y'\n[[core.segments]]", "background"),
        ("[[core.segments]]", f"{NO_RATE}\n[[core.segments]]", "background"),
        (f'{up}\n', 'trace_up = "gone.trace"\n', "trace_up"),
        (f'{up}\n', 'trace_up = "../../../../dev/zero"\n', "trace_up"),
        (f'{up}\n', f'trace_up = "{LONG}"\n', "trace_up"),
        (f'{up}\n', 'trace_up = ""\n', "trace_up"),
        (f'{up}\n', 'trace_up = "/dev/tty"\n', "trace_up"),
    )  # fmt: skip


def campaigns() -> Iterator[tuple[str, str]]:
    yield from edits(
        CAMPAIGN,
        ('topology = "UiT-HAW"', "", "topology"),
        ('topology = "UiT-HAW"', 'topology = "nowhere"', "topology"),
        ('topology = "UiT-HAW"', 'topology = ""', "topology"),
        ('topology = "UiT-HAW"', 'topology = "/dev/zero"', "topology"),
        ('topology = "UiT-HAW"', "topology = 3", "topology"),
        ('topology = "UiT-HAW"', f'topology = "{LONG}"', "topology"),
        ('topology = "UiT-HAW"', 'topology = "a\\u0000b"', "topology"),
        *(
            ('topology = "UiT-HAW"', f'topology = "UiT-HAW"\nname = {value}', "name")
            for value in (
                '""',
                "7",
                f'"{LONG}"',
                '"a\\nb"',
                '"a\\u001b[31m"',
                '"a\\u0000b"',
            )
        ),
        ('kind = "sweep"', 'kind = "nonsense"', "kind"),
        ('kind = "sweep"', 'kind = "sweep"\ntestbed = "moon"', "testbed"),
        ('kind = "sweep"', 'kind = "sweep"\nreverse = "yes"', "reverse"),
        ('kind = "sweep"', 'kind = "sweep"\nseed = -1', "seed"),
        ('kind = "sweep"', 'kind = "sweep"\nseed = 1.5', "seed"),
        ('kind = "sweep"', f'kind = "sweep"\nseed = {"9" * 30}', "seed"),
        ('kind = "sweep"', 'kind = "sweep"\nnonsense = 1', "nonsense"),
        ("[factors]", "[nonsense]\na = 1\n[factors]", "nonsense"),
        ("[trials]", "[trials]\nnonsense = 1", "trials.nonsense"),
        ("[trials]", "[decision]\nmodel = 'quadratic'\n[trials]", "decision"),
        *(
            ('pm = ["default"]', f"pm = {value}", "factors.pm")
            for value in (
                '["default", "default"]',
                "[]",
                '["x"]',
                "3",
                '[["default"]]',
                '""',
                "[1]",
                '[""]',
                "{}",
            )
        ),
        *(
            ('cc = ["reno"]', f"cc = {value}", "factors.cc")
            for value in (
                '["reno", "reno"]',
                "[]",
                '["x"]',
                "true",
                '"reno,reno"',
                '["reno", ""]',
                f'["{LONG}"]',
            )
        ),
        *(
            ('buffers = ["0.1", "0.5"]', f"buffers = {value}", "factors.buffers")
            for value in (
                *(
                    '["0.1", "0.1"]',
                    "[1, 1, 1]",
                    "[]",
                    '"3:1:1"',
                    "[0]",
                    "[-1]",
                    "[nan]",
                    "[inf]",
                    '["1e99"]',
                    "true",
                ),
                *('"0:1:1e-9"', '["512KiB", "0.5"]', "[{}]", '"1:2"', f'"{LONG}"', "[2, 1, 1]"),
            )
        ),
        *(
            ("runs = 1", f"runs = {value}", "trials.runs")
            for value in ("0", "-1", "1.5", '"x"', "[]", "nan", "9" * 30, "true", "1e3")
        ),
        *(
            ('duration = "1s"', f"duration = {value}", "trials.duration")
            for value in (
                '"0s"',
                "1",
                '"soon"',
                '"-1s"',
                '"1e999s"',
                "nan",
                '""',
                '"1 parsec"',
                "[]",
                f'"{LONG}"',
            )
        ),
        ("[trials]", "[repeat]\nevery = '1h'\n[trials]", "repeat.for"),
        ("[trials]", "[repeat]\nfor = '1h'\n[trials]", "repeat.every"),
        ("[trials]", "[repeat]\nevery = '1ns'\nfor = '1d'\n[trials]", "repeat.every"),
        ("[trials]", "repeat = 3\n[trials]", "repeat"),
        ("[factors]", "trials = 3\n[factors]", "TOML"),
        ('cc = ["reno"]', 'cc = ["reno"]\ninitial_path = ["nowhere"]', "factors.initial_path"),
        ('cc = ["reno"]', 'cc = ["reno"]\ninitial_path = ["P-D", "P-D"]', "factors.initial_path"),
        ("[trials]", '[pcdc]\nactive = ["P-D", "P-D"]\n[trials]', "pcdc.active"),
        ("[trials]", '[pcdc]\nactive = ["P-D"]\n[trials]', "pcdc.active"),
        ("[trials]", "[ndiffports]\nndiffports = 4\n[trials]", "ndiffports"),
        ("[trials]", '[trials]\nscript = ["x"]', "trials.script"),
    )
    both = changed(CAMPAIGN, 'pm = ["default"]', 'pm = ["pcdc"]')
    yield from edits(
        both,
        ("[trials]", '[pcdc]\nactive = ["P-D"]\nstandby_order = ["P-D"]\n[trials]', "pcdc.standby_order"),
        ("[trials]", '[pcdc]\nactive = ["X-D"]\n[trials]', "pcdc.active"),
        ("[trials]", '[pcdc]\nrtt_ns = { "P-D" = "-1s" }\n[trials]', "pcdc.rtt_ns"),
        ("[trials]", "[pcdc]\nrtt_ns = 3\n[trials]", "pcdc.rtt_ns"),
    )


def tables() -> Iterator[tuple[bytes, str]]:
    """CSV files, and what the error has to name."""
    for header, name in (
        ("cc,buffer_mib", "throughput"),
        ("buffer_mib,throughput_mbps", "cc"),
        ("cc,throughput_mbps", "buffer"),
        ("cc,buffer,throughput_mbps", "buffer"),
        ("cc,buffer_mib,throughput", "throughput"),
        ("cc,cc,buffer_mib,throughput_mbps", "cc"),
        ("cc,buffer_mib,buffer_bytes,throughput_mbps", "buffer"),
        ("", ""),
        (",,,", ""),
        (f"cc,buffer_mib,throughput_mbps,{LONG},{LONG}", ""),
    ):
        yield f"{header}\nreno,1,2,3\nreno,2,3,4\n".encode(), name
    for cell in (
        *(
            "x",
            "-1",
            "nan",
            "inf",
            "1e999",
            "",
            "1,2",
            "1e400",
            "0x10",
            "1_0",
            "١",
            "NaN",
            "1e13",
            LONG,
            "\x1b[31m",
        ),
    ):
        yield CSV.replace("reno,4,12.0", f"reno,4,{cell}").encode(), "row"
    for cell in ("x", "0", "-1", "nan", "inf", "", "1e13", "9" * 400):
        yield CSV.replace("reno,4,12.0", f"reno,{cell},12.0").encode(), "row"
    yield CSV.replace("reno,4,12.0", "Reno,4,12.0").encode(), "row"
    yield CSV.replace("reno,4,12.0", ",4,12.0").encode(), "row"
    yield CSV.replace("reno,4,12.0", "olia,4,12.0").encode(), "row"
    yield CSV.replace("reno,4,12.0", f"{LONG},4,12.0").encode(), "row"
    yield CSV.replace("reno,4,12.0", '"reno,4,12.0').encode(), ""
    yield CSV.replace("reno,4,12.0", "reno").encode(), "row"
    yield CSV.replace("reno,4,12.0", "re\0no,4,12.0").encode(), ""
    yield CSV.splitlines()[0].encode(), ""
    yield b"cc,buffer_mib,throughput_mbps\nreno,1,2\nreno,1,3\n", "buffer"
    yield b'"' * 200_001, ""


def policies() -> Iterator[tuple[str, str]]:
    yield from edits(
        POLICY,
        ('pm = "fullmesh"', 'pm = "nonsense"', "pm"),
        ('pm = "fullmesh"', "pm = 3", "pm"),
        ('pm = "fullmesh"', f'pm = "{LONG}"', "pm"),
        ('pm = "fullmesh"', 'pm = "fullmesh"\nnonsense = 1', "nonsense"),
        ('name = "one"', 'name = ""', "name"),
        ('name = "one"', f'name = "{LONG}"', "name"),
        ('name = "one"', 'name = "a\\nb"', "name"),
        ('name = "one"', "name = []", "name"),
        ('to = ["192.0.2.0/24"]', 'to = ["192.0.2.0/99"]', "to"),
        ('to = ["192.0.2.0/24"]', 'to = ["192.0.2.0/24", "192.0.2.0/24"]', "to"),
        ('to = ["192.0.2.0/24"]', "to = []", "to"),
        ('to = ["192.0.2.0/24"]', "to = 3", "to"),
        ("[daemon]", "[daemon]\nmode = 'nonsense'", "mode"),
        ("[daemon]", "[daemon]\nnonsense = 1", "nonsense"),
        ("[daemon]", "[nonsense]\na = 1\n[daemon]", "nonsense"),
        ("[daemon]", "[remeasure]\nhours = 'x'\n[daemon]", "hours"),
        ("[daemon]", "[remeasure]\nhours = '25:00-26:00'\n[daemon]", "hours"),
        ("[daemon]", "[remeasure]\nhours = '01:00-02:00'\nbudget = 'long'\n[daemon]", "budget"),
        ("[daemon]", "[remeasure]\nhours = '01:00-02:00'\nmax_data = '-1 GB'\n[daemon]", "max_data"),
    )
    yield POLICY + POLICY.partition("\n[[")[2].join(("\n[[", "")), "one"


def settings() -> Iterator[str]:
    yield from (
        "",
        "{",
        "[]",
        "{}",
        "3",
        "null",
        '"x"',
        "[3]",
        "[{}]",
        '[{"kind": 3}]',
        '{"a": 3}',
        '{"a": []}',
    )
    yield from (
        "NaN",
        "[" * DEEP + "]" * DEEP,
        '{"a": {"b": 1}}',
        '[{"kind": "sysctl"}, 5]',
        '{"": [5]}',
        "[null]",
    )
    yield from ('{"a":' * DEEP + "1" + "}" * DEEP, f'{{"{LONG}": 3}}')


def odd(command: tuple[str, ...], name: str, good: Mapping[str, Maker]) -> Iterator[Case]:
    """Something else than a file, at the place of one."""
    for maker in NO_FILES:
        yield Case(command, (name,), {**good, name: maker})
    yield Case(command, (name,), {file: content for file, content in good.items() if file != name})
    for content in ODD.values():
        if content or command[0] != "daemon":  # a policy of nothing is one
            yield Case(command, (name,), {**good, name: content})


def cases() -> Iterator[Case]:
    paths = ("paths", "net.toml")
    yield from odd(paths, "net.toml", {})
    for text, key in topologies():
        yield Case(paths, ("net.toml", key), {"net.toml": text})
    run = ("campaign", "run", "c.toml", "--out", "new", "--quiet")
    yield from odd(run, "c.toml", {})
    for text, key in campaigns():
        yield Case(run, ("c.toml", key), {"c.toml": text})
    # The topology beside a campaign file, and the trace beside a topology.
    named = changed(CAMPAIGN, "UiT-HAW", "net.toml")
    for maker in NO_FILES:
        yield Case(run, ("net.toml",), {"c.toml": named, "net.toml": maker})
        traced = changed(TOPOLOGY, 'up = "10 Mbit/s"', 'trace_up = "t.trace"')
        yield Case(paths, ("t.trace", "trace_up"), {"net.toml": traced, "t.trace": maker})
    for content in (
        b"",
        b"x\n",
        b"1\n\n2\n",
        b"2\n1\n",
        b"0\n",
        b"-1\n",
        b"99999999999\n",
        b"1.5\n",
        "١\n".encode(),
        b"1\0\n",
        LONG.encode(),
    ):
        yield Case(paths, ("t.trace", "trace_up"), {"net.toml": traced, "t.trace": content})
    yield from odd(("fit", "data.csv"), "data.csv", {})
    for content, key in tables():
        yield Case(("fit", "data.csv"), ("data.csv", key), {"data.csv": content})
    yield from odd(("fit", "data.csv", "--model", "T ~ B"), "data.csv", {})
    for maker in NO_FILES:
        yield Case(
            ("fit", "right.csv", "--validate", "data.csv"),
            ("data.csv",),
            {"right.csv": CSV, "data.csv": maker},
        )
        yield Case(("optimise", "--from", "data.csv", "--out", "new"), ("data.csv",), {"data.csv": maker})
        yield Case(("doctor", "--hosts", "net.toml"), ("net.toml",), {"net.toml": maker})
        yield Case(("watch", "--hosts", "net.toml", "--once"), ("net.toml",), {"net.toml": maker})
        yield Case(
            ("diverge", "--traces", "a.trace", "b.trace"), ("a.trace",), {"a.trace": maker, "b.trace": maker}
        )
    for content in (
        b"",
        b"mptune recording 1\n",
        b"mptune recording 1\n{}\n",
        b"mptune recording 1\n" + b"[" * DEEP,
        b"x" * 1000,
    ):
        yield Case(
            ("diverge", "--traces", "a.trace", "b.trace"),
            ("a.trace",),
            {"a.trace": content, "b.trace": content},
        )
    apply = ("apply", "--settings", "s.json")
    yield from odd(apply, "s.json", {})
    for text in settings():
        yield Case(apply, ("s.json",), {"s.json": text})
    check = ("daemon", "--check", "--policy", "policy.toml")
    yield from odd(check, "policy.toml", {})
    for text, key in policies():
        yield Case(check, ("policy.toml", key), {"policy.toml": text})


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{number}-{case.id}") for number, case in enumerate(cases())]
)
def test_bad_files_are_refused_in_one_line(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert verdict(case, tmp_path, monkeypatch) == "clean"
