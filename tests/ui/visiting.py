"""A server of runs that is asked as a browser would."""

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mptune.ui.runs import Runs
from mptune.ui.server import Server


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    text: str


class Visitor:
    """Asks a server, with its cookie once it has it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cookie = ""

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        own = {"Cookie": self.cookie} if self.cookie else {}
        connection.request(method, path, headers={**own, **headers})
        reply = connection.getresponse()
        made = Reply(reply.status, dict(reply.getheaders()), reply.read().decode())
        connection.close()
        return made

    def enter(self) -> Reply:
        """Show the token."""
        reply = self.ask(f"/?token={self.server.access.token}")
        self.cookie = reply.headers.get("Set-Cookie", "").partition(";")[0]
        return reply


@contextmanager
def served(place: Path) -> Iterator[Visitor]:
    """Somebody with the token, at a server of a directory."""
    server = Server(Runs(place), 0)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        visitor = Visitor(server)
        visitor.enter()
        yield visitor
    finally:
        server.shutdown()
        thread.join()
