"""Access control: this machine's browser that was given the token, and no page of anybody else.

The server listens on 127.0.0.1 alone. That keeps out other machines, but neither other users of this one nor
pages in the same browser: a page may send requests to 127.0.0.1, and one whose name begins to mean 127.0.0.1
(DNS rebinding) may read the answers. So the name that was asked for has to be this machine's, and whoever
asks has to know a token of 256 bits: once in the address, then in a cookie that no script can read and that
no other site's request carries.
"""

import secrets
import threading
from http.cookies import CookieError, SimpleCookie

#: The only address, and the names by which it may be asked for.
ADDRESS = "127.0.0.1"
_NAMES = (ADDRESS, "localhost")
_BYTES = 32


class Access:
    """Tokens of a server.

    Attributes
    ----------
    token : works as often as it is used.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.token = secrets.token_urlsafe(_BYTES)
        self._once: str | None = None
        self._lock = threading.Lock()
        # Cookies know no ports: the name tells the servers of one machine apart.
        self._cookie = f"mptune-ui-{port}"
        self._value = secrets.token_urlsafe(_BYTES)

    @property
    def url(self) -> str:
        """The address with the token."""
        return self._url(self.token)

    def once(self) -> str:
        """An address that works once: for a command line, which other users can read."""
        with self._lock:
            self._once = secrets.token_urlsafe(_BYTES)
            return self._url(self._once)

    def _url(self, token: str) -> str:
        return f"http://{ADDRESS}:{self._port}/?token={token}"

    def is_own(self, host: str | None) -> bool:
        """True if a request was sent to a name of this machine, with this port."""
        return host is not None and host.lower() in {f"{name}:{self._port}" for name in _NAMES}

    def takes(self, token: str) -> bool:
        """True for a token from an address. One that works once is used up."""
        if _same(token, self.token):
            return True
        with self._lock:
            if self._once is None or not _same(token, self._once):
                return False
            self._once = None
            return True

    def cookie(self) -> str:
        """The header's value that gives the cookie to a browser, until that is closed."""
        return f"{self._cookie}={self._value}; Path=/; HttpOnly; SameSite=Strict"

    def knows(self, header: str | None) -> bool:
        """True if the cookie is among those of a request."""
        try:
            found = SimpleCookie(header or "").get(self._cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, self._value)


def _same(given: str, expected: str) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    return secrets.compare_digest(given.encode(errors="surrogateescape"), expected.encode())
