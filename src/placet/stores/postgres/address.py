"""Where a log is in PostgreSQL: `postgresql://user@host/db?world=town`, read without the driver.

A world is a separate schema, `placet_town`: it is dumped, granted and dropped by itself, and no
table refers to another world. Of the URL's options, `synchronous_commit` and `lease_s` are ours;
the others go to libpq unchanged. A password is kept apart, so that it is never shown.
"""

import os
from dataclasses import dataclass
from hashlib import blake2b
from re import compile as pattern
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from placet.schemas.errors import StoreError

SCHEMES: Final = ("postgresql", "postgres")
SYNCHRONOUS_COMMITS: Final = ("on", "remote_apply", "remote_write", "local", "off")
LEASE_SECONDS: Final = 3.0
"""How long a writer may be silent before the server lets go of it, where nobody says otherwise."""

_LEASE_SECONDS_MIN, _LEASE_SECONDS_MAX = 0.1, 3_600.0
_WORLD: Final = pattern(r"[A-Za-z0-9_.-]{1,56}")
_SCHEMA_PREFIX: Final = "placet_"
_SECRETS: Final = {"password": "PGPASSWORD", "sslpassword": "PGSSLPASSWORD"}
"""Option -> where another process of ours finds it. libpq itself looks for the first one only."""
_EXAMPLE: Final = "postgresql://user@host/database?world=town"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The address of one world's log on a PostgreSQL server.

    Attributes:
        url: URL of the log for messages, without a password.
        conninfo: Connection string for libpq, without secrets.
        world: Name of the world.
        synchronous_commit: The server's setting of when a commit is acknowledged.
        lease_s: Seconds without a sign of life after which the server ends a writer's session.
        secrets: `(environment variable, secret)` pairs.
    """

    url: str
    conninfo: str
    world: str
    synchronous_commit: str
    lease_s: float
    secrets: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"PostgresAddress({self.url!r})"

    @property
    def schema(self) -> str:
        """Name of the schema with the world's tables, and of its notification channel."""
        return _SCHEMA_PREFIX + self.world

    @property
    def password(self) -> str | None:
        """The password in the URL; None uses the environment, a password file, or none."""
        return dict(self.secrets).get(_SECRETS["password"])

    @property
    def key_password(self) -> str | None:
        """Password of the client certificate's key; None if the key has none."""
        name = _SECRETS["sslpassword"]
        return dict(self.secrets).get(name) or os.environ.get(name)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that another process needs besides `url` to open the log."""
        return dict(self.secrets)

    def key(self, purpose: str) -> int:
        """Return the number of an advisory lock of this world, for a purpose; signed 64 bits."""
        digest = blake2b(f"{purpose} {self.schema}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def address_of(url: str) -> PostgresAddress:
    """Parse a `postgresql://` URL of a log.

    Raises:
        StoreError: The URL is invalid; the message shows no secret.
    """
    parts, options = _split(url)
    secrets = _secrets_in(url)
    world = options.pop("world", "world")
    if not _WORLD.fullmatch(world):
        raise _unfit(url, f"a world's name is 1 to 56 of A-Z a-z 0-9 _ . -, got {world!r}")
    synchronous = options.pop("synchronous_commit", "on").lower()
    if synchronous not in SYNCHRONOUS_COMMITS:
        levels = ", ".join(SYNCHRONOUS_COMMITS)
        raise _unfit(url, f"synchronous_commit must be one of {levels}, got {synchronous!r}")
    lease_s = _lease_of(url, options.pop("lease_s", str(LEASE_SECONDS)))
    rest = {name: value for name, value in options.items() if name not in _SECRETS}
    return PostgresAddress(
        url=shown_url(url),
        conninfo=_joined(parts, rest),
        world=world,
        synchronous_commit=synchronous,
        lease_s=lease_s,
        secrets=tuple((_SECRETS[name], value) for name, value in secrets.items()),
    )


def shown_url(url: str) -> str:
    """Return the URL of a store without its password, for messages; it may be an invalid URL."""
    if not url.lower().startswith(tuple(f"{scheme}:" for scheme in SCHEMES)):
        return url
    try:
        parts, options = _split(url)
    except StoreError as error:
        return error.store or ""
    rest = {name: value for name, value in options.items() if name not in _SECRETS}
    return _joined(parts, rest)


def _split(url: str) -> tuple[SplitResult, dict[str, str]]:
    try:
        parts = urlsplit(_with_quoted_user(url))
        query = parts.query.replace("+", "%2B")  # libpq takes no + for a space
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        if parts.fragment or "@" in parts.path or not _has_ports(parts.netloc):
            raise ValueError("it may show a part of a password")
    except ValueError:
        scheme = url.partition(":")[0]
        message = (
            f"cannot use store '{scheme}://…': it cannot be read; expected {_EXAMPLE}; a port "
            "is a number, and in a password / # ? @ are written %2F %23 %3F %40"
        )
        raise StoreError(message, store=f"{scheme}://…") from None
    return parts, options


def _with_quoted_user(url: str) -> str:
    """Quote the part before the @ that is no path, as libpq reads it."""
    before, at, rest = url.partition("@")
    scheme, separator, user_info = before.partition("://")
    if not at or "/" in user_info:
        return url
    return scheme + separator + quote(user_info, safe=":%") + at + rest


def _has_ports(netloc: str) -> bool:
    """Return whether the parts after the host names are numbers: a password is not."""
    hosts = netloc.rpartition("@")[2].split(",")
    ports = (host.rpartition("]")[2].partition(":")[2] for host in hosts)
    return all(port.isdecimal() or not port for port in ports)


def _secrets_in(url: str) -> dict[str, str]:
    parts, options = _split(url)
    secrets = {name: options[name] for name in _SECRETS if name in options}
    user_info = parts.netloc.rpartition("@")[0]
    _, colon, password = user_info.partition(":")
    if colon:
        secrets["password"] = unquote(password)
    return secrets


def _joined(parts: SplitResult, options: dict[str, str]) -> str:
    """Put a URL together again, without a password."""
    user_info, at, hosts = parts.netloc.rpartition("@")
    netloc = user_info.partition(":")[0] + at + hosts
    query = urlencode(options, safe="/,.", quote_via=quote)  # libpq takes no + for a space
    return f"{SCHEMES[0]}://{netloc}{parts.path}" + (f"?{query}" if query else "")


def _lease_of(url: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _LEASE_SECONDS_MIN <= seconds <= _LEASE_SECONDS_MAX:
        bounds = f"{_LEASE_SECONDS_MIN:g} to {_LEASE_SECONDS_MAX:g} seconds"
        raise _unfit(url, f"lease_s must be {bounds}, got {text!r}")
    return seconds


def _unfit(url: str, came: str) -> StoreError:
    shown = shown_url(url)
    return StoreError(f"cannot use store {shown!r}: expected {_EXAMPLE}; {came}", store=shown)
