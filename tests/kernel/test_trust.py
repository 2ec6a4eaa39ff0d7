"""Root's sessions beside users who are not root: none makes root set anything, none keeps it out."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kernel.trust_world import ANYBODY, JOURNAL, SERVICE, Realm, settled
from tests.plugins.waiting import PATIENCE_S, until

pytestmark = pytest.mark.needs("root", "namespaces")

ROOTS, SERVICES = "/run/mptune-root", "/run/mptune"
FORWARD = "net.ipv4.ip_forward"
#: Makes a directory with rights, and gives it to a user.
MAKE = """
place, rights, user = arguments
os.mkdir(place)
os.chmod(place, int(rights, 8))
os.chown(place, int(user), int(user))
"""
#: Takes the name by which sessions once locked; with a second argument nobody is ever taken in there.
SQUAT = """
names = [b"\\0mptune-agent " + name.encode() for name in ("/tmp/mptune-0", "/run/mptune", "daemon")]
held = []
for name in names:
    one = socket.socket(socket.AF_UNIX)
    one.bind(name)
    held.append(one)
    if arguments:
        one.listen(0)
        while True:
            other = socket.socket(socket.AF_UNIX)
            other.setblocking(False)
            try:
                other.connect(name)
            except BlockingIOError:
                break
            held.append(other)
before = os.stat("/tmp").st_mtime_ns
print("ready", flush=True)
"""
#: Waits until somebody has made a directory in /tmp and removed it, and puts another in its place.
REPLACE = """
while os.stat("/tmp").st_mtime_ns == before or os.path.exists("/tmp/mptune-0"):
    pass
os.mkdir("/tmp/mptune-0")
arguments = ["/tmp/mptune-0/journal-x.json", json.dumps({"net.ipv4.ip_forward": "1"})]
"""


@pytest.fixture
def realm() -> Iterator[Realm]:
    realm = Realm()
    try:
        yield realm
    finally:
        realm.close()


@contextmanager
def session(realm: Realm, **more: Any) -> Iterator[dict[str, Any]]:
    """The first message of a session, which is over afterwards."""
    process = realm.agent("host", **more)
    try:
        yield json.loads(first(process))
    finally:
        process.stdin.close()
        process.wait(PATIENCE_S)


def first(process: Any) -> str:
    """The first line with something in it."""
    greeting: str = next(line for line in process.stdout if line.strip())
    return greeting


def refusal(realm: Realm, **more: Any) -> str:
    """The reason for which a session ends at once, in one line."""
    process = realm.agent("host", **more)
    output, errors = process.communicate("", timeout=PATIENCE_S)
    (line,) = output.split("\n")[1:-1]
    assert (process.returncode, errors) == (1, "")
    reason: str = json.loads(line)["reason"]
    assert "\n" not in reason
    return reason


def of_service(realm: Realm) -> None:
    """The directory that systemd makes for the daemon's user."""
    realm.run(MAKE, SERVICES, "755", str(SERVICE))


@contextmanager
def squatter(realm: Realm, *words: str, then: str = "sys.stdin.read()") -> Iterator[None]:
    process = realm.start("-", SQUAT + then, *words, user=ANYBODY)
    assert process.stdout.readline() == "ready\n"
    yield
    process.kill()


def test_a_journal_that_somebody_puts_where_root_looks_is_not_read(realm):
    of_service(realm)
    then = f"{REPLACE}{JOURNAL}\nos.chmod(arguments[0], 0o644)\nheld.clear()\none.close()"
    with squatter(realm, then=then), session(realm) as hello:
        assert (hello["event"], hello["recovered"]) == ("hello", [])
    assert realm.value(FORWARD) == "0"
    assert realm.names("/tmp") == [] and realm.names("/run") == ["mptune"]


@pytest.mark.parametrize("user", [SERVICE, ANYBODY])
def test_a_journal_in_the_directory_of_the_service_is_not_read(realm, user):
    of_service(realm)
    realm.run("os.chmod('/run/mptune', 0o777)")
    realm.journal(f"{SERVICES}/journal-x.json", {FORWARD: "1"}, user=user)
    with session(realm) as hello:
        assert hello["recovered"] == []
    assert realm.value(FORWARD) == "0"


@pytest.mark.parametrize("full", [[], ["full"]], ids=["deaf", "full"])
def test_nobody_keeps_root_out_by_a_name(realm, full):
    with squatter(realm, *full), session(realm) as hello:
        assert hello["event"] == "hello"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            f"os.mkdir('{ROOTS}'); os.chown('{ROOTS}', {SERVICE}, 0)",
            "expected it to be user 0's, found user 61234's",
        ),
        (f"os.mkdir('{ROOTS}'); os.chmod('{ROOTS}', 0o770)", "that nobody else can write it, found mode 770"),
        (f"os.mkdir('/tmp/x'); os.symlink('/tmp/x', '{ROOTS}')", "expected a directory"),
        (f"open('{ROOTS}', 'w').close()", "expected a directory"),
        (f"os.mkfifo('{ROOTS}')", "expected a directory"),
    ],
)
def test_where_roots_directory_is_not_its_own_nothing_is_done(realm, script, words):
    realm.run(script)
    reason = refusal(realm)
    assert reason.startswith(f"{ROOTS}: ") and words in reason
    assert [name for name in realm.names("/tmp") if name != "x"] == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("os.chown(journal, 61234, 0)", "expected it to be user 0's, found user 61234's"),
        ("os.chmod(journal, 0o620)", "that nobody else can write it, found mode 620"),
        ("os.rename(journal, '/run/x'); os.symlink('/run/x', journal)", "symbolic links"),
        ("os.remove(journal); os.mkfifo(journal)", "expected a file, found a named pipe"),
        ("os.truncate(journal, 1 << 30)", "one of more than 16777216 bytes"),
    ],
)
def test_a_journal_that_is_not_roots_alone_is_refused(realm, script, words):
    realm.run(MAKE, ROOTS, "700", "0")
    realm.journal(f"{ROOTS}/journal-x.json", {FORWARD: "1"})
    realm.run(f"journal = '{ROOTS}/journal-x.json'; {script}")
    reason = refusal(realm)
    assert reason.startswith(f"{ROOTS}/journal-x.json: ") and words in reason
    assert realm.value(FORWARD) == "0" and realm.names(ROOTS) == ["journal-x.json"]


