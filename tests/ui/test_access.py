"""Access: peers that may ask, questions they may ask, and the answers."""

import socket
from pathlib import Path

import pytest

from mptune.ui.access import Access
from tests.ui.visiting import served


def test_a_stranger_sees_one_line_and_the_token_opens(made: Path) -> None:
    with served(made) as visitor:
        cookie, visitor.cookie = visitor.cookie, ""
        wrong = visitor.server.access.token[:-1] + "_"
        for path in ("/", "/parts", "/report?run=answer", "/ui.js", "/none", "/?token=", f"/?token={wrong}"):
            refused = visitor.ask(path)
            assert refused.status == 403 and "with the token" in refused.text, path
            assert "answer" not in refused.text and "Set-Cookie" not in refused.headers
        entered = visitor.enter()
        assert entered.status == 200 and visitor.server.access.token not in entered.text
        attributes = entered.headers["Set-Cookie"].split("; ")[1:]
        assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
        assert visitor.server.access.token not in entered.headers["Set-Cookie"]
        assert visitor.ask("/").status == 200
        assert visitor.cookie == cookie
        for other in (f"{visitor.cookie}x", visitor.cookie.replace("mptune", "other"), "a=b; ;;=", "\xff=1"):
            assert visitor.ask("/", Cookie=other).status == 403


def test_a_token_for_a_command_line_works_once() -> None:
    access = Access(1234)
    url = access.once()
    token = url.partition("token=")[2]
    assert url.startswith("http://127.0.0.1:1234/?token=") and token != access.token
    assert access.takes(token) and not access.takes(token)
    assert access.takes(access.token) and access.takes(access.token)
    assert not access.takes("") and not access.takes("ä\udcff")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "::1"]
)
def test_a_name_that_only_leads_here_is_refused(host: str, made: Path) -> None:
    """DNS rebinding: the page of evil.example asks for evil.example, which has become 127.0.0.1."""
    with served(made) as visitor:
        name = host.format(port=visitor.server.server_port)
        for path in ("/", "/parts", f"/?token={visitor.server.access.token}", "/ui.css"):
            refused = visitor.ask(path, Host=name)
            assert refused.status == 421 and "Set-Cookie" not in refused.headers
        assert visitor.ask("/", Host=f"LOCALHOST:{visitor.server.server_port}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_but_reading_is_answered(method: str, made: Path) -> None:
    with served(made) as visitor:
        refused = visitor.ask("/", method)
        assert refused.status == (501 if method == "PROPFIND" else 405)
        assert "answer" not in refused.text and "Traceback" not in refused.text
        assert refused.headers.get("Allow", "GET, HEAD") == "GET, HEAD"


def test_head_is_the_answer_without_its_text(made: Path) -> None:
    with served(made) as visitor:
        head, whole = visitor.ask("/ui.js", "HEAD"), visitor.ask("/ui.js")
        assert (head.status, head.text) == (200, "")
        assert head.headers["Content-Length"] == whole.headers["Content-Length"] == str(len(whole.text))


@pytest.mark.parametrize(
    "path",
    [
        *("/report?run=../runs/answer", "/report?run=..%2F..%2Fetc", "/report?run=/etc", "/report?run=."),
        *("/report?run=answer/", "/report?run=answer%00", "/report?run=%FF", "/report?run=below"),
        *("/../../etc/passwd", "/ui.css/../../server.py", "/assets/ui.css", "//etc/passwd", "/%2e%2e/"),
    ],
)
def test_only_runs_that_are_listed_are_shown(path: str, made: Path) -> None:
    with served(made) as visitor:
        refused = visitor.ask(path)
        assert refused.status == 404 and "Traceback" not in refused.text
        assert refused.text.count('class="line"') == 1


@pytest.mark.parametrize(
    "path", ["/report", "/report?run=", "/report?run=answer&run=answer", "/report?" + "&run=x" * 100]
)
def test_wrong_questions_are_answered_in_a_line(path: str, made: Path) -> None:
    with served(made) as visitor:
        refused = visitor.ask(path)
        assert refused.status == 400 and refused.text.count('class="line"') == 1


def test_every_answer_has_the_headers_that_keep_others_out(made: Path) -> None:
    with served(made) as visitor:
        for path in ("/", "/parts", "/ui.css", "/ui.js", "/none", "/report?run=table"):
            headers = visitor.ask(path).headers
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
            assert ("unsafe" in policy) == path.startswith("/report")  # Vega compiles its expressions
            assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
            assert headers["Referrer-Policy"] == "no-referrer" and headers["X-Frame-Options"] == "DENY"
            assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    "text", [b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
)
def test_what_is_no_request_is_answered_and_forgotten(
    text: bytes, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(made) as visitor:
        with socket.create_connection(("127.0.0.1", visitor.server.server_port), 60) as raw:
            raw.sendall(text)
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert b"Traceback" not in answer and b"answer" not in answer
        assert visitor.ask("/").status == 200
    assert capsys.readouterr() == ("", "")


def test_it_listens_on_this_machine_alone(made: Path) -> None:
    with served(made) as visitor:
        assert visitor.server.server_address[0] == "127.0.0.1"
