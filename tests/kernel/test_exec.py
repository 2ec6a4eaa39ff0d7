"""`mptune exec` on the kernel: real programs that know no MPTCP, between two hosts with two links."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mptune.linux import bpf
from mptune.linux.preload import LIBRARY
from mptune.linux.preload.program import find
from tests.plugins.exec_world import (
    SERVER,
    SERVER6,
    TESTED,
    Hosts,
    document,
    joined,
    of_kind,
    python,
    web,
)
from tests.plugins.needs import Thing, lack, program

pytestmark = pytest.mark.needs("root")

#: Enough for both links, bytes; two seconds of one of them.
BIG = 12_000_000


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if not LIBRARY.exists():
        lack(TESTED, Thing("the preloaded library (make agent)", "elsewhere"))
    with ExitStack() as stack:
        yield Hosts(stack)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Folder of the web servers; those of pytest are closed to servers that give up their rights."""
    with tempfile.TemporaryDirectory(prefix="mptune-web-") as name:
        made = Path(name)
        made.chmod(0o755)
        (made / "big").write_bytes(bytes(BIG))
        (made / "small").write_text("small")
        yield made


URL = f"http://{SERVER}:8000"


def client(name: str) -> list[str]:
    """Command line that fetches a file, and uses nothing else."""
    return {
        "curl": ["curl", "-sSf", "-o", "/dev/null", f"{URL}/big"],
        "curl-ipv6": ["curl", "-sSfg", "-o", "/dev/null", f"http://[{SERVER6}]:8000/big"],
        "wget": ["wget", "-q", "-O", "/dev/null", f"{URL}/big"],
        "python": python(f"import urllib.request as r; assert len(r.urlopen('{URL}/big').read()) == {BIG}"),
        "node": [
            *("node", "-e"),
            f"require('http').get('{URL}/big', r => {{ r.resume(); r.on('end', () => process.exit(0)) }})",
        ],
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("curl", marks=pytest.mark.needs("curl")),
        pytest.param("curl-ipv6", marks=pytest.mark.needs("curl")),
        pytest.param("wget", marks=pytest.mark.needs("wget")),
        "python",
        pytest.param("node", marks=pytest.mark.needs("node")),
    ],
)
def test_a_program_fetches_a_file_over_two_subflows(hosts, folder, name):
    command = client(name)
    with hosts.server(web(folder), 8000) as server:
        report = hosts.watched(command)
    (mine,) = joined(report)
    assert mine["received_bytes"] > BIG and mine["role"] == "client"
    assert not report["refused"] and len(report["connections"]) == 1
    # The accepted end reports the same.
    (theirs,) = joined(server[0])
    # What it had not sent yet when it closed the socket, nobody counts there.
    assert theirs["role"] == "server" and BIG // 2 < theirs["sent_bytes"] <= mine["received_bytes"]
    ends = {(flow["local"], flow["remote"]) for flow in theirs["subflows"]}
    assert {(flow["remote"], flow["local"]) for flow in mine["subflows"]} == ends


@pytest.mark.needs("iperf3")
def test_iperf3(hosts):
    iperf3 = program("iperf3")
    with hosts.server([iperf3, "-s"], 5201) as server:
        report = hosts.watched([iperf3, "-c", SERVER, "-t", "2"])
        backwards = hosts.watched([iperf3, "-c", SERVER, "-t", "2", "-R"])
        datagrams = hosts.watched([iperf3, "-c", SERVER, "-t", "1", "-u"])
    for transfers in (report, backwards):
        assert len(of_kind(transfers, "mptcp")) == 2 and len(joined(transfers)) >= 1, "control and data"
    assert len(of_kind(datagrams, "mptcp")) == 1, "control alone"
    assert len(of_kind(server[0], "mptcp")) == 5


