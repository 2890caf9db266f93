"""Where a request ends: one reading of its head, before anything of the request is executed.

The parser finds names, values and line ends, and refuses bare line feeds, folded lines and odd
chunks. This module reads the head once more as a whole (RFC 9112), and refuses each head that a
proxy in front of the server could read differently: the bytes after it would be a body for one
program and the next request for the other.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from placet.server.http.problems import Problem

_VERSIONS: Final = frozenset({"1.1", "1.0", "0.9"})
_ONCE: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
"""Headers that decide where a request ends or which server it is for; each is sent once."""

_AUTHORITY: Final = rb"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~%-]*)(?::[0-9]*)?"
_HOST: Final = re.compile(_AUTHORITY)
_ABSOLUTE: Final = re.compile(rb"https?://(" + _AUTHORITY + rb")/", re.IGNORECASE)
_CHUNKED: Final = b"chunked"
_CONTINUE: Final = b"100-continue"


class Framing(NamedTuple):
    """The end of a request, as its head declares it.

    Attributes:
        body_bytes: Length of the body; 0 for no body, None for a body in chunks.
        expects_continue: The client waits for `100 Continue` before it sends the body.
        is_last: The connection closes after the answer: the bytes behind the request may belong to
            another protocol, or to a body that the client does not send any more.
    """

    body_bytes: int | None
    expects_continue: bool
    is_last: bool


_HOST_ALONE: Final = frozenset({b"host"})
_NO_BODY: Final = Framing(0, expects_continue=False, is_last=False)


def framing_of(version: str, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Framing:
    """Return where a request ends.

    Args:
        version: The HTTP version, such as `1.1`.
        target: The target of the request line.
        headers: Names in lower case, and values.

    Raises:
        Problem: Two programs could read the head differently.
    """
    once: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONCE:
            if name in once:
                raise _malformed(f"{name.decode()} is sent twice, expected once")
            once[name] = value.strip(b" \t")
    if version not in _VERSIONS:
        raise _malformed(f"HTTP/{version} is not served, expected HTTP/1.1")
    _check_address(version, target, once.get(b"host"))
    if once.keys() == _HOST_ALONE:
        return _NO_BODY
    body_bytes = _body_bytes(version, once)
    is_upgrade = b"upgrade" in once
    if is_upgrade and (version != "1.1" or body_bytes != 0):
        raise _malformed("a request with Upgrade is of HTTP/1.1 and has no body; send it without")
    expects = _expects_continue(version, once.get(b"expect")) and body_bytes != 0
    return Framing(body_bytes, expects, is_last=is_upgrade or expects)


@lru_cache(maxsize=256)
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None


def _check_address(version: str, target: bytes, host: bytes | None) -> None:
    if host is None:
        if version == "1.1":
            raise _malformed("a request of HTTP/1.1 has a Host, got none")
    elif not _is_host(host):
        raise _malformed("Host must be a name or an address, perhaps with a port")
    if target.startswith(b"/"):
        return
    absolute = _ABSOLUTE.match(target)
    if absolute is None or (host is not None and absolute[1].lower() != host.lower()):
        raise _malformed("the target must be a path, or a URL with the authority of Host")


def _body_bytes(version: str, once: dict[bytes, bytes]) -> int | None:
    """Return the declared length of the body; None for a body in chunks."""
    coding, length = once.get(b"transfer-encoding"), once.get(b"content-length")
    if coding is not None:
        if version != "1.1" or length is not None or coding.lower() != _CHUNKED:
            raise _malformed(
                "Transfer-Encoding must be chunked, in a request of HTTP/1.1 without Content-Length"
            )
        return None
    if length is None:
        return 0
    if not length.isdigit():
        raise _malformed("Content-Length must be decimal digits alone")
    return int(length)


def _expects_continue(version: str, expected: bytes | None) -> bool:
    """Return whether the client waits for `100 Continue`; HTTP/1.0 has no such answer."""
    if expected is None or version != "1.1":
        return False
    if expected.lower() != _CONTINUE:
        raise Problem("expectation_failed", "Expect must be 100-continue, which is all that is met")
    return True


def _malformed(fault: str) -> Problem:
    return Problem("request_malformed", f"this head has no single reading: {fault}")
