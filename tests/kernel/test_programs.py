"""Real programs as a workload: what is measured of them, how they fail, and that nothing is left behind."""

import os
import shlex
import signal
import sys
from collections.abc import Callable

import pytest

from mptune.errors import InputError
from mptune.linux import preload, programs
from mptune.linux.sandbox import leftovers
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.trial import Commands, Observation, Trial
from tests.plugins.needs import Thing, lack
from tests.plugins.program import running
from tests.plugins.trials import SECOND

SIZE = 1 << 20

#: Serves connections one after the other, with SIZE bytes each.
SERVER = f"""
import os, socket
with socket.create_server(("", int(os.environ["MPTUNE_PORT"]))) as server:
    while True:
        with server.accept()[0] as connection:
            connection.sendall(bytes({SIZE}))
            connection.recv(1)  # once it has closed its end, no further subflow could join
"""
#: Reads that of so many connections.
CLIENT = f"""
import os, socket, sys
end = os.environ["MPTUNE_SERVER"], int(os.environ["MPTUNE_PORT"])
for _ in range(int(sys.argv[1])):
    with socket.create_connection(end) as connection:
        size = 0
        while size < {SIZE}:
            size += len(connection.recv(1 << 16)) or sys.exit("cut short")
"""
#: Has a child that is nobody's and goes on.
DAEMON = """
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.pause()
"""


def python(text: str, *arguments: str) -> tuple[str, ...]:
    return sys.executable, "-c", text, *arguments


def workload(client, server=None, deadline_ns=60 * SECOND):
    return Commands(client=client, server=server or python(SERVER)).lasting(deadline_ns)


@pytest.fixture(autouse=True)
def _library(testbed: NamespacesTestbed) -> None:
    if not preload.LIBRARY.exists():
        lack("programs as a workload", Thing("the preloaded library (make agent)", "elsewhere"))


@pytest.fixture
def left(marked) -> Callable[[], dict[int, str]]:
    """Processes of this program's trials that exist now."""
    return lambda: marked(f"{leftovers.VARIABLE}={os.getpid()}-")


def test_the_connections_of_programs_are_measured(measured, left):
    before = left()
    observation: Observation = measured(workload=workload(python(CLIENT, "3")))
    assert observation.failed is None
    assert observation.in_order_bytes == 3 * SIZE
    assert observation.completion_ns == observation.duration_ns > 0
    found = observation.metadata
    assert (found["connections"], found["connections_mptcp"], found["connections_fallback"]) == (3, 3, 0)
    assert found["connection_bytes"] == " ".join([str(SIZE)] * 3)
    assert found["client_ended"] == "ended with status 0" and found["server_ended"] == "was ended"
    by_path = {subflow.path: subflow for subflow in observation.subflows}
    assert set(by_path) == {"W-X", "N-X"} and by_path["W-X"].bytes > SIZE
    # What was sent again on the other subflow counts twice.
    assert sum(flow.bytes for flow in by_path.values()) >= 3 * SIZE
    assert left() == before


def test_plain_tcp_is_left_alone_and_has_the_settings(measured):
    observation = measured(
        workload=workload(python(CLIENT, "1")), protocol="tcp", pm="default", cc="reno", initial_path="N-X"
    )
    assert observation.failed is None
    assert observation.metadata["connections_tcp"] == 1 and observation.metadata["cc_effective"] == "reno"
    assert [subflow.path for subflow in observation.subflows] == ["N-X"]


def test_a_program_that_asks_for_mptcp_itself_keeps_it(measured):
    """262 is IPPROTO_MPTCP."""
    text = CLIENT.replace("socket.create_connection(", "connected(")
    itself = (
        "def connected(end):\n    made = socket.socket(proto=262)\n    made.connect(end)\n    return made\n"
    )
    client = python(text.replace("for _", f"{itself}for _", 1), "1")
    assert measured(workload=workload(client)).metadata["connections_mptcp"] == 1
    served = SERVER.replace("socket.create_server((", "served((").replace(
        "import os, socket",
        "import os, socket\n"
        "def served(end):\n"
        "    made = socket.socket(proto=262)\n"
        "    made.bind(end)\n"
        "    made.listen()\n"
        "    return made",
    )
    both = workload(client, python(served))
    failed = measured(workload=both, protocol="tcp", pm="default").failed
    assert failed.kind == "refused" and "MPTCP sockets itself" in failed.reason


