"""The part store: values that can be erased, in two SQLite files beside the log of a world.

`shop.db.keys` has the key of the digests and a key for each data subject; `shop.db.parts` has the
values, encrypted. Two files, because a backup that has no keys needs no erasure. The key of a
subject is durable before its parts, and a part is durable before the batch that names it. A part
belongs to the calls that use it, and is there once, whatever the number of its uses.

A key that was destroyed leaves the random id of its subject, which forms of parts name.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes, token_hex
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple

from placet.schemas.errors import StoreError
from placet.stores.files import behind_link, opened_private
from placet_tools.tool import ToolError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEYS: Final = ".keys"
PARTS: Final = ".parts"

OUTPUT: Final = "output"
"""Batch of the parts that an executor stores."""

_PERSON: Final = "person "
_OF_ALL: Final = "all"
_KEPT: Final = ""
_NONCE_BYTES: Final = 12
_BUSY_SECONDS: Final = 30.0

_SCHEMAS: Final = {
    KEYS: """
        CREATE TABLE IF NOT EXISTS digests (key BLOB NOT NULL);
        CREATE TABLE IF NOT EXISTS subjects (
            id TEXT PRIMARY KEY, name BLOB UNIQUE, key BLOB, is_recorded INTEGER NOT NULL DEFAULT 1
        );
    """,
    PARTS: """
        CREATE TABLE IF NOT EXISTS parts (
            digest TEXT PRIMARY KEY, subjects TEXT NOT NULL, sealed BLOB NOT NULL
        );
        CREATE TABLE IF NOT EXISTS uses (
            digest TEXT NOT NULL, call TEXT NOT NULL, batch TEXT NOT NULL,
            PRIMARY KEY (digest, call, batch)
        ) WITHOUT ROWID;
    """,
}


class Use(NamedTuple):
    """The use of a part by a call that was not in the log when the part was written.

    Attributes:
        digest: Digest of the part.
        call: Key of the call.
        batch: The submission of the call, or `OUTPUT`.
    """

    digest: str
    call: str
    batch: str


class PartMissing(LookupError):  # noqa: N818  # the name states the fault
    """The error of a part that cannot be read; its text is `erased`, or `not here`."""


class PartStore:
    """The part store of one log. Safe for threads; each write is durable when it returns.

    Nothing is opened or created before the first use.

    Args:
        log: Path of the log's file; None for a store in memory.
    """

    def __init__(self, log: Path | None) -> None:
        self._log = None if log is None else behind_link(log).absolute()
        self._lock = RLock()
        self._open: dict[str, sqlite3.Connection] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a part store already."""
        return bool(self._open) or (self._log is not None and self._file(KEYS).exists())

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for connection in self._open.values():
                connection.close()
            self._open.clear()

    def secret_digest(self, content: bytes) -> str:
        """Return the digest of a secret under the key of this store, hexadecimal.

        Raises:
            StoreError: The files cannot be read or written.
        """
        with self._opened(KEYS) as keys:
            row = keys.execute("SELECT key FROM digests").fetchone()
            if row is None:
                row = [token_bytes(32)]
                keys.execute("INSERT INTO digests VALUES (?)", row)
        return _digest(row[0], content)

    # parts

    def put_of(
        self, name: str, contents: Sequence[bytes], call: str, batch: str
    ) -> tuple[str, list[str]]:
        """Store parts of one data subject as `put` does; return its id and their digests.

        A subject without an id gets an id and a key.

        Raises:
            StoreError: The files cannot be written.
        """
        with self._lock:  # no erasure comes between
            subject = self._subject(_PERSON + name)
            return subject, self.put(subject, contents, call, batch)

    def of_all(self) -> str:
        """Return the id of the subject of outputs that are of no person.

        Raises:
            StoreError: The files cannot be written.
        """
        return self._subject(_OF_ALL)

    def _subject(self, name: str) -> str:
        with self._opened(KEYS) as keys:
            hashed = self._hashed(name)
            row = keys.execute("SELECT id FROM subjects WHERE name = ?", [hashed]).fetchone()
            if row is None:
                row = [token_hex(8)]
                keys.execute(
                    "INSERT INTO subjects (id, name, key) VALUES (?, ?, ?)",
                    [row[0], hashed, token_bytes(32)],
                )
        return str(row[0])

    def put(self, subjects: str, contents: Sequence[bytes], call: str, batch: str) -> list[str]:
        """Store parts durably, each at most once; return their digests.

        Args:
            subjects: Ids of the subjects, joined by `+`: the erasure of one erases the parts.
            contents: The parts.
            call: Key of the call that uses them.
            batch: The submission of the call.

        Raises:
            PartMissing: A subject is erased.
            StoreError: The files cannot be written.
        """
        key = self._key(subjects)
        digests = [_digest(key, content) for content in contents]
        with self._opened(PARTS) as parts:
            for digest, content in zip(digests, contents, strict=True):
                known = parts.execute("SELECT 1 FROM parts WHERE digest = ?", [digest]).fetchone()
                if known is None:
                    nonce = token_bytes(_NONCE_BYTES)
                    sealed = nonce + _cipher(key).encrypt(nonce, content, digest.encode())
                    parts.execute("INSERT INTO parts VALUES (?, ?, ?)", [digest, subjects, sealed])
                parts.execute("INSERT OR IGNORE INTO uses VALUES (?, ?, ?)", [digest, call, batch])
        return digests

    def get(self, subjects: str, digest: str, calls: Sequence[str]) -> bytes:
        """Return a part that one of some calls uses.

        Raises:
            PartMissing: It is erased; or it is not here, or none of the calls uses it.
            StoreError: The files cannot be read.
        """
        if not self.exists:
            raise PartMissing("not here")
        key, marks = self._key(subjects), ", ".join("?" for _ in calls)
        with self._opened(PARTS) as parts:
            row = parts.execute(
                "SELECT sealed FROM parts WHERE digest = ? AND EXISTS "
                f"(SELECT * FROM uses WHERE uses.digest = parts.digest AND call IN ({marks}))",
                [digest, *calls],
            ).fetchone()
        if row is None:
            raise PartMissing("not here")
        sealed: bytes = row[0]
        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        return _cipher(key).decrypt(nonce, rest, digest.encode())

    # uses

    def pending(self) -> list[Use]:
        """Return the uses of which it is not known whether the log has them."""
        with self._opened(PARTS) as parts:
            rows = parts.execute("SELECT digest, call, batch FROM uses WHERE batch != ?", [_KEPT])
            return [Use(*row) for row in rows]

    def resolve(self, kept: Iterable[Use], dropped: Iterable[Use]) -> None:
        """Keep and drop uses; parts without a use are deleted.

        Raises:
            StoreError: The files cannot be written.
        """
        with self._opened(PARTS) as parts:
            for use in kept:
                parts.execute(
                    "INSERT OR IGNORE INTO uses VALUES (?, ?, ?)", [use.digest, use.call, _KEPT]
                )
                parts.execute("DELETE FROM uses WHERE (digest, call, batch) = (?, ?, ?)", use)
            for use in dropped:
                parts.execute("DELETE FROM uses WHERE (digest, call, batch) = (?, ?, ?)", use)
                parts.execute(
                    "DELETE FROM parts WHERE digest = ? AND NOT EXISTS "
                    "(SELECT * FROM uses WHERE uses.digest = parts.digest)",
                    [use.digest],
                )

    # erasure

    def erase(self, name: str) -> str | None:
        """Destroy the key of a data subject, then its parts; return the id of the subject.

        Returns:
            The id, for the record of the erasure; None if the subject has no parts here.

        Raises:
            StoreError: The files cannot be written.
        """
        if not self.exists:
            return None
        with self._opened(KEYS) as keys:
            hashed = self._hashed(_PERSON + name)
            row = keys.execute("SELECT id FROM subjects WHERE name = ?", [hashed]).fetchone()
            if row is None:
                return None
            keys.execute(
                "UPDATE subjects SET name = NULL, key = NULL, is_recorded = 0 WHERE id = ?", row
            )
        self._delete_parts(row[0])
        return str(row[0])

    def unrecorded(self) -> list[str]:
        """Return the ids of erased subjects whose erasure is not in the log; finish erasing them.

        Raises:
            StoreError: The files cannot be written.
        """
        with self._opened(KEYS) as keys:
            rows = keys.execute("SELECT id FROM subjects WHERE is_recorded = 0").fetchall()
        for (subject,) in rows:
            self._delete_parts(subject)  # a crash may have come before it
        return [str(subject) for (subject,) in rows]

    def recorded(self, subject: str) -> None:
        """Note that the erasure of a subject is in the log."""
        with self._opened(KEYS) as keys:
            keys.execute("UPDATE subjects SET is_recorded = 1 WHERE id = ?", [subject])

    def _delete_parts(self, subject: str) -> None:
        """Delete the parts of a subject, and their uses. O(parts)."""
        with self._opened(PARTS) as parts:
            of_subject = "SELECT digest FROM parts WHERE instr(subjects, ?)"
            parts.execute(f"DELETE FROM uses WHERE digest IN ({of_subject})", [subject])
            parts.execute("DELETE FROM parts WHERE instr(subjects, ?)", [subject])

    # keys and files

    def _hashed(self, name: str) -> bytes:
        return bytes.fromhex(self.secret_digest(b"subject" + name.encode("utf-8", "replace")))

    def _key(self, subjects: str) -> bytes:
        """Return the key of parts of some subjects together: all of their keys are needed."""
        found = []
        with self._opened(KEYS) as keys:
            for subject in sorted(subjects.split("+")):
                row = keys.execute("SELECT key FROM subjects WHERE id = ?", [subject]).fetchone()
                if row is None or row[0] is None:
                    raise PartMissing("not here" if row is None else "erased")
                found.append(row[0])
        return blake2b(b"".join(found), digest_size=32, person=b"placet.subjects").digest()

    def _file(self, suffix: str) -> Path:
        assert self._log is not None, "a store in memory has no file"
        return self._log.with_name(self._log.name + suffix)

    @contextmanager
    def _opened(self, suffix: str) -> Iterator[sqlite3.Connection]:
        """Return a context of one transaction, which is durable after it.

        Raises:
            StoreError: The file cannot be read or written.
        """
        where = "memory" if self._log is None else str(self._file(suffix))
        with self._lock:
            try:
                connection = self._open.get(suffix)
                if connection is None:
                    connection = self._open[suffix] = self._connect(suffix)
                if connection.in_transaction:  # of a caller of this thread
                    yield connection
                    return
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # a full disk may have ended the transaction
                        connection.execute("ROLLBACK")
                    raise
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    f"the parts of the log cannot be read or written in {where}: {error}; nothing "
                    "ran that needs them",
                    store=where,
                ) from error

    def _connect(self, suffix: str) -> sqlite3.Connection:
        if self._log is None:
            place = ":memory:"
        else:
            place = str(self._file(suffix))
            os.close(opened_private(self._file(suffix), os.O_RDWR))
        connection = sqlite3.connect(
            place, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
        )
        # A deleted key must be in no page of the file; a write-ahead log would keep it for a while.
        # Parts are useless without their key, and a write-ahead log takes one sync for each commit.
        journal = "DELETE" if suffix == KEYS else "WAL"
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMAS[suffix]} COMMIT;")
        return connection


def has_cipher() -> bool:
    """Return whether the library of the extra `parts` is installed."""
    try:
        import cryptography  # noqa: F401, PLC0415  # an extra
    except ImportError:
        return False
    return True


def require_cipher() -> None:
    """Check that the library of the extra `parts` is installed.

    Raises:
        ToolError: It is not.
    """
    if not has_cipher():
        raise ToolError(
            "personal arguments are encrypted by the library cryptography, which is an extra: "
            "pip install './plugins/placet-tools[parts]'"
        )


def _digest(key: bytes, content: bytes) -> str:
    return blake2b(content, key=key, digest_size=16, person=b"placet.digest").hexdigest()


def _cipher(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # an extra

    return AESGCM(blake2b(b"", key=key, digest_size=32, person=b"placet.cipher").digest())
