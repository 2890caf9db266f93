"""The fence: one writer of a world's log at a time, by an advisory lock and a lease.

The lock belongs to the writer's session, and the session ends with the process. The server cannot
see that a process was stopped or cut off by its network, so the session sets its lease as
`idle_session_timeout` and runs a statement at least three times in that time; the server ends a
session that is idle for longer, which releases the lock. No clocks are compared, and no row is
written to stay alive.

The epoch in the log backs the lock (`postgres/layout.py`): if a pooler or an operator releases the
lock, an append of the old writer is still refused.
"""

from contextlib import closing, suppress
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.stores.append_rules import in_use
from placet.stores.postgres.address import PostgresAddress
from placet.stores.postgres.errors import ConnectionRefused, postgres_faults

SERVER_VERSION_MIN: Final = 14
"""The first version of PostgreSQL with `idle_session_timeout`."""

CONNECT_SECONDS_MAX: Final = 10
_NAME_BYTES_MAX: Final = 63
"""Length of the longest name that the server stores, bytes."""

_LOOK_SECONDS: Final = 0.05
_GRACE_SECONDS: Final = 1.0
"""Wait for the lock a lease and this, seconds: a writer that holds it after that is alive."""

_SIGNS_PER_LEASE: Final = 3
_LOCK_ROW: Final = """\
    locktype = 'advisory' AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((classid::bigint << 32) | objid::bigint) = %s"""
_HOLDER: Final = f"""\
    SELECT pid, application_name, coalesce(client_addr::text, 'this host'), backend_start::text
    FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE granted AND {_LOCK_ROW})"""
_END_HOLDER: Final = f"""\
    SELECT pg_terminate_backend(pid) FROM pg_locks WHERE granted AND {_LOCK_ROW}"""
_IS_FOLLOWED: Final = f"SELECT EXISTS (SELECT FROM pg_locks WHERE {_LOCK_ROW})"


def connect(address: PostgresAddress, role: str, **options: int) -> Connection[TupleRow]:
    """Open a session on the server in which every statement is a separate transaction.

    Args:
        address: Address of the log.
        role: Purpose of the session, which is part of its name on the server.
        **options: Connection options, unless the address has them.

    Raises:
        StoreError: The server cannot be reached, or refuses the login.
    """
    with postgres_faults("open", address.url):
        try:
            defaults = {"connect_timeout": CONNECT_SECONDS_MAX, **options}
            named: dict[str, Any] = {**defaults, **conninfo_to_dict(address.conninfo)}
            named["password"] = address.password
            named["sslpassword"] = address.key_password
            named["client_encoding"] = "UTF8"  # else names come back as bytes from SQL_ASCII
            named["application_name"] = f"placet {role} {address.world}"[:_NAME_BYTES_MAX]
            return psycopg.connect(make_conninfo(**named), autocommit=True)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:
                raise
            raise ConnectionRefused(str(error)) from error


