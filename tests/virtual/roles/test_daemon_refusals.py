"""Policy files and machines that the daemon refuses before it changes anything, also at a reload."""

import os
import shutil
import signal
import subprocess

import pytest

from mptune.linux import agent
from tests.plugins.daemon_world import FULLMESH, KERNEL, USERSPACE, pcdc
from tests.plugins.waiting import until
from tests.plugins.watching import reported, watching, with_subflows

pytestmark = pytest.mark.usefixtures("may_manage_paths")

NOBODY = 65534


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "colour = 1",
            "daemon.colour: expected one of mode, socket, metrics, keep_endpoints, interfaces, found",
        ),
        ('mode = "fast"', "daemon.mode: expected one of auto, userspace, endpoints, found"),
        ('[default]\npolicy = "fullmash"', "default.policy: expected one of default"),
        (
            '[[policy]]\nname = "a"\nto = ["10.0.0.1/8"]',
            "policy[0].to[0]: expected 10.0.0.0/8 (no bits of a host)",
        ),
        (
            '[[policy]]\nname = "a"\nto = ["10.0.0.0/8"]\nrun = "nowhere"',
            "policy[0].run: expected a directory",
        ),
        (
            '[buffers]\nleast = "2MiB"\nmost = "1MiB"',
            'buffers.most: expected at least buffers.least, found "1MiB"',
        ),
        (
            '[buffers]\nleast = "2 MiBs"\nmost = "4MiB"',
            "buffers.least: expected a size such as 256KiB (units: B, KiB,",
        ),
        ("[", "line 3: expected TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(daemon, text, expected):
    daemon.write(text)
    for options in ([], ["--check"]):
        refused = daemon.done(*options)
        assert refused.returncode == 2 and not refused.stdout
        assert refused.stderr.startswith(f"{daemon.file}: {expected}") and refused.stderr.count("\n") == 1
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def test_a_socket_that_is_not_possible_is_refused(daemon, tmp_path):
    daemon.write(FULLMESH, socket=str(tmp_path / "no/where/daemon.sock"))
    refused = daemon.done()
    assert (refused.returncode, "the socket's directory" in refused.stderr) == (1, True)
    assert daemon.path_manager() == KERNEL and not daemon.run.exists()


def confined(script: str) -> list[str]:
    """A command line after a script that changes mounts, which nobody else sees."""
    return ["unshare", "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


@pytest.mark.parametrize(
    ("options", "words"), [("ro", "Read-only file system"), ("size=4k", "No space left on device")]
)
@pytest.mark.needs("namespaces")
def test_without_a_place_for_the_note_nothing_is_changed(daemon, options, words):
    daemon.write(FULLMESH, socket=str(daemon.folder / "daemon.sock"))
    daemon.run.mkdir()
    fill = f"mount -t tmpfs -o rw,size=4k none {daemon.run}; chmod 755 {daemon.run}\n"
    fill += f"mkdir -m 700 {daemon.run}/daemon; dd if=/dev/zero of={daemon.run}/full 2>/dev/null || true\n"
    fill += f"mount -o remount,{options} {daemon.run}"
    refused = subprocess.run(
        [*confined(fill), *daemon.command()], env=daemon.env, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1 and words in refused.stderr and refused.stderr.count("\n") == 1
    assert daemon.path_manager() == KERNEL and not (daemon.folder / "daemon.sock").exists()


def test_a_kernel_without_a_path_manager_in_userspace_is_refused_with_what_to_do(daemon, tmp_path):
    root = tmp_path / "sys/net/mptcp"
    root.mkdir(parents=True)
    daemon.env["MPTUNE_SYSCTL_ROOT"] = str(tmp_path / "sys")
    refused = daemon.done()
    assert refused.returncode == 1 and "this kernel has no MPTCP" in refused.stderr
    (root / "enabled").write_text("1\n")
    daemon.write(FULLMESH, mode="userspace")
    refused = daemon.done()
    assert refused.returncode == 1
    assert "daemon.mode: expected endpoints or auto on this kernel" in refused.stderr


@pytest.mark.needs("namespaces")
def test_it_works_as_the_unit_lets_it(daemon, world, accepting):
    """A user without rights but CAP_NET_ADMIN, and /proc/sys read-only but for what the unit gives back."""
    daemon.write(f'[buffers]\nleast = "5MiB"\nmost = "5MiB"\n{pcdc(daemon)}')
    daemon.run.mkdir()
    os.chown(daemon.run, NOBODY, NOBODY)
    for folder in (daemon.folder, *daemon.folder.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o005:
            folder.chmod(folder.stat().st_mode | 0o011)
    program = shutil.copy(agent.program(), daemon.folder)
    # As systemd does for ProtectKernelTunables= and ReadWritePaths=.
    script = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys\n"
    for place in ("mptcp", "ipv4/tcp_rmem", "ipv4/tcp_wmem"):
        script += f"mount --bind /proc/sys/net/{place} /proc/sys/net/{place}\n"
        script += f"mount -o remount,rw,bind /proc/sys/net/{place}\n"
    before = [
        "nsenter",
        f"--net={world.sites.local}",
        "--",
        *confined(script),
        "setpriv",
        f"--reuid={NOBODY}",
    ]
    before += [
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=-all,+net_admin",
        "--ambient-caps=-all,+net_admin",
    ]
    before += ["--bounding-set=-all,+net_admin", "--no-new-privs", "--"]
    daemon.command = lambda *options: [str(program), "daemon", "--policy", str(daemon.file), *options]
    daemon.begin(*before)
    assert daemon.path_manager() == USERSPACE
    limits = daemon.ask("status")["buffers"]["limits"]
    assert [(limit["limit_bytes"], limit["adapted"]) for limit in limits] == [(5 << 20, True)] * 2
    with world.transfer(), watching(world) as child:
        reported(child, with_subflows(4))
    daemon.kill()
    until(lambda: daemon.path_manager() == KERNEL, "the kernel's path manager")


def test_a_reload_takes_a_good_file_and_refuses_a_bad_one(daemon, world, accepting):
    daemon.begin()
    daemon.write("[default]\npolicy = 7\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert "the policies are as before" in daemon.heard("reload refused")
    assert "default.policy: expected text, found 7" in daemon.ask("status")["reload_refused"]
    daemon.write(pcdc(daemon))
    assert daemon.ask("reload") == {"event": "reloaded"}
    status = daemon.ask("status")
    assert status["reload_refused"] is None
    assert [policy["name"] for policy in status["policies"]] == ["answer", "default"]
    with world.transfer(), watching(world) as child:
        reported(child, with_subflows(4))


def test_what_a_reload_cannot_change_is_refused(daemon):
    daemon.begin()
    daemon.write(FULLMESH, mode="endpoints")
    with pytest.raises(Exception, match=r"daemon.mode: expected what it was when the daemon began"):
        daemon.ask("reload")
