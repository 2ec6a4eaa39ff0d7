"""The server: one address of this machine, reading requests alone, one page or one line for each.

It knows who may ask (`access`) and which pages there are (`pages`); a fault in what they show is a line on a
page, never a traceback.
"""

import json
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from mptune import interrupts
from mptune._text import in_one_line, quoted
from mptune.bundle.reading import opened
from mptune.errors import InputError, MptuneError
from mptune.ui import pages
from mptune.ui.access import ADDRESS, Access
from mptune.ui.live import Live
from mptune.ui.runs import Runs, signature

#: Reports that are kept ready: each takes a second or more, and one or two megabytes.
_KEPT = 4
#: Seconds that a browser may take to send a request or to take an answer.
_PATIENCE_S = 30
#: Values that an address may have.
_FIELDS = 64

#: Sent with every answer.
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _Refused(Exception):
    """No answer but a line."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status, self.line = status, line


class _Ended(BaseException):
    """SIGTERM."""


class Server(ThreadingHTTPServer):
    """A server that listens as soon as it is made.

    Parameters
    ----------
    port : 0 for a free one.

    Raises
    ------
    InputError : the port cannot be had.
    """

    daemon_threads = True

    def __init__(self, runs: Runs, port: int) -> None:
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            expected = f"expected a free port, found {port}: {error.strerror}"
            raise InputError("--port", "", expected) from None
        self.runs, self.live, self.access = runs, Live(), Access(self.server_port)
        self._drawing = threading.Lock()
        self._drawn: OrderedDict[object, str] = OrderedDict()

    def serve(self) -> None:
        """Answer until SIGTERM. Ctrl-C goes through."""
        try:
            with _ended_by_signal():
                self.serve_forever()
        except _Ended:
            pass
        finally:
            self.live.close()
            self.server_close()

    def service_actions(self) -> None:
        """Between two looks for requests."""
        interrupts.raise_lost()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over browsers that are gone; of anything else tell a line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            line = in_one_line(f"mptune: error: unexpected {type(error).__name__}: {error}")
            sys.stderr.write(f"{line}\n")

    # What is shown.

    def parts(self) -> dict[str, str]:
        """The parts of the first page as they are now."""
        return pages.parts(self.runs.all(), self.live.look())

    def report(self, keys: Sequence[str]) -> str:
        """The report of runs, the first in full.

        Parameters
        ----------
        keys : by which they are asked for (`pages.key`).

        Raises
        ------
        MptuneError : one of them cannot be read.
        """
        known = {pages.key(name): place for name, place in self.runs.names().items()}
        if not keys or len(keys) > pages.MOST or len(set(keys)) < len(keys):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"expected 1 to {pages.MOST} different runs")
        if lost := [key for key in keys if key not in known]:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no run {quoted(lost[0])} here (any more)")
        places = [known[key] for key in keys]
        mark = tuple((place, signature(place)) for place in places)
        with self._drawing:  # one at a time: drawing is no faster with two, and Altair has settings for all
            if mark not in self._drawn:
                self._drawn[mark] = _drawn(places)
                if len(self._drawn) > _KEPT:
                    self._drawn.popitem(last=False)
            self._drawn.move_to_end(mark)
            return self._drawn[mark]


def _drawn(places: Sequence[Path]) -> str:
    from mptune.report.page import page
    from mptune.report.sections import sections
    from mptune.result.reading import read_runs

    with opened(places) as directories:
        first, *others = read_runs(directories)
    return page(first, others, sections(first, others), home=(pages.HOME, "All runs"))


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Have SIGTERM raise `_Ended`, where signals can be handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Answer(NamedTuple):
    """Response to a request."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    policy: str = pages.POLICY
    headers: tuple[tuple[str, str], ...] = ()


def _line(
    status: HTTPStatus, line: str, *, known: bool = False, headers: tuple[tuple[str, str], ...] = ()
) -> _Answer:
    """One line on a page; `known` if whoever asks may see the other pages."""
    return _Answer(pages.refusal(in_one_line(line), home=known), status, headers=headers)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version, sys_version = "mptune", ""
    timeout = _PATIENCE_S
    command = ""

    def do_GET(self) -> None:
        """Answer with a page."""
        self._send(self._answer())

    do_HEAD = do_GET

    def _refuse_method(self) -> None:
        line = f"expected GET or HEAD, found {self.command}: nothing can be changed here"
        self._send(_line(HTTPStatus.METHOD_NOT_ALLOWED, line, headers=(("Allow", "GET, HEAD"),)))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self) -> _Answer:
        """A page for whoever may have it."""
        access = self.server.access
        if not access.is_own(self.headers.get("Host")):
            return _line(HTTPStatus.MISDIRECTED_REQUEST, "expected a request to this machine by its name")
        try:
            asked = urlsplit(self.path)
            values = parse_qs(asked.query, errors="surrogateescape", max_num_fields=_FIELDS)
        except ValueError as error:
            return _line(HTTPStatus.BAD_REQUEST, f"expected an address: {error}")
        if asked.path == pages.HOME and any(access.takes(token) for token in values.get("token", ())):
            return _Answer(pages.entrance(), headers=(("Set-Cookie", access.cookie()),))
        if asked.path == pages.STYLE:  # pages for those who may see nothing else have it too
            return _Answer(pages.style(), kind="text/css; charset=utf-8")
        if not access.knows(self.headers.get("Cookie")):
            return _line(HTTPStatus.FORBIDDEN, "expected the address with the token, as mptune ui printed it")
        try:
            return self._at(asked.path, values.get("run", ()))
        except _Refused as refused:
            return _line(refused.status, refused.line, known=True)
        except MptuneError as error:
            return _line(HTTPStatus.CONFLICT, str(error), known=True)
        except Exception as error:
            line = f"unexpected {type(error).__name__}: {error}"
            return _line(HTTPStatus.INTERNAL_SERVER_ERROR, line, known=True)

    def _at(self, path: str, keys: Sequence[str]) -> _Answer:
        match path:
            case pages.HOME:
                return _Answer(pages.overview(str(self.server.runs.place), self.server.parts()))
            case pages.PARTS:
                return _Answer(json.dumps(self.server.parts()), kind="application/json")
            case pages.REPORT:
                from mptune.report.page import POLICY

                policy = f"{POLICY}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
                return _Answer(self.server.report(keys), policy=policy)
            case pages.SCRIPT:
                return _Answer(pages.script(), kind="text/javascript; charset=utf-8")
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")

    def _send(self, answer: _Answer) -> None:
        content = answer.text.encode(errors="backslashreplace")
        self.send_response(answer.status)
        own = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": answer.policy,
        }
        for name, value in {**own, **_HEADERS, **dict(answer.headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request, or has an unknown method, in the same way."""
        self._send(_line(HTTPStatus(code), message or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: the terminal has the address alone."""
