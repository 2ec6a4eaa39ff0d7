"""Settings as files of the system's own kinds, each read by what reads it on machines, if that is there."""

import base64
import configparser
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from mptune.apply import files
from mptune.apply.files import FORMATS, systemd
from mptune.apply.plan import HostPlan, Kernels, Present, outline, plan, resolve
from mptune.errors import InputError, MptuneError
from tests.apply.worlds import HOME, NETWORK, SERVER
from tests.plugins import needs
from tests.plugins.needs import program

Make = Callable[..., Path]
MESH: dict[str, Any] = {
    "protocol": "mptcp",
    "opm": "fullmesh",
    "subflows": ["F-T", "F-V", "M-T", "M-V"],
    "standby": [],
    "occ": "cubic",
    "buffer_mode": "auto",
    "obs_bytes": 1 << 20,
}
#: A device whose name would do harm if it were not quoted.
HARMFUL = "x';$(id)%n\\\\"
DEVICE = HARMFUL.replace("\\\\", "\\")


@pytest.fixture
def written(run: Make, tmp_path: Path) -> Path:
    """The files of both hosts."""
    files.write(read(run(**MESH)), tmp_path / "files")
    return tmp_path / "files"


@pytest.fixture
def harmful(run: Make, tmp_path: Path) -> Path:
    """Files with the harmful device."""
    network = NETWORK.replace('"wwan0"', f'"{HARMFUL}"')
    first, second = HOME.interfaces
    home = msgspec.structs.replace(HOME, interfaces=(first, {**second, "device": DEVICE}))
    files.write(read(run("quoted", network=network, **MESH), home), tmp_path / "harmful")
    return tmp_path / "harmful"


def read(run: Path, home: Present = HOME, server: Present = SERVER) -> list[HostPlan]:
    """The plan of a run, with what was read on both machines."""
    return [resolve(host, present) for host, present in zip(plan(run), (home, server), strict=True)]