@pytest.mark.needs("sshd")
def test_ssh_and_its_server(hosts, tmp_path):
    ssh, sshd = program("ssh"), program("sshd")
    for name in ("host", "user"):
        subprocess.run(
            [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True
        )
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    (tmp_path / "sshd_config").write_text(
        f"Port 2022\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\n"
        f"PidFile none\nPermitRootLogin prohibit-password\nUsePAM no\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", f"IdentityFile={tmp_path}/user"]
    command = [
        ssh,
        "-F",
        "none",
        "-q",
        "-p",
        "2022",
        *(word for option in options for word in ("-o", option)),
    ]
    with hosts.server([sshd, "-D", "-e", "-f", str(tmp_path / "sshd_config")], 2022) as server:
        report = hosts.watched(
            [*command, SERVER, f"head -c {BIG} /dev/zero"],
            stdout=subprocess.DEVNULL,
            capture_output=False,
            stderr=subprocess.PIPE,
        )
    assert len(joined(report)) == 1
    assert len(joined(server[0])) == 1, "of the processes of sshd, one describes it to the end"


@pytest.mark.needs("nginx", "curl")
def test_nginx_whose_workers_have_no_rights(hosts, folder, tmp_path):
    nginx = program("nginx")
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr; worker_processes 2;\nevents {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}; proxy_temp_path {tmp_path};\n"
        f" fastcgi_temp_path {tmp_path}; uwsgi_temp_path {tmp_path}; scgi_temp_path {tmp_path};\n"
        f" sendfile on;\n"
        f" server {{ listen 8000 so_keepalive=on; listen [::]:8000 deferred; root {folder}; }} }}\n"
    )
    with hosts.server([nginx, "-c", str(config), "-e", "stderr"], 8000, ending=signal.SIGQUIT) as server:
        report = hosts.watched(client("curl"))
        again = hosts.watched(client("curl-ipv6"))
    assert len(joined(report)) == len(joined(again)) == 1
    served = joined(server[0])
    assert len(served) == 2
    assert all(connection["sent_bytes"] > BIG // 2 for connection in served)


GO = """
package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    if os.Args[1] == "serve" { panic(http.ListenAndServe(":8000", http.FileServer(http.Dir(os.Args[2])))) }
    answer, failure := http.Get(os.Args[1])
    if failure != nil { panic(failure) }
    size, _ := io.Copy(io.Discard, answer.Body)
    fmt.Println(size)
}
"""


@pytest.fixture(scope="module")
def go_program(tmp_path_factory) -> Path:
    go = program("go")
    folder: Path = tmp_path_factory.mktemp("go")
    (folder / "fetch.go").write_text(GO)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GO111MODULE": "off", "GOMAXPROCS": "2"}
    subprocess.run([go, "build", "-o", "fetch", "fetch.go"], cwd=folder, env=environment, check=True)
    return folder / "fetch"


@pytest.mark.timeout(900)  # it is compiled first, with all of the standard library that it uses
@pytest.mark.needs("curl")
@pytest.mark.needs("go")
def test_a_static_go_program_by_its_own_mptcp(hosts, folder, go_program):
    if not find(str(go_program)).go_has_mptcp:
        lack(TESTED, Thing("Go 1.21 or later", "packages"))
    with hosts.server(web(folder), 8000) as server:
        done = hosts.run("local", [str(go_program), f"{URL}/big"])
    assert (done.returncode, done.stdout) == (0, f"{BIG}\n"), done.stderr
    assert len(joined(server[0])) == 1
    with hosts.server([str(go_program), "serve", str(folder)], 8000, options=()):
        assert len(joined(hosts.watched(client("curl")))) == 1
    refused = hosts.run("local", [str(go_program), URL], "--stats")
    assert refused.returncode == 2 and "can be started without --stats" in refused.stderr


@pytest.mark.timeout(900)  # it is compiled first, with all of the standard library that it uses
@pytest.mark.needs("curl")
@pytest.mark.needs("go")
def test_a_static_go_program_whose_sockets_are_made_for_it(hosts, folder, go_program):
    """Its version does not matter then, nor whether it would make MPTCP sockets itself."""
    given = ["--cc", "reno", "--buffer", "1MiB"]
    with hosts.server(web(folder), 8000) as server:
        done = hosts.run("local", [str(go_program), f"{URL}/big"], *given)
    assert (done.returncode, done.stdout) == (0, f"{BIG}\n"), done.stderr
    assert len(joined(server[0])) == 1
    with hosts.server([str(go_program), "serve", str(folder)], 8000, options=given):
        assert len(joined(hosts.watched(client("curl")))) == 1
        assert " reno " in hosts.call("remote", "ss", "-Htlin")


#: Fetches over connections of its own: how many, and a way to end each.
MANY = f"""
import os, socket, struct, sys, threading
count, threads, end = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def fetch():
    one = socket.create_connection(("{SERVER}", 8000))
    one.sendall(b"GET /small HTTP/1.0\\r\\n\\r\\n")
    got = b""
    while part := one.recv(4096): got += part
    assert got.endswith(b"small"), got
    if end == "reset":
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if end in ("close", "reset"): one.close()
    if end == "shutdown": one.shutdown(socket.SHUT_RDWR)
    if end == "leave": one.detach()
    if end == "_exit": os._exit(0)
    if end == "kill": os.kill(os.getpid(), 9)
def work():
    for _ in range(count // threads): fetch()
if end == "fork":
    for _ in range(count):
        child = os.fork()
        if child == 0:
            fetch(); os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
else:
    running = [threading.Thread(target=work) for _ in range(threads)]
    for one in running: one.start()
    for one in running: one.join()
"""


#: A web server with room for many that come at once; Python's own makes the sixth wait for a second.
SMALL = """
import socket, threading
def answer(one):
    with one:
        one.recv(4096)
        one.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nsmall")
ready = socket.create_server(("", 8000), backlog=512)
while True: threading.Thread(target=answer, args=ready.accept()[:1]).start()
"""


def test_a_thousand_short_connections_from_threads(hosts):
    with hosts.server(python(SMALL), 8000) as server:
        report = hosts.watched(python(MANY, "1000", "8", "close"))
    assert len(of_kind(report, "mptcp")) == len(report["connections"]) == 1000
    assert not report["refused"] and not report["failed"]
    assert all(connection["received_bytes"] > 5 for connection in report["connections"])
    assert len(of_kind(server[0], "mptcp")) == 1000


@pytest.mark.parametrize("end", ["reset", "shutdown", "leave", "_exit", "fork"])
def test_however_a_connection_ends_it_is_described(hosts, folder, end):
    with hosts.server(web(folder), 8000):
        report = hosts.watched(python(MANY, "1", "1", end))
    (connection,) = report["connections"]
    assert (
        connection["kind"] == "mptcp"
        and connection["received_bytes"] > 5
        and connection["remote"] == f"{SERVER}:8000"
    )


def test_a_killed_process_is_reported_without_an_end(hosts, folder):
    with hosts.server(web(folder), 8000):
        done = hosts.run("local", python(MANY, "1", "1", "kill"), "--json")
        result = hosts.run("local", python(MANY, "1", "1", "kill"), "--stats")
    assert done.returncode == 128 + signal.SIGKILL
    (connection,) = document(done.stderr)["connections"]
    assert connection["kind"] is None and connection["remote"] == f"{SERVER}:8000"
    assert "1 not seen to end" in result.stderr


#: Prints what sockets of all kinds are, as the kernel reports it: protocol, congestion control, send buffer.
KINDS = """
import ctypes, json, socket
libc = ctypes.CDLL(None)
def real(one, level, name, room):  # past the library
    value, size = ctypes.create_string_buffer(room), ctypes.c_int(room)
    assert libc.syscall(55, one.fileno(), level, name, value, ctypes.byref(size)) == 0
    return value.raw[:size.value]
def number(one, level, name): return int.from_bytes(real(one, level, name, 4), "little")
def shown(one):
    found = [number(one, socket.SOL_SOCKET, name) for name in (socket.SO_PROTOCOL, socket.SO_SNDBUF)]
    if one.type == socket.SOCK_STREAM and one.family != socket.AF_UNIX:
        found.append(real(one, socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0].decode())
    return found
kinds = {"tcp": (2, 1, 6), "tcp6": (10, 1, 0), "flags": (2, 1 | 0x800 | 0x80000, 0), "udp": (2, 2, 0),
         "udp6": (10, 2, 17), "unix": (1, 1, 0), "sctp": (2, 1, 132)}
found = {}
for name, asked in kinds.items():
    try: one = socket.socket(*asked)
    except OSError as error: found[name] = error.errno; continue
    found[name] = shown(one)
    if name == "tcp":
        found["told"] = one.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)
        found["again"] = socket.socket(fileno=one.detach()).proto
mptcp = socket.socket(2, 1, 262)
found["mptcp"] = shown(mptcp)
found["told then"] = mptcp.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)
print(json.dumps(found))
"""


def kinds(hosts: Hosts, *options: str) -> dict[str, object]:
    import json

    if os.uname().machine != "x86_64":
        lack(TESTED, Thing("x86-64, whose getsockopt has number 55", "elsewhere"))
    done = hosts.run("local", python(KINDS), *options)
    assert done.returncode == 0, done.stderr
    set_options: dict[str, object] = json.loads(done.stdout)
    return set_options


@pytest.mark.parametrize("how", [[], ["--supervise"]], ids=["preloaded", "supervised"])
def test_tcp_sockets_alone_change(hosts, how):
    plain = kinds(hosts, *how)
    changed = kinds(hosts, *how, "--cc", "reno", "--buffer", "256KiB")
    for name in ("tcp", "tcp6", "flags"):
        assert changed[name] == [262, 2 * 256 * 1024, "reno"], name
        assert plain[name][0] == 262  # type: ignore[index]
    for name in ("udp", "udp6", "unix", "sctp", "mptcp"):
        assert changed[name] == plain[name], name
    assert plain["udp"][0] == 17  # type: ignore[index]
    # From outside, nothing stands between a program and the kernel's view of its socket.
    values = (262, 262, 262) if how else (6, 6, 262)
    assert (changed["told"], changed["again"], changed["told then"]) == values


#: Sets options that programs set, before and after connecting, and reads them back.
OPTIONS = f"""
import socket
one = socket.socket()
given = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
         (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
         (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 7), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
         (socket.IPPROTO_TCP, socket.TCP_CORK, 0),
         (socket.IPPROTO_IP, socket.IP_TOS, 0x10)]
# These MPTCP refuses, and TCP does not.
tuned = [(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000), (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1),
         (socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3), (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)]
for number in (0, 1):
    for option in given + tuned: one.setsockopt(*option)
    for level, name, value in given: assert bool(one.getsockopt(level, name)) == bool(value), name
    if number == 0: one.connect(("{SERVER}", 8000))
assert len(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)) == 104
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
try: one.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
except OSError: pass
else: raise AssertionError("TLS in the kernel is not to be had")
"""


def test_options_of_tcp_work_as_ever(hosts, folder):
    with hosts.server(web(folder), 8000):
        report = hosts.watched(python(OPTIONS))
    assert len(of_kind(report, "mptcp")) == 1


#: What the program sets itself gives way to what was asked for, also through a duplicate.
OWN_CHOICE = f"""
import os, select, socket, subprocess
one = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 9999)
print(one.connect_ex(("{SERVER}", 8000)))
select.select([], [one], [])
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
other = socket.socket(fileno=os.dup(one.fileno()))
one.close()
other.setblocking(True)
other.sendall(b"GET /small HTTP/1.0\\r\\n\\r\\n")
while other.recv(4096): pass
third = socket.socket()
os.dup2(other.fileno(), third.fileno())
print(third.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
# Of every subflow the kernel says the same.
shown = subprocess.check_output(["ss", "-Htin", "dport", "=", ":8000"], text=True)
print(shown.count("ESTAB"), shown.count("CLOSE-WAIT"), shown.count(" reno "), shown.count(" cubic "))
"""


def test_without_blocking_and_with_duplicates(hosts, folder):
    with hosts.server(web(folder), 8000):
        done = hosts.run("local", python(OWN_CHOICE), "--json", "--cc", "reno", "--buffer", "256KiB")
    pending, size, established, half_closed, reno, cubic = map(int, done.stdout.split())
    assert (pending, size, cubic) == (errno.EINPROGRESS, 512 * 1024, 0), done.stderr
    assert reno == established + half_closed > 0
    (connection,) = document(done.stderr)["connections"]
    assert (connection["kind"], connection["cc"]) == ("mptcp", "reno") and connection["received_bytes"] > 5


@pytest.mark.needs("curl")
def test_accepted_connections_have_what_was_asked_for(hosts, folder):
    with hosts.server(web(folder), 8000, options=("--json", "--cc", "reno")) as server:
        hosts.watched(client("curl"))
    assert [connection["cc"] for connection in server[0]["connections"]] == ["reno"]


@pytest.mark.needs("curl")
def test_where_mptcp_is_disabled_tcp_works(hosts, folder):
    hosts.sysctl("local", "net.mptcp.enabled", "0")
    try:
        with hosts.server(web(folder), 8000) as server:
            report = hosts.watched(client("curl"), "--cc", "reno")
    finally:
        hosts.sysctl("local", "net.mptcp.enabled", "1")
    (connection,) = of_kind(report, "tcp")
    assert (
        connection["received_bytes"] > BIG and connection["cc"] == "reno" and len(connection["subflows"]) == 1
    )
    (refused,) = report["refused"]
    assert (refused["what"], refused["error"]) == ("mptcp", "ENOPROTOOPT")
    (theirs,) = server[0]["connections"]
    assert theirs["kind"] == "tcp", "the kernel accepts a client of TCP as a socket of TCP"


#: Protocol, send buffer and congestion control of a TCP socket.
TCP = """
import socket
with socket.socket() as one:
    cc = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
    print(one.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL),
          one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), cc)
"""


def test_where_mptcp_is_disabled_a_supervised_program_has_tcp_with_what_was_asked_for(hosts):
    hosts.sysctl("local", "net.mptcp.enabled", "0")
    try:
        done = hosts.run("local", python(TCP), "--supervise", "--cc", "reno", "--buffer", "256KiB")
    finally:
        hosts.sysctl("local", "net.mptcp.enabled", "1")
    assert done.stdout.split() == ["6", str(2 * 256 * 1024), "reno"], done.stderr


def test_a_socket_is_one_of_the_namespace_of_the_program(hosts, folder):
    """A supervised child in a network namespace of its own reaches nobody."""
    reach = python(f"import socket; socket.create_connection(('{SERVER}', 8000), 10).close(); print('there')")
    with hosts.server(web(folder), 8000):
        near = hosts.run("local", reach, "--supervise")
        far = hosts.run("local", [program("unshare"), "--net", *reach], "--supervise")
    assert near.stdout == "there\n", near.stderr
    assert far.returncode == 1 and "Network is unreachable" in far.stderr


@pytest.mark.needs("curl")
def test_a_server_without_mptcp_is_talked_to_in_tcp(hosts, folder):
    with hosts.server(web(folder), 8000, options=None):
        report = hosts.watched(client("curl"))
    (connection,) = of_kind(report, "fallback")
    assert connection["fallback"] and connection["received_bytes"] > BIG


@pytest.mark.needs("curl")
def test_a_server_that_is_not_there(hosts):
    done = hosts.run("local", ["curl", "-sS", f"http://{SERVER}:9"], "--json")
    assert done.returncode == 7, "curl's own code"
    report = document(done.stderr)
    assert (report["connections"], report["failed"]) == ([], 1)


@pytest.mark.needs("curl")
def test_children_inherit_it(hosts, folder):
    with hosts.server(web(folder), 8000):
        script = f'curl -sf {URL}/small -o /dev/null; {sys.executable} -c "{client("python")[2]}"'
        report = hosts.watched(["sh", "-c", script])
    assert (
        len(of_kind(report, "mptcp")) == len({connection["pid"] for connection in report["connections"]}) == 2
    )


def test_a_congestion_control_that_this_user_may_not_choose(hosts):
    """The list of those that everyone may choose is the machine's, not the namespace's: it stays as it is."""
    rights = [
        *(program("setpriv"), "--bounding-set=-net_admin"),
        *("--inh-caps=-net_admin", "--ambient-caps=-net_admin", "--"),
    ]
    # Programs of BPF, whose names have a "_", come and go with the tests that load them.
    for name in (name for name in congestion_controls("available") if "_" not in name):
        full = hosts.command("local", ["true"], ["--cc", name])
        place = full.index("--") + 1
        done = subprocess.run(
            [*full[:place], *rights, *full[place:]], capture_output=True, text=True, check=False, timeout=60
        )
        if name in congestion_controls("allowed"):
            assert (done.returncode, done.stderr) == (0, "")
        else:
            every = " ".join([*congestion_controls("allowed"), name])
            assert done.returncode == 2
            assert f"this user may not choose {name}; sudo sysctl -w" in done.stderr
            assert f'="{every}" allows it' in done.stderr


def congestion_controls(which: str) -> list[str]:
    """Without the programs that other tests register meanwhile."""
    names = Path(f"/proc/sys/net/ipv4/tcp_{which}_congestion_control").read_text().split()
    return [name for name in names if not name.startswith(bpf.PREFIX)]