END = "; signal.pause()"
OF_TCP = ("env", "-u", "LD_PRELOAD", *python(SERVER))
FAILING = {
    "fails": (python("raise SystemExit('no luck')"), None, "died", "client: ended with status 1: no luck"),
    "killed": (python("import os; os.abort()"), None, "died", "client: was killed by signal 6"),
    "endless": (python(f"import signal{END}"), None, "incomplete", "client: it did not end within 0.5 s"),
    "no connection": (python(""), None, "unreachable", "client: it opened no TCP connection"),
    "no MPTCP": (python(CLIENT, "1"), OF_TCP, "fallback", "none of the client's 1 connections used MPTCP"),
    "no server": (
        python(CLIENT, "1"),
        python("raise SystemExit('taken')"),
        "died",
        "server: ended with status 1: taken before it listened",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_a_failure_has_its_reason_and_leaves_nothing(case, measured, left):
    client, server, kind, reason = FAILING[case]
    before, deadline_ns = left(), SECOND // 2 if kind == "incomplete" else 60 * SECOND
    failed = measured(workload=workload(client, server, deadline_ns)).failed
    assert failed.kind == kind and failed.reason.startswith(reason)
    assert left() == before


def test_a_server_that_does_not_listen_is_not_waited_for(measured, monkeypatch, left):
    monkeypatch.setattr(programs, "LISTEN_S", 0.5)
    before = left()
    silent = python("import sys, signal; print('busy', file=sys.stderr, flush=True); signal.pause()")
    failed = measured(workload=workload(python(CLIENT, "1"), silent)).failed
    assert failed.kind == "incomplete" and failed.reason.startswith("server: it did not listen within 0.5 s")
    assert left() == before


def test_what_programs_leave_running_ends_with_them(measured, left):
    before = left()
    observation = measured(
        workload=workload(python(DAEMON + CLIENT, "1"), python(DAEMON + SERVER)),
    )
    assert observation.failed is None and observation.metadata["connections"] == 1
    assert left() == before


def test_ctrl_c_ends_both_programs(two_file, marked, until):
    forever = python("import signal; signal.pause()  # endless client")
    line = f"exec:{shlex.join(forever)},{shlex.join(python(SERVER))}"
    with running("run", two_file, "--testbed", "namespaces", "--workload", line) as program:
        mine = f"{leftovers.VARIABLE}={program.pid}-"
        until(lambda: any("endless client" in command for command in marked(mine).values()), "the client")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
    until(lambda: not marked(mine), "the end of all its processes")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("no-such-program", "found no executable 'no-such-program' on the PATH"),
        (__file__, "found no executable"),
    ],
)
def test_what_is_no_program_is_refused_before_anything_runs(word, expected, trial, testbed):
    wanted: Trial = trial(workload=workload((word,)))
    with pytest.raises(InputError, match=expected) as refused:
        testbed.check(wanted)
    assert refused.value.where == "--workload"


NGINX = """
d=$(mktemp -d)
trap 'rm -rf $d' EXIT
mkdir $d/www && head -c 1048576 /dev/zero > $d/www/big
cat > $d/conf <<X
daemon off; master_process off; pid $d/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path $d; proxy_temp_path $d; fastcgi_temp_path $d; uwsgi_temp_path $d;
scgi_temp_path $d; server { listen $MPTUNE_PORT; root $d/www; } }
X
nginx -c $d/conf &
trap 'kill $!' TERM
wait $!
"""


@pytest.mark.needs("nginx", "curl")
def test_nginx_and_curl(measured):
    client = ("sh", "-c", "exec curl -sSf -o /dev/null http://$MPTUNE_SERVER:$MPTUNE_PORT/big")
    observation = measured(workload=workload(client, ("sh", "-c", f"PATH=$PATH:/usr/sbin; {NGINX}")))
    assert observation.failed is None
    assert SIZE < observation.in_order_bytes < 1.01 * SIZE  # with headers
    assert observation.metadata["connections_mptcp"] == 1


@pytest.mark.needs("iperf3")
@pytest.mark.parametrize("way", ["", "-R"])
def test_iperf3(measured, way):
    client = ("sh", "-c", f"exec iperf3 -c $MPTUNE_SERVER -p $MPTUNE_PORT -t 1 {way}")
    observation = measured(workload=workload(client, ("sh", "-c", "exec iperf3 -s -1 -p $MPTUNE_PORT")))
    assert observation.failed is None
    assert observation.metadata["connections_mptcp"] == 2  # one has the orders
    assert observation.in_order_bytes > SIZE  # of 7.5 MB
