"""Who may ask the dashboard what: hosts, origins, the token, and what pages may load.

Attacks that this is against, each with a test in `tests/dashboard/test_attacks.py`:

- DNS rebinding: a foreign page whose host name suddenly resolves to this machine. Its requests name
  that host, so requests that name a host other than ours are refused.
- Cross-site requests: a foreign page that sends a form here, or reads from here. What acts needs
  the `Origin` of our own pages, and a cookie that browsers send only with requests of our pages.
- Other people on the network: at an address that they can reach, reading needs the token, too.
- Script injection: every value is escaped, and only scripts and styles of our own files are used.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import platform
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mmfl.errors import InputError

__all__ = ["HEADERS", "TOKEN_VARIABLE", "Access", "Refusal", "is_local", "make_token"]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": with it, browsers would send forms with the origin "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Of every answer."""

TOKEN_VARIABLE = "MMFL_DASHBOARD_TOKEN"
"""The environment variable with the token; runs that are started here do not get it."""

_SHORTEST = 12
"""How many letters a token has at least."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")

_HERE = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Refusal:
    """An answer to a request that is not permitted.

    Attributes:
        status: Of HTTP.
        text: One sentence.
    """

    status: int
    text: str


def is_local(address: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def make_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Access:
    """What is permitted.

    Attributes:
        address: Where the server listens.
        token: What a person needs for all that acts; for everything, unless the address is local.
        port: Of the server.
        names: Names of this machine by which others call it.
    """

    address: str = "127.0.0.1"
    token: str = field(default_factory=make_token)
    port: int = 0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.token) < _SHORTEST or not (self.token.isascii() and self.token.isprintable()):
            raise InputError(
                f"token must have at least {_SHORTEST} letters, digits or signs without accents"
            )

    @property
    def guarded(self) -> bool:
        """Whether reading needs the token, too."""
        return not is_local(self.address)

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers share cookies between the ports of a machine."""
        return f"mmfl-{self.port}"

    @property
    def session(self) -> str:
        """The value of the cookie: it proves that the token is known, and is not the token."""
        return hmac.new(self.token.encode(), b"mmfl dashboard", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether a text is the token; takes the same time for each."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def is_known(self, cookies: Mapping[str, str]) -> bool:
        """Whether a browser has shown the token before."""
        given = cookies.get(self.cookie, "")
        return hmac.compare_digest(given.encode(), self.session.encode())

    def refuse_foreign(self, method: str, headers: Iterable[tuple[str, str]]) -> Refusal | None:
        """The answer to a request for another host, or from a page of another host; else None."""
        known = list(headers)
        hosts = [value for name, value in known if name == "host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return Refusal(421, "This address is not one of this dashboard's.")
        origins = [value for name, value in known if name == "origin"]
        ours = (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower())
        if any(origin.lower() not in ours for origin in origins):
            return Refusal(403, "Pages of other sites may not use this dashboard.")
        if method in ("GET", "HEAD"):
            return None
        sites = [value for name, value in known if name == "sec-fetch-site"]
        if not origins or any(site not in ("same-origin", "none") for site in sites):
            return Refusal(403, "Only this dashboard's own pages may ask for that.")
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a request names this server."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").rstrip(".").lower()
        if not self.guarded:
            return name in _HERE or name == self.address
        if name in (*_HERE, self.address.lower(), platform.node().lower(), *self.names):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # no name, so nobody can have it resolve to this machine
