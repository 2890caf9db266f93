"""Authorization: bearer tokens, stored as hashes.

A token is 256 random bits, so its plain SHA-256 is as good as a slow hash: there is no dictionary
to try, and a slow hash would hand a stranger the processor. It speaks for the operator, or for one
submitter: the agents of that name and of that owner. The gate checks that, as it checks a handle.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from shlex import quote
from typing import Final, NamedTuple

from placet.schemas.codec import Json, to_json
from placet.schemas.documents import DocumentError
from placet.schemas.errors import PlacetError
from placet.schemas.identity import OPERATOR, RESERVED_IDS, is_identity
from placet.schemas.printable import unseen_characters
from placet.stores.documents import read_toml

PREFIX: Final = "placet_"
"""Begins every token, so that scanners for leaked secrets know one."""

PRINCIPAL_KEY: Final = "placet.principal"
"""In a request's scope: its principal, where a middleware has looked it up."""

_RANDOM_BYTES: Final = 32
_HASH_CHARS: Final = 64
_TOKEN_CHARS_MAX: Final = 256


class CredentialsError(PlacetError):
    """The error of tokens that cannot be read, are invalid, or contradict each other."""


class Principal(NamedTuple):
    """An authenticated caller.

    Attributes:
        submitter: The operator, or the name whose agents the caller may act for.
    """

    submitter: str

    @property
    def is_operator(self) -> bool:
        """Whether the caller is the operator, who may do everything."""
        return self.submitter == OPERATOR


class KnownToken(NamedTuple):
    """A token as the server stores it: by its hash.

    Attributes:
        submitter: The operator, or the name whose agents the token acts for.
        sha256: Hash of the token's text, lower-case hexadecimal.
    """

    submitter: str
    sha256: str


def new_token() -> str:
    """Generate a random token and return its text; it is not stored."""
    return PREFIX + token_urlsafe(_RANDOM_BYTES)


def hash_of(token: str) -> str:
    """Return the SHA-256 hash under which a token is stored, hexadecimal."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Credentials:
    """The tokens that a server knows, and the callers that they authenticate.

    Args:
        tokens: The tokens; a submitter may have several.

    Raises:
        CredentialsError: A hash or a name is invalid, or one token has two submitters.
    """

    def __init__(self, tokens: Iterable[KnownToken] = ()) -> None:
        self._known: dict[str, KnownToken] = {}
        for token in tokens:
            _check(token)
            if self._known.setdefault(token.sha256[:32], token).submitter != token.submitter:
                raise CredentialsError(
                    f"one token would speak for {token.submitter!r} and for "
                    f"{self._known[token.sha256[:32]].submitter!r}; make one for each"
                )

    def who(self, token: str) -> Principal | None:
        """Return the principal of a token; None if the token is unknown. O(1).

        The token is looked up by half of its hash and compared by all of it in constant time: the
        duration reveals nothing about a token, because the bits of a hash cannot be chosen.
        """
        if len(token) > _TOKEN_CHARS_MAX:
            return None
        shown = hash_of(token)
        known = self._known.get(shown[:32], _NOBODY)
        return Principal(known.submitter) if compare_digest(known.sha256, shown) else None

    def principal(self, authorization: str) -> Principal | None:
        """Return the principal of an `Authorization` header; None without a known bearer token."""
        scheme, _, token = authorization.partition(" ")
        return self.who(token.strip()) if scheme.lower() == "bearer" else None

    @property
    def submitters(self) -> set[str]:
        """The names of all tokens, the operator's included."""
        return {token.submitter for token in self._known.values()}

    def __len__(self) -> int:
        return len(self._known)


_NOBODY: Final = KnownToken("", "0" * _HASH_CHARS)


def new_operator() -> tuple[Credentials, str]:
    """Generate a token of the operator; return the credentials that know it, and its text."""
    token = new_token()
    return Credentials([KnownToken(OPERATOR, hash_of(token))]), token


def _check(token: KnownToken) -> None:
    text = token.sha256
    if len(text) != _HASH_CHARS or not set(text) <= set("0123456789abcdef"):
        raise CredentialsError(
            f"the sha256 of a token must be {_HASH_CHARS} lower-case hexadecimal digits, "
            f"got {len(text)} characters for {token.submitter!r}; `placet token new` makes one"
        )
    if token.submitter == OPERATOR:
        return
    if not is_identity(token.submitter) or token.submitter in RESERVED_IDS:
        raise CredentialsError(f"{token.submitter!a} cannot be the name of an agent")


def read_tokens(path: Path) -> list[KnownToken]:
    """Read a token file (TOML) and return its entries: hash and submitter of each token.

    Raises:
        CredentialsError: The file cannot be read, or an entry is invalid.
    """
    try:
        raw = read_toml(path)
    except OSError as error:
        raise CredentialsError(
            f"cannot read the tokens in {path}: {error.strerror or error}; `placet token new "
            f"--operator >> {quote(str(path))}` makes the file"
        ) from error
    except DocumentError as error:
        raise CredentialsError(f"{path} is not TOML: {error}") from error
    entries = raw.pop("tokens", [])
    if raw or not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise CredentialsError(f"{path} must hold [[tokens]] entries and nothing else")
    return [_entry(path, number, entry) for number, entry in enumerate(entries, 1)]


def _entry(path: Path, number: int, entry: Mapping[str, Json]) -> KnownToken:
    keys, digest, agent = set(entry), entry.get("sha256"), entry.get("agent")
    if keys == {"operator", "sha256"} and entry["operator"] is True and isinstance(digest, str):
        return KnownToken(OPERATOR, digest)
    # An agent that calls itself `operator` would be one.
    is_name = isinstance(agent, str) and agent not in RESERVED_IDS
    if keys == {"agent", "sha256"} and is_name and isinstance(digest, str):
        return KnownToken(str(agent), digest)
    raise CredentialsError(
        f'entry {number} of {path} must be `agent = "name"` or `operator = true`, and '
        f"`sha256 = ...`, got the keys {sorted(keys)}; `placet token new --agent NAME` makes one"
    )


def entry_text(token: KnownToken) -> str:
    """Return the entry of a token in a token file, as TOML text."""
    name = to_json(token.submitter).decode()
    for unseen in set(unseen_characters(name)):
        name = name.replace(unseen, f"\\U{ord(unseen):08x}")
    who = "operator = true" if token.submitter == OPERATOR else f"agent = {name}"
    return f'[[tokens]]\n{who}\nsha256 = "{token.sha256}"\n'
