"""Notifications of a PostgreSQL log: a session that listens, so that readers need not poll.

A listener announces itself by a shared lock (`fence_postgres.announce_follower`). The writer checks
for it once in a while, and sends notifications only if there is a listener: on a server, notifying
commits of all worlds wait for each other.
"""

from typing import Final

import psycopg
from psycopg import sql

from placet.stores.postgres.address import PostgresAddress
from placet.stores.postgres.errors import postgres_faults
from placet.stores.postgres.fence import announce_follower, connect

LOOK_MS: Final = 1_000
"""How long a follower that listens waits before it looks all the same: the writer may not have
noticed it yet."""


class PostgresChangeFeed:
    """A subscription to notifications of appends to a log.

    Args:
        address: Address of the log.

    Attributes:
        look_ms: Maximum milliseconds to wait for a notification; then read the log anyway.

    Raises:
        StoreError: The server cannot be reached.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self.look_ms = LOOK_MS
        self._connection = connect(address, "follower")
        with postgres_faults("follow", address.url):
            listen = sql.SQL("LISTEN {}").format(sql.Identifier(address.schema))
            self._connection.execute(listen)
            announce_follower(self._connection, address)

    def fileno(self) -> int:
        """Return the file descriptor, which becomes readable when a notification arrives."""
        return self._connection.fileno()

    def drain(self) -> bool:
        """Consume the pending notifications; return False if no more will come."""
        try:
            for _ in self._connection.notifies(timeout=0):
                pass
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        """End the subscription."""
        self._connection.close()
