"""The units for systemd, held against systemd itself, which does not have to run."""

import re
import subprocess
from datetime import time as Time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.daemon import units
from mptune.linux import agent

#: systemd's own judgement goes from 0 (nothing can be done) to 10; most services of a system are above 9.
LARGEST_EXPOSURE = 2.0


@pytest.fixture
def written(tmp_path: Path) -> Path:
    programs = units.Programs(agent=agent.program(), mptune=("/bin/echo", "a word"))
    places = (Path("/etc/mptune/policy.toml"), Time(2), "127.0.0.1:9464")
    for name, text in units.texts(programs, *places).items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.needs("systemd-analyze", "linux")
def test_systemd_finds_nothing_wrong(written: Path) -> None:
    files = sorted(map(str, written.iterdir()))
    assert len(files) == 3
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.needs("systemd-analyze", "linux")
def test_the_service_exposes_little(written: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(written / units.SERVICE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"Overall exposure level for mptune.service: ([0-9.]+)", done.stdout)
    assert match, done
    assert float(match[1]) <= LARGEST_EXPOSURE


def test_the_service_may_do_what_it_does(written: Path) -> None:
    text = (written / units.SERVICE).read_text()
    assert "CapabilityBoundingSet=CAP_NET_ADMIN\n" in text and "AmbientCapabilities=CAP_NET_ADMIN\n" in text
    # Read-only for the service, but for what it changes.
    assert "ProtectKernelTunables=yes\n" in text and "ReadWritePaths=-/proc/sys/net/mptcp\n" in text
    assert "ReadWritePaths=-/proc/sys/net/ipv4/tcp_rmem -/proc/sys/net/ipv4/tcp_wmem\n" in text
    assert re.search(r"^ExecStopPost=-\S+ daemon --restore$", text, re.M)
    assert "OnCalendar=*-*-* 02:00:00\n" in (written / units.TIMER).read_text()
    assert '"a word" daemon --remeasure' in (written / units.REMEASURE).read_text()


def test_it_listens_only_where_the_metrics_are() -> None:
    programs, file = units.Programs(agent=Path("/opt/mptune-agent"), mptune=("mptune",)), Path("/p")
    nowhere = units.service(programs, file)
    assert "AF_NETLINK\n" in nowhere and "IPAddressDeny=any\n" in nowhere and "--metrics" not in nowhere
    for address in ("127.0.0.1:9464", "[::1]:9464"):
        text = units.service(programs, file, address)
        assert "AF_NETLINK AF_INET AF_INET6\n" in text and "--metrics" not in text
        assert "IPAddressDeny=any\nIPAddressAllow=localhost\n" in text
    text = units.service(programs, file, "192.0.2.1:9464", by_option=True)
    assert "IPAddress" not in text and "daemon --policy /p --metrics 192.0.2.1:9464\n" in text


def test_without_quiet_hours_there_is_no_timer() -> None:
    programs = units.Programs(agent=Path("/opt/mptune-agent"), mptune=("mptune",))
    assert list(units.texts(programs, Path("/p"), None)) == [units.SERVICE]
    assert "ProtectHome=yes\n" in units.service(programs, Path("/p"))
    at_home = units.Programs(agent=Path("/home/me/mptune-agent"), mptune=("mptune",))
    assert "ProtectHome=read-only\n" in units.service(at_home, Path("/p"))
    assert "--policy /with%%percent" in units.service(programs, Path("/with%percent"))


def test_the_command_prints_them_or_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[remeasure]\nhours = "01:15-05:00"\n')
    printed = CliRunner().invoke(app, ["daemon", "--unit", "--policy", str(file)])
    assert printed.exit_code == 0 and printed.output.startswith("# mptune.service\n[Unit]\n")
    assert "OnCalendar=*-*-* 01:15:00" in printed.output
    with_metrics = CliRunner().invoke(app, ["daemon", "--unit", "--policy", str(file), "--metrics", "9464"])
    assert f"daemon --policy {file} --metrics 127.0.0.1:9464\n" in with_metrics.output
    done = CliRunner().invoke(app, ["daemon", "--unit", "--policy", str(file), str(tmp_path)])
    assert "systemctl enable --now mptune.service mptune-remeasure.timer" in done.output
    assert f"daemon --policy {file}\n" in (tmp_path / units.SERVICE).read_text()
    refused = CliRunner().invoke(app, ["daemon", "--unit", "--policy", str(file), str(tmp_path / "none")])
    assert refused.exit_code == 1 and "mptune.service: No such file" in refused.output