def profile(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def test_every_format_is_there_and_the_list_has_the_place_of_each(written: Path):
    home = written / "H"
    assert {folder.name for folder in home.iterdir()} == {"README", *FORMATS}
    text = (home / "README").read_text()
    for path in home.rglob("*"):
        if path.is_file() and path.name != "README":
            assert f"  {path.relative_to(home)}\n" in text
    # The receiver announces too, so that it has all of them.
    assert {entry.name for entry in (written / "S").iterdir()} == {"README", *FORMATS}


@pytest.mark.needs("sysctl")
@pytest.mark.parametrize("site", ["H", "S"])
def test_sysctl_reads_its_file(written: Path, site: str):
    file = written / site / "sysctl.d/90-mptune.conf"
    done = subprocess.run(
        [program("sysctl"), "--dry-run", "--load", str(file)], capture_output=True, text=True, check=True
    )
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert done.stdout.split("\n")[:-1] == lines
    assert not done.stderr


def test_values_are_those_of_the_machines(written: Path):
    home = (written / "H/sysctl.d/90-mptune.conf").read_text()
    assert "net.ipv4.tcp_wmem = 4096 16384 1048576" in home
    server = (written / "S/sysctl.d/90-mptune.conf").read_text()
    assert "net.ipv4.tcp_rmem = 8192 131072 1048576" in server


def test_a_limit_that_the_machine_has_higher_is_not_lowered(run: Make, tmp_path: Path):
    home = msgspec.structs.replace(HOME, sysctls={**HOME.sysctls, "net.core.wmem_max": "4194304"})
    fixed = run(**{**MESH, "buffer_mode": "fixed", "obs_bytes": 441_344})
    files.write(read(fixed, home), tmp_path / "files")
    assert "net.core.wmem_max = 4194304" in (tmp_path / "files/H/sysctl.d/90-mptune.conf").read_text()
    assert "net.core.rmem_max = 441344" in (tmp_path / "files/S/sysctl.d/90-mptune.conf").read_text()


WITHOUT_MAX = msgspec.structs.replace(
    HOME, sysctls={name: value for name, value in HOME.sysctls.items() if name != "net.core.wmem_max"}
)
WITHOUT_WWAN = msgspec.structs.replace(HOME, interfaces=HOME.interfaces[:1])


@pytest.mark.parametrize(
    ("home", "lacking"),
    [
        (None, "the route by F, the route by M, net.core.wmem_max"),
        (WITHOUT_MAX, "net.core.wmem_max"),
        (WITHOUT_WWAN, "the route by M"),
    ],
    ids=["nothing", "a sysctl", "a device"],
)
def test_nothing_is_written_from_values_that_were_not_read(
    home: Present | None, lacking: str, run: Make, tmp_path: Path
):
    sender, receiver = plan(run(**{**MESH, "buffer_mode": "fixed", "obs_bytes": 441_344}))
    hosts = [sender if home is None else resolve(sender, home), resolve(receiver, SERVER)]
    with pytest.raises(MptuneError) as error:
        files.write(hosts, tmp_path / "files")
    assert str(error.value) == f"home: {lacking}: could not be read there"
    assert not (tmp_path / "files").exists()


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("which", ["written", "harmful"])
@pytest.mark.parametrize("site", ["H", "S"])
def test_systemd_finds_nothing_wrong(which: str, site: str, request: pytest.FixtureRequest):
    folder = request.getfixturevalue(which) / site / "systemd"
    verify(sorted(folder.glob("*.service")))


@pytest.mark.needs("systemd-analyze", "bpf")
def test_systemd_finds_nothing_wrong_with_programs(run: Make, tmp_path: Path):
    (sender, _) = read(run(**{**MESH, "occ": "olia"}))
    files.write([sender], tmp_path / "files")
    folder = tmp_path / "files/H/systemd"
    verify(sorted(folder.glob("*.service")))
    assert (folder / "mptune_olia.bpf.o").read_bytes()[:4] == b"\x7fELF"
    assert "Requires=mptune-congestion.service" in (folder / systemd.PATHS).read_text()


def verify(units: list[Path]) -> None:
    """Without a message, but for a program that this machine lacks."""
    assert units
    command = [program("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", *map(str, units)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    lacking = [name for name in ("bpftool", "ip") if shutil.which(name) is None]
    assert not [
        line for line in lines if not any(f"Command {name} is not executable" in line for name in lacking)
    ]


def test_a_unit_makes_what_it_takes_back(written: Path):
    text = (written / "H/systemd" / systemd.PATHS).read_text()
    made = re.findall(r"^ExecStart=ip mptcp endpoint add .* id (\d+) ", text, re.M)
    gone = re.findall(r"^ExecStop=-ip mptcp endpoint delete id (\d+)$", text, re.M)
    assert made == ["101", "102"] and gone == made[::-1]


@pytest.mark.parametrize("which", ["written", "harmful"])
def test_the_shell_reads_the_script_of_tuned(which: str, request: pytest.FixtureRequest):
    for script in request.getfixturevalue(which).rglob("script.sh"):
        assert os.access(script, os.X_OK)
        subprocess.run(["sh", "-n", str(script)], check=True)


def test_the_script_names_the_device_as_it_is(harmful: Path, tmp_path: Path):
    """A stand-in for `ip` writes down its arguments."""
    place = tmp_path / "bin"
    place.mkdir()
    stand_in = place / "ip"
    stand_in.write_text(
        '#!/bin/sh\nfor one in "$@"; do printf "%s|" "$one"; done >> "$NOTED"\n'
        'echo >> "$NOTED"\necho default\n'
    )
    stand_in.chmod(0o755)
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "NOTED": str(tmp_path / "noted")}
    for action in ("start", "stop"):
        script = harmful / "H/tuned/mptune/script.sh"
        subprocess.run([str(script), action], env=environment, check=True, capture_output=True)
    noted = (tmp_path / "noted").read_text().splitlines()
    assert f"mptcp|endpoint|add|10.0.2.2|dev|{DEVICE}|id|102|subflow|fullmesh|" in noted
    assert f"-4|route|change|default|dev|{DEVICE}|table|102|congctl|cubic|" in noted
    assert f"-4|route|change|default|dev|{DEVICE}|table|102|" in noted


def test_a_profile_of_tuned(written: Path):
    parsed = profile(written / "H/tuned/mptune/tuned.conf")
    assert set(parsed.sections()) == {"main", "sysctl", "script"}
    assert parsed["sysctl"]["net.ipv4.tcp_wmem"] == "4096 16384 1048576"
    assert parsed["script"]["script"] == "${i:PROFILE_DIR}/script.sh"


@pytest.mark.parametrize("which", ["written", "harmful"])
def test_the_shell_reads_the_scripts_of_dispatchers(which: str, request: pytest.FixtureRequest):
    scripts = [path for path in request.getfixturevalue(which).rglob("90-mptune") if path.is_file()]
    assert {script.parent.name for script in scripts} == {"NetworkManager", "networkd-dispatcher", "openwrt"}
    assert len(scripts) == 6
    for script in scripts:
        assert os.access(script, os.X_OK)
        subprocess.run(["sh", "-n", str(script)], check=True)


def test_the_scripts_of_dispatchers_know_devices_as_they_are(harmful: Path, tmp_path: Path):
    """A stand-in for `ip` writes down its arguments."""
    place = tmp_path / "bin"
    place.mkdir()
    stand_in = place / "ip"
    stand_in.write_text('#!/bin/sh\nprintf "%s|" "$@" >> "$NOTED"; echo >> "$NOTED"\necho default\n')
    stand_in.chmod(0o755)
    noted = tmp_path / "noted"
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "NOTED": str(noted)}

    def called(folder: str, *arguments: str, **more: str) -> list[str]:
        noted.write_text("")
        command = [str(harmful / "H" / folder / "90-mptune"), *arguments]
        subprocess.run(command, env={**environment, **more}, check=True, capture_output=True)
        return noted.read_text().splitlines()

    limits = "mptcp|limits|set|subflows|3|add_addr_accepted|1|"
    route = f"-4|route|change|default|dev|{DEVICE}|table|102|congctl|cubic|"
    made = called("NetworkManager", DEVICE, "up")
    assert limits in made and route in made
    assert called("NetworkManager", "lo", "dhcp4-change") == [limits]
    assert called("NetworkManager", DEVICE, "down") == []
    made = called("networkd-dispatcher", IFACE=DEVICE)
    gone = made.index("mptcp|endpoint|delete|id|102|")
    assert made[gone + 1] == f"mptcp|endpoint|add|10.0.2.2|dev|{DEVICE}|id|102|subflow|fullmesh|"
    assert limits in made and route in made and not [line for line in made if "101" in line]
    assert called("networkd-dispatcher", IFACE="lo") == called("networkd-dispatcher") == [limits]


def test_an_endpoint_laminar_is_in_scripts_and_not_among_flags_that_cannot_have_it(run: Make, tmp_path: Path):
    diagonal = run(**{**MESH, "opm": "pcdc", "subflows": ["F-T", "M-V"]})
    hosts = outline(diagonal, kernels=Kernels(laminar=True)).hosts
    plans = [resolve(host, present) for host, present in zip(hosts, (HOME, SERVER), strict=True)]
    files.write(plans, tmp_path / "files")
    home = tmp_path / "files" / "H"
    texts = {path.parent.name: path.read_text() for path in home.rglob("*") if path.is_file()}
    assert "laminar" in texts["systemd"]
    (flags,) = [path.read_text() for path in (home / "NetworkManager").rglob("*.conf")]
    assert "# The endpoint laminar of wwan0" in flags and "mptcp-flags" not in flags


def test_networkmanager_gets_flags_by_device(written: Path):
    parsed = profile(written / "H/NetworkManager/90-mptune.conf")
    flags = {
        parsed[name]["match-device"]: parsed[name]["connection.mptcp-flags"] for name in parsed.sections()
    }
    # Enabled, also without a default route, subflow, fullmesh (NMMptcpFlags).
    assert flags == {"interface-name:=eth1": "0xaa", "interface-name:=wwan0": "0xaa"}
    server = profile(written / "S/NetworkManager/90-mptune.conf")
    assert [server[name]["connection.mptcp-flags"] for name in server.sections()] == ["0x1a"]


#: An `ip` that has one endpoint, of the address that every device has, and an `uci` with one interface.
ROUTER = {
    "ip": """
printf "%s|" "$@" >> "$NOTED"; echo >> "$NOTED"
case "$*" in
"-4 address"*) printf "%s\n" "2: x: <UP> mtu 1500" "    inet 10.9.9.9/24 scope global x" ;;
"mptcp endpoint show") echo "10.9.9.9 id 7 subflow dev x" ;;
*) echo default ;;
esac""",
    "uci": """
case "$*" in
"-q show network") printf "%s\n" "network.globals=globals" "network.wan=interface" "network.lan=interface" ;;
"-q get network.wan.device") cat "$NOTED.device" ;;
"-q get"*) exit 1 ;;
*) printf "%s|" "$@" >> "$NOTED"; echo >> "$NOTED" ;;
esac""",
}


@pytest.fixture
def router(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs a script where these are, and returns what it asked of them."""
    place, noted = tmp_path / "bin", tmp_path / "noted"
    place.mkdir()
    for name, text in ROUTER.items():
        (place / name).write_text(f"#!/bin/sh{text}\n")
        (place / name).chmod(0o755)
    (tmp_path / "noted.device").write_text(DEVICE)

    def called(script: Path, device: str = "", action: str = "ifup") -> list[str]:
        noted.write_text("")
        environment = {"PATH": f"{place}:{os.environ['PATH']}", "NOTED": str(noted)}
        text = script.read_text().replace("/sbin/uci", f"{place}/uci")
        subprocess.run(
            ["sh", "-c", text],
            env={**environment, "DEVICE": device, "ACTION": action},
            check=True,
            capture_output=True,
        )
        return noted.read_text().splitlines()

    return called


def test_hotplug_of_openwrt_makes_endpoints_of_the_address_that_a_device_has(
    harmful: Path, router: Callable[..., list[str]]
):
    script = harmful / "H/openwrt/90-mptune"
    limits = "mptcp|limits|set|subflows|3|add_addr_accepted|1|"
    made = router(script, DEVICE)
    assert made[0] == limits
    gone = ["mptcp|endpoint|delete|id|7|", "mptcp|endpoint|delete|id|102|"]
    assert [line for line in made if "delete" in line] == gone
    assert f"mptcp|endpoint|add|10.9.9.9|dev|{DEVICE}|id|102|subflow|fullmesh|" in made
    assert f"-4|route|change|default|dev|{DEVICE}|table|102|congctl|cubic|" in made
    assert router(script, "lo") == [limits] and router(script, DEVICE, "ifdown") == []


def test_an_announced_address_is_the_one_that_others_reach(written: Path, router: Callable[..., list[str]]):
    made = router(written / "S/openwrt/90-mptune", "ens4")
    assert [line for line in made if "endpoint|add" in line] == [
        "mptcp|endpoint|add|198.51.100.7|dev|ens4|id|101|signal|"
    ]


def test_uci_gets_its_words_for_interfaces_of_these_devices(harmful: Path, router: Callable[..., list[str]]):
    assert router(harmful / "H/openwrt/90-mptune-uci") == [
        "set|network.globals=globals|",
        "set|network.globals.multipath=enable|",
        "set|network.globals.mptcp_pm_type=0|",
        "set|network.globals.mptcp_subflows=3|",
        "set|network.globals.mptcp_add_addr_accepted=1|",
        "set|network.wan.multipath=on|",
        "commit|network|",
    ]


@pytest.mark.needs("ansible")
@pytest.mark.parametrize("which", ["written", "harmful"])
def test_ansible_reads_its_playbook(which: str, request: pytest.FixtureRequest, tmp_path: Path):
    ansible = needs.ansible()
    assert ansible is not None
    for playbook in request.getfixturevalue(which).rglob("mptune.yml"):
        # What the role includes at its time is only read here if it is imported.
        tasks = "".join(
            f"\n  - import_tasks: roles/mptune/tasks/{part}.yml" for part in ("present", "absent")
        )
        (playbook.parent / "both.yml").write_text(f"- hosts: H\n  tasks:{tasks}\n")
        command = [ansible, "--syntax-check", "-i", "H,S,", playbook.name, "both.yml"]
        environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command, cwd=playbook.parent, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


ROLE = "ansible/roles/mptune"


def role(folder: Path, part: str) -> list[dict[str, Any]]:
    """The tasks of a file of the role, as Ansible's loader reads them."""
    tasks: list[dict[str, Any]] = yaml.safe_load((folder / ROLE / part).read_text())
    return tasks


def test_the_role_installs_files_that_are_there_and_removes_them_again(written: Path):
    for folder in written.iterdir():
        tasks, gone = role(folder, "tasks/present.yml"), role(folder, "tasks/absent.yml")
        copies = [task["ansible.builtin.copy"] for task in tasks if "ansible.builtin.copy" in task]
        assert copies and all((folder / ROLE / "files" / copy["src"]).is_file() for copy in copies)
        removed = [task["ansible.builtin.file"]["path"] for task in gone if "ansible.builtin.file" in task]
        assert sorted(removed) == sorted(copy["dest"] for copy in copies)
        handlers = {task["name"] for task in role(folder, "handlers/main.yml")}
        assert {task["notify"] for task in (*tasks, *gone) if "notify" in task} == handlers
        listed = (folder / "README").read_text()
        assert all(copy["dest"] in listed for copy in copies)


def test_ssh_names_the_machine_in_the_inventory(run: Make):
    sender = msgspec.structs.replace(read(run(**MESH))[0], ssh="root@home.example")
    (playbook,) = (file for file in files.made(sender) if file.path == "ansible/mptune.yml")
    assert b'hosts: "home.example"' in playbook.content


# What others wrote is data.

TEMPLATES = (
    "{{{{ lookup('pipe', 'touch {0}') }}}}",
    "{{% set x = lookup('pipe', 'touch {0}') %}}{{{{ x }}}}",
)


@pytest.mark.needs("ansible")
@pytest.mark.parametrize("mode", ["--syntax-check", "--check"])
def test_ansible_runs_nothing_that_names_hold(run: Make, tmp_path: Path, mode: str):
    """Names of sites, of machines and of devices, each with a file of its own that would be made."""
    ansible = needs.ansible()
    assert ansible is not None
    sender = read(run(**MESH))[0]
    made: list[Path] = []
    playbooks: list[str] = []
    for template in TEMPLATES:
        marks = {word: tmp_path / f"{word}{len(playbooks)}" for word in ("name", "ssh", "device")}
        made += marks.values()
        evil = {word: template.format(mark) for word, mark in marks.items()}
        settings = [
            {**setting, "device": evil["device"]} if "device" in setting else setting
            for setting in sender.settings
        ]
        host = msgspec.structs.replace(sender, settings=tuple(settings), name=evil["name"])
        for ssh in (None, f"root@{evil['ssh']}", evil["ssh"]):
            folder = tmp_path / f"files{len(playbooks)}"
            files.write([msgspec.structs.replace(host, ssh=ssh)], folder)
            playbooks += map(str, folder.rglob("mptune.yml"))
    assert len(playbooks) == 3 * len(TEMPLATES)
    command = [ansible, mode, "-c", "local", "-i", "elsewhere,", *playbooks]
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count("\nplaybook: " if mode == "--syntax-check" else "no hosts matched") >= len(
        playbooks
    ), done
    assert not [mark.name for mark in made if mark.exists()]


def test_a_site_that_ansible_would_take_for_a_template_is_refused(run: Make):
    host = msgspec.structs.replace(read(run(**MESH))[0], site="{{ 7 * 7 }}")
    with pytest.raises(InputError, match="expected the name of one host"):
        files.made(host)


def test_no_pattern_of_ansible_means_other_machines(run: Make):
    sender = read(run(**MESH))[0]
    for ssh in ("all", "a:!b", "a,b", "*", "~x.*", "x[0:9]", "&group", "@file", "ssh://a"):
        host = msgspec.structs.replace(sender, ssh=ssh)
        (playbook,) = (file for file in files.made(host) if file.path == "ansible/mptune.yml")
        assert (b'hosts: "file"\n' if ssh == "@file" else b'hosts: "H"\n') in playbook.content


@pytest.mark.parametrize("field", ["device", "address", "name", "to", "congctl"])
@pytest.mark.parametrize(
    "evil", ["eth1\n[main]\nplugins=x", "eth1\rx", "eth1\x1b[2J", "eth1\u2028x", "e\u202eth"]
)
def test_no_value_adds_lines_to_a_file(run: Make, field: str, evil: str):
    sender = read(run(**MESH))[0]
    settings = tuple({**setting, field: evil} if field in setting else setting for setting in sender.settings)
    assert settings != sender.settings
    with pytest.raises(InputError, match=r"^--files: H: expected values without line feeds") as caught:
        files.made(msgspec.structs.replace(sender, settings=settings))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 300


@pytest.mark.parametrize("value", ["${f:exec:touch:/tmp/x}", "4096 $(id) 1", "1; 2", "`id`", "%n"])
def test_a_value_of_a_sysctl_is_numbers_and_names(run: Make, value: str):
    """A machine may report anything as its present value."""
    sender = read(run(**MESH))[0]
    settings = tuple(
        {**setting, "value": value} if setting["kind"] == "sysctl" else setting for setting in sender.settings
    )
    with pytest.raises(InputError, match=r"^sysctl .*: expected numbers and names, found "):
        files.made(msgspec.structs.replace(sender, settings=settings))


def test_the_name_of_a_program_is_no_path(run: Make):
    sender = read(run(**MESH))[0]
    evil = {"kind": "congestion", "name": "../../x", "object": ""}
    with pytest.raises(InputError, match=r"^congestion control: expected letters"):
        files.made(msgspec.structs.replace(sender, settings=(*sender.settings, evil)))


def test_a_section_of_networkmanager_is_one_section(run: Make):
    network = NETWORK.replace('"wwan0"', '"a]x[b"').replace('"eth1"', '"a]x(b"')
    devices = zip(HOME.interfaces, ("a]x(b", "a]x[b"), strict=True)
    home = msgspec.structs.replace(
        HOME, interfaces=tuple({**interface, "device": name} for interface, name in devices)
    )
    sender = read(run(network=network, **MESH), home)[0]
    (file,) = (
        made
        for made in files.made(sender)
        if made.path.endswith("90-mptune.conf") and "NetworkM" in made.path
    )
    names = re.findall(r"^\[(.*)\]$", file.content.decode(), re.M)
    assert len(names) == len(set(names)) == 2 and not any(set("[]") & set(name) for name in names)


# The directory.


def test_other_files_are_never_replaced(run: Make, tmp_path: Path, written: Path):
    hosts = read(run("again", **MESH))
    with pytest.raises(
        InputError, match=r"--files: expected a new directory, found earlier files in .*--force"
    ):
        files.write(hosts, written)
    files.write(hosts[:1], written, force=True)
    assert [folder.name for folder in written.iterdir()] == ["H"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("")
    with pytest.raises(InputError, match="found other files"):
        files.write(hosts, other, force=True)
    with pytest.raises(InputError, match="expected a directory, found the file"):
        files.write(hosts, other / "mine")
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_nothing_is_half_written(run: Make, tmp_path: Path):
    unnamed = NETWORK.replace('ipv4 = "198.51.100.7"\n', "").replace('device = "ens4"\n', "")
    with pytest.raises(InputError, match=r"interfaces\.V\.ipv4"):
        files.write(read(run(network=unnamed, **MESH), server=HOME), tmp_path / "files")
    assert not (tmp_path / "files").exists()


def test_programs_are_what_was_compiled(run: Make):
    sender = read(run(**{**MESH, "occ": "olia"}))[0]
    objects = [setting["object"] for setting in sender.settings if setting["kind"] == "congestion"]
    contents = [file.content for file in files.made(sender) if file.path.endswith(".o")]
    # For systemd, for TuneD, for OpenWrt and for the role.
    assert contents == [base64.b64decode(program) for program in objects for _ in range(4)]
