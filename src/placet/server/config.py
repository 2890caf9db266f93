"""The configuration of a server, besides its world's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from placet.schemas.identity import OPERATOR
from placet.schemas.limits import HttpLimits
from placet.server.approvals_config import ApprovalsConfig
from placet.server.credentials import (
    Credentials,
    CredentialsError,
    KnownToken,
    new_operator,
    read_tokens,
)
from placet.server.model_config import ModelConfig
from placet.server.people import People, check_roles
from placet.server.roles import Claims

PORT_MAX: Final = 65_535
DRAIN_SECONDS_MAX: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """The configuration of one server. Everything has a default.

    Attributes:
        host: Address to listen on. An address other than loopback needs tokens.
        port: Port to listen on; 0 is any free port.
        tokens: Path of the token file; `placet token new` prints its entries.
        operator_sha256: Hash of a token of the operator, as an alternative to a token file.
        cors_origins: Origins of web pages that may call the server; none by default.
        metrics_open: Show the metrics without a token; else only the operator may read them.
        dashboard: Serve the dashboard at `/`; the page itself contains no data.
        sessions: Keep conversations with agents in the log beside the domain, and serve them.
        exit_on_store_failure: End the server, with exit code 1, once the store of a world has
            failed; else the world is opened again from its log as soon as the store works.
        claims: Name of a token -> world -> role (`reader`, `agent`, `operator`): the only worlds
            that tokens of this name may use. A name without claims is an agent in every world.
        drain_seconds: Seconds to keep serving after SIGTERM, while `/readyz` returns 503.
        limits: All bounds of the HTTP server.
        model: The model that sessions ask unless they name another, and the limits of their turns.
        people: Name of a person -> the roles in which the person decides about requests for
            approval. Each person has a token of this name.
        approvals: Where notices of new requests for approval are sent.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: str | None = None
    operator_sha256: str | None = None
    cors_origins: Sequence[str] = ()
    metrics_open: bool = False
    dashboard: bool = True
    sessions: bool = False
    exit_on_store_failure: bool = False
    claims: Claims = field(default_factory=dict)
    drain_seconds: float = 0.0
    limits: HttpLimits = field(default_factory=HttpLimits)
    model: ModelConfig = field(default_factory=ModelConfig)
    people: People = field(default_factory=dict)
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= PORT_MAX:
            raise ValueError(f"port must be 0 to {PORT_MAX}, got {self.port!r}")
        if not 0 <= self.drain_seconds <= DRAIN_SECONDS_MAX:
            raise ValueError(
                f"drain_seconds must be 0 to {DRAIN_SECONDS_MAX}, got {self.drain_seconds!r}"
            )
        check_roles(self.people)
        for origin in self.cors_origins:
            if origin != "*" and ("://" not in origin or origin.endswith("/")):
                raise ValueError(
                    f"an origin is a scheme, a host and perhaps a port, such as "
                    f"https://example.org, got {origin!r}"
                )

    @property
    def is_loopback(self) -> bool:
        """Whether the server is reachable from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name: it may lead anywhere
            return False

    def credentials(self) -> Credentials:
        """Read the configured tokens, and return them; there may be none.

        Raises:
            CredentialsError: The token file cannot be read, or is invalid.
        """
        known = [] if self.tokens is None else read_tokens(Path(self.tokens))
        if self.operator_sha256 is not None:
            known.append(KnownToken(OPERATOR, self.operator_sha256))
        return Credentials(known)

    def credentials_or_new(self) -> tuple[Credentials, str | None]:
        """Return the configured tokens; if there are none, a new one of the operator, and its text.

        Raises:
            CredentialsError: There are none, and other machines can reach the server; or the token
                file is invalid.
        """
        known = self.credentials()
        if len(known):
            return known, None
        if self.is_loopback:
            return new_operator()
        raise CredentialsError(
            f"{self.host} can be reached from other machines, and no token is configured: "
            "`placet token new --operator >> tokens.toml`, then --tokens tokens.toml"
        )
