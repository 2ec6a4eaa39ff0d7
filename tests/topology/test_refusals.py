"""Bad topology files: each ends in one line that names the file, the key and what was expected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mptune.errors import InputError
from mptune.topology import Topology, load

Change = Callable[..., Topology]

CORE = '[[core.segments]]\npath = "1-3"'


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ('name = "small"', 'name = "small"\ncolour = "red"', "colour", "unknown key, expected one of name"),
        ('name = "Site A"', 'name = "Site A"\nrtt = 1', "sites.A.rtt", "unknown key"),
        ('isp = "One"', 'isp = "One"\nspeed = "1 Mbit/s"', "sites.A.interfaces[0].speed", "unknown key"),
        ('jitter = "2 ms"', 'jiter = "2 ms"', "core.segments[0].jiter", "unknown key"),
        (
            'assumed = "a guess"',
            'assumed = "a guess", why = ""',
            "sites.A.interfaces.2.down.why",
            "unknown key",
        ),
        ('sender = "A"', 'sender = "C"', "sender", "one of the file's sites (A, B), found 'C'"),
        ('receiver = "B"', 'receiver = "A"', "receiver", "a site other than the sender"),
        (
            "[core]",
            '[sites.C]\nname = "C"\ninterfaces = []\n[core]',
            "sites.C",
            "only sites that are sender or receiver",
        ),
        ('receiver = "B"', "", "receiver", "expected, but missing"),
        ('isp = "One"', "", "sites.A.interfaces[0].isp", "expected, but missing"),
        ('isp = "One"', "isp = 1", "sites.A.interfaces[0].isp", "expected text, found a whole number"),
        ("adsl = true", 'adsl = "yes"', "sites.A.interfaces[1].adsl", "expected true or false, found text"),
        ('"20 Mbit/s"', '"0 Mbit/s"', "sites.B.interfaces.3.up", "rate above zero"),
        ('"20 Mbit/s"', '"-20 Mbit/s"', "sites.B.interfaces.3.up", "not negative"),
        ('"20 Mbit/s"', "20", "sites.B.interfaces.3.up", 'text such as "100 Mbit/s"'),
        ('"20 Mbit/s"', '"20"', "sites.B.interfaces.3.up", "without a unit"),
        ('"20 Mbit/s"', '"20 ms"', "sites.B.interfaces.3.up", "the unit 'ms'"),
        ('delay = "1 ms"', 'delay = "-1 ms"', "sites.A.interfaces.1.delay", "not negative"),
        ('delay = "1 ms"', 'delay = "101 s"', "sites.A.interfaces.1.delay", "at most 100 s"),
        ('loss = "0.1 %"', 'loss = "100 %"', "sites.A.interfaces.1.loss", "below 100 %"),
        ('loss = "0.1 %"', 'loss = "-1 %"', "sites.A.interfaces.1.loss", "not negative"),
        ('loss = "0.1 %"', 'loss = "2"', "sites.A.interfaces.1.loss", "between 0 and 100 %"),
        ('"256 KiB"', '"1499 B"', "sites.A.interfaces.1.queue", "one packet of 1500 bytes"),
        (
            'queue = "256 KiB"',
            'queue = "1 MiB"\nqueue_up = "1 MiB"',
            "sites.A.interfaces.1.queue",
            "either queue",
        ),
        ('abbr = "2"', 'abbr = "1"', "sites.A.interfaces[1].abbr", "'1' twice"),
        ('abbr = "2"', 'abbr = "2-b"', "sites.A.interfaces[1].abbr", "letters and digits"),
        ('"192.0.2.1"', '"192.0.2.256"', "sites.B.interfaces.3.ipv4", "an address, found '192.0.2.256'"),
        ('assumed = "a guess"', 'assumed = ""', "sites.A.interfaces.2.down.assumed", "the reason"),
        (
            'assumed = "a guess"',
            'assumed = "a", source = "b"',
            "sites.A.interfaces.2.down",
            "either assumed or source",
        ),
        ('path = "1-3"', 'path = "3-1"', "core.segments[0].path", "(1-3, 2-3), found '3-1'"),
        (CORE, f'[[core.segments]]\npath = "1-3"\n{CORE}', "core.segments[1].path", "'1-3' twice"),
        ('delay = "7 ms"', 'delay = "7 ms"\nrtt = "20 ms"', "core.segments.1-3", "either rtt or delay"),
        ('rtt = "100 ms"', "", "core.segments.2-3.rtt", "missing"),
        ('rtt = "100 ms"', 'rtt = "10.9 ms"', "core.rtt", "at least the 11 ms"),
        (
            'rate = "10 Mbit/s"',
            'queue = "1 MiB"',
            "core.segments.1-3.queue",
            "a rate, a trace or a bucket beside it",
        ),
        ('sender = "A"', 'sender = "A"\nlsrr = "maybe"', "lsrr", "one of honoured, ignored, found 'maybe'"),
        ('sender = "A"', 'sender = "A"\nlsrr = true', "lsrr", 'text such as "honoured"'),
        ('sender = "A"', 'sender = "A"\ninitial_path = "3-1"', "initial_path", "one of 1-3, 2-3"),
        ("[core]", "[[core]]", "core", "expected a table, found a list of tables"),
    ],
)
def test_one_line_names_file_key_and_what_was_expected(
    changed: Change, tmp_path: Path, old: str, new: str, key: str, expected: str
) -> None:
    with pytest.raises(InputError) as error:
        changed((old, new))
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'small.toml'}: {key}: ")
    assert expected in message
    assert "\n" not in message


def test_a_site_without_interfaces(changed: Change, small: str) -> None:
    rows = small[small.index("[[sites.B.interfaces]]") : small.index("[core]")]
    with pytest.raises(InputError, match=r"sites\.B\.interfaces: expected at least one"):
        changed((rows, "interfaces = []\n"))


def test_more_pairs_than_the_core_can_carry(changed: Change) -> None:
    row = '[[sites.{}.interfaces]]\nisp = "x"\nabbr = "x{}"\nup = "1 Mbit/s"\ndown = "1 Mbit/s"\n'
    more = "".join(row.format(site, number) for site in "AB" for number in range(8))
    with pytest.raises(InputError, match="sites: expected at most 64 interface pairs, found 90"):
        changed(("[core]", f"{more}[core]"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"name = ", "expected TOML: "),
        (b"name = 'a'\nname = 'b'", "expected TOML: "),
        (b"\xff\xfe", "UTF-8"),
        (b"", "name: expected, but missing"),
    ],
)
def test_what_is_not_such_a_file(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        load(file)
    assert str(error.value).startswith(f"{file}: ")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_lists_the_shipped_scenarios(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.toml: expected a topology file or .*UiT-HAW"):
        load(tmp_path / "absent.toml")


def test_a_folder_and_an_impossible_name_are_not_files(tmp_path: Path) -> None:
    for name in (tmp_path, "x" * 5000):
        with pytest.raises(InputError, match="expected a readable file"):
            load(name)