@pytest.mark.parametrize("place", [ROOTS, SERVICES], ids=["today's", "of version 0.2"])
def test_what_a_dead_session_of_roots_has_left_is_put_back(realm, place):
    realm.run(MAKE, place, "700", "0")
    realm.journal(f"{place}/journal-x.json", {FORWARD: "1"})
    with session(realm) as hello:
        assert hello["recovered"] == [FORWARD]
    assert realm.value(FORWARD) == "1" and realm.names("/run") == []


def test_two_sessions_are_refused_in_one_network_and_not_in_two(realm):
    with session(realm) as hello:
        assert refusal(realm).endswith(f"process {hello['pid']}")
        with session(realm, netns="new") as other:
            assert other["event"] == "hello"
        assert len(realm.names(ROOTS)) == 1
    assert realm.names("/run") == []


def test_another_user_has_a_directory_of_its_own_or_none(realm):
    with session(realm, user=ANYBODY) as hello:
        assert hello["uid"] == ANYBODY
        assert realm.names("/tmp") == [f"mptune-{ANYBODY}"]
    assert realm.names("/tmp") == []
    realm.run(MAKE, "/run/own", "700", str(ANYBODY))
    with session(realm, user=ANYBODY, environment={"XDG_RUNTIME_DIR": "/run/own"}):
        assert realm.names("/run/own") == ["mptune"] and realm.names("/tmp") == []
    reason = refusal(realm, user=ANYBODY, environment={"XDG_RUNTIME_DIR": "/run"})
    assert reason.startswith("/run/mptune: Permission denied") and realm.names("/tmp") == []
    realm.run(MAKE, f"/tmp/mptune-{ANYBODY}", "700", str(SERVICE))
    assert f"/tmp/mptune-{ANYBODY}: Permission denied" in refusal(realm, user=ANYBODY)
    realm.run(f"os.chmod('/tmp/mptune-{ANYBODY}', 0o755)")
    assert f"expected it to be user {ANYBODY}'s, found user {SERVICE}'s" in refusal(realm, user=ANYBODY)


# The daemon


def daemon(realm: Realm) -> Any:
    """The daemon of the default policy there."""
    realm.run("os.path.exists('/run/p.toml') or open('/run/p.toml', 'w').close()")
    return realm.agent("daemon", "--policy", "/run/p.toml", stdin=subprocess.DEVNULL)


def ends(process: Any) -> None:
    process.terminate()
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, (output, errors)


@pytest.mark.parametrize("full", [[], ["full"]], ids=["deaf", "full"])
def test_nobody_keeps_the_daemon_out_by_a_name(realm, full):
    with squatter(realm, *full):
        process = daemon(realm)
        assert "ready: " in process.stderr.readline()
        ends(process)
    assert realm.names("/run") == ["p.toml"]


def test_a_second_daemon_is_refused(realm):
    process = daemon(realm)
    assert "ready: " in process.stderr.readline()
    two = daemon(realm)
    _, errors = two.communicate(timeout=PATIENCE_S)
    assert errors == f"another daemon is running in this network namespace: process {process.pid}\n"
    ends(process)


def test_a_socket_that_takes_nobody_in_holds_nobody_up(realm):
    realm.run(MAKE, SERVICES, "755", "0")
    script = """
place = "/run/mptune/daemon.sock"
one = socket.socket(socket.AF_UNIX)
one.bind(place)
one.listen(0)
held = []
while True:
    other = socket.socket(socket.AF_UNIX)
    other.setblocking(False)
    held.append(other)
    try:
        other.connect(place)
    except BlockingIOError:
        break
print("ready", flush=True)
sys.stdin.read()
"""
    busy = realm.start("-", script)
    assert busy.stdout.readline() == "ready\n"
    _, errors = daemon(realm).communicate(timeout=PATIENCE_S)
    assert errors.rstrip().endswith("found one with a listener")
    busy.kill()


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_session_that_waits_for_the_last_ones_guardian_ends(realm, number):
    process = realm.agent("host", environment={"MPTUNE_STOP_AT": "guardian alone"})
    first(process)
    process.stdin.write(json.dumps({"action": "set", "id": 1, "settings": {FORWARD: "1"}}) + "\n")
    process.stdin.flush()
    assert '"set"' in first(process)
    process.kill()
    process.wait()
    two = realm.agent("host")
    settled(two, number)
    two.send_signal(number)
    output, _ = two.communicate(timeout=PATIENCE_S)
    assert f"ended by {number.name}" in output
    for pid in realm.processes("guardian"):
        os.kill(pid, signal.SIGCONT)
    until(lambda: realm.value(FORWARD) == "0" and realm.names("/run") == [], "the guardian's work")
