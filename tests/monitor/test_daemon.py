"""Reports of the daemon, by a stand-in for it."""

import json

from mptune.monitor import daemon
from tests.monitor.reports import report


def test_without_a_daemon_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(daemon.VARIABLE, str(tmp_path / "none.sock"))
    assert daemon.connect() is None


def test_what_it_did_is_heard_in_pieces_and_nonsense_is_skipped(listener):
    events = daemon.connect()
    assert events is not None
    there, _ = listener.accept()
    line = json.dumps(report(1, events=[{"at_ns": 1, "what": "demoted eth2", "why": "losses"}])).encode()
    there.sendall(b"nonsense\n{}\n" + line[:20])
    assert events.take() == []
    there.sendall(line[20:] + b"\n")
    assert [(event.what, event.why, event.token) for event in events.take()] == [
        ("demoted eth2", "losses", None)
    ]
    there.close()
    assert events.take() == [] and events.ended
    events.close()