class PostgresFence:
    """The exclusive right of one process to write a world's log.

    Args:
        address: Address of the log.

    Attributes:
        connection: The writer's session, while this process holds the right; else None.
        is_followed: Another session wants notifications; checked with each lease renewal.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._key = address.key("writer")
        self._waiting: Connection[TupleRow] | None = None
        self._ended = Event()
        self._signs: Thread | None = None
        self.connection: Connection[TupleRow] | None = None
        self.is_followed = False

    def take(self, *, take_over: bool = False) -> Connection[TupleRow]:
        """Acquire the right to write, and return the writer's session.

        Waits as long as the lease of a dead writer lasts.

        Args:
            take_over: End the session of the present writer.

        Raises:
            InUseError: Another writer is alive.
            StoreError: The server is read-only, or does not permit to end the other session.
        """
        until = monotonic() + self._address.lease_s + _GRACE_SECONDS
        while not self.try_take():
            if take_over:
                self._end_holder()
            if monotonic() >= until:
                error = self._refused()
                self.release()
                raise error
            Event().wait(_LOOK_SECONDS)
        assert self.connection is not None, "a fence that is taken has a session"
        return self.connection

    def try_take(self) -> bool:
        """Acquire the right to write if no process has it; return whether this process has it now.

        Raises:
            StoreError: The server cannot be reached, or cannot be written.
        """
        if self.connection is not None:
            return True
        url = self._address.url
        if self._waiting is None:
            self._waiting = self._writable()
        try:
            with postgres_faults("take the fence of", url):
                row = self._waiting.execute(
                    "SELECT pg_try_advisory_lock(%s::bigint)", (self._key,)
                ).fetchone()
                if row is None or not row[0]:
                    return False
                self._promise(self._waiting)
        except BaseException:
            self.release()
            raise
        self.connection, self._waiting = self._waiting, None
        self._ended.clear()
        self._signs = Thread(
            target=self._give_signs, args=(self.connection,), name="placet lease", daemon=True
        )
        self._signs.start()
        return True

    def release(self) -> None:
        """Release the right to write, and close its session; harmless if called twice."""
        self._ended.set()
        if self._signs is not None:
            # Before the session is closed: a thread that waits for an answer on a closed connection
            # would wait for ever. A lost server ends its wait.
            self._signs.join(self._address.lease_s + _GRACE_SECONDS)
            self._signs = None
        for connection in (self.connection, self._waiting):
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()
        self.connection = self._waiting = None

    def holder(self) -> str | None:
        """Return the session that holds this fence, for messages; None if there is none. Blocking.

        Opens a session with a reader's rights, and closes it.

        Raises:
            StoreError: The server cannot be reached, or refuses the login.
        """
        url = self._address.url
        with closing(connect(self._address, "reader")) as reader, postgres_faults("read", url):
            found = self._holder_by(reader)
        return None if found is None else f"{found[0]}, since {found[1]}"

    def _writable(self) -> Connection[TupleRow]:
        """Open a session of a server that can be written, and is new enough."""
        connection = connect(self._address, "writer", **self._cut_off_by_then())
        try:
            with postgres_faults("open", self._address.url):
                _require_version(connection, self._address.url)
                # Nobody is let in to write a standby, and this says so before anything is tried.
                (is_standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone() or (0,)
                if is_standby:
                    raise psycopg.errors.ReadOnlySqlTransaction("the server is in recovery")
        except BaseException:
            connection.close()
            raise
        return connection

    def _cut_off_by_then(self) -> dict[str, int]:
        """Have a dead network noticed within about a lease, unless the URL says otherwise."""
        seconds = max(1, round(self._address.lease_s / 3))
        return {
            "keepalives_idle": seconds,
            "keepalives_interval": seconds,
            "keepalives_count": 3,
            "tcp_user_timeout": round(self._address.lease_s * 1_000),
        }

    def _promise(self, connection: Connection[TupleRow]) -> None:
        lease_ms = round(self._address.lease_s * 1_000)
        connection.execute(f"SET idle_session_timeout = {lease_ms}".encode())
        connection.execute(f"SET synchronous_commit = {self._address.synchronous_commit}".encode())

    def _give_signs(self, connection: Connection[TupleRow]) -> None:
        """Renew the lease, in a separate thread, until released or until the session is lost."""
        followed = (self._address.key("follower"),)
        while not self._ended.wait(self._address.lease_s / _SIGNS_PER_LEASE):
            try:
                row = connection.execute(_IS_FOLLOWED, followed).fetchone()
            except psycopg.Error:
                if connection.closed:
                    return  # the next append raises the session's error
                continue  # it was canceled, which is no silence
            self.is_followed = bool(row and row[0])

    def _end_holder(self) -> None:
        """End the session that holds the fence, if there is one.

        Raises:
            StoreError: The server does not permit that.
        """
        assert self._waiting is not None, "a refused writer has a session"
        with postgres_faults("take over", self._address.url):
            self._waiting.execute(_END_HOLDER, (self._key,))

    def _refused(self) -> StoreError:
        url = self._address.url
        assert self._waiting is not None, "a refused writer has a session"
        with postgres_faults("open", url):
            found = self._holder_by(self._waiting)
        if found is None:
            return StoreError(f"cannot open {url}: its writer has just gone; try again", store=url)
        session, since = found
        return in_use(url, f"{session},", since)

    def _holder_by(self, connection: Connection[TupleRow]) -> tuple[str, str] | None:
        """Return the session that holds this fence, as text, and since when; None for none."""
        row = connection.execute(_HOLDER, (self._key,)).fetchone()
        return None if row is None else _session_text(row)


def _session_text(row: TupleRow) -> tuple[str, str]:
    """Return a session of the server, for messages, and when it began."""
    pid, name, host, since = row
    return f"{name!r} at {host}, server process {pid}", since


def announce_follower(connection: Connection[TupleRow], address: PostgresAddress) -> None:
    """Declare that this session wants notifications of appends, until it ends."""
    connection.execute("SELECT pg_advisory_lock_shared(%s::bigint)", (address.key("follower"),))


def _require_version(connection: Connection[TupleRow], store: str) -> None:
    version = connection.info.server_version // 10_000
    if version < SERVER_VERSION_MIN:
        raise StoreError(
            f"cannot use {store}: expected PostgreSQL {SERVER_VERSION_MIN} or later, got "
            f"{version}; upgrade the server",
            store=store,
        )
