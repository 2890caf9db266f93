"""The log in PostgreSQL, beyond the contract: one live writer, and no group twice."""

from threading import Event
from typing import Any

import psycopg
import pytest
from psycopg import sql

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import NoWorldError
from placet.stores.postgres.address import address_of
from placet.stores.postgres.fence import PostgresFence
from placet.stores.postgres.log import PostgresEventLog
from placet.stores.snapshots.files import snapshots_of
from placet.stores.url import fence_of, open_event_log
from placet.testing.contracts.event_log import append, records_of

LONG = {"lease_s": 10}  # on a machine that is busy a writer may give no sign for seconds
SHORT = {"lease_s": 0.1}


@pytest.fixture
def url(postgres):
    return postgres.url(**LONG)


@pytest.fixture
def log(url):
    log = open_event_log(url)
    yield log
    log.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
@pytest.mark.parametrize("asked", [{}, {"client_encoding": "SQL_ASCII"}])
def test_a_log_is_opened_again_in_a_database_of_any_encoding(postgres, encoding, asked):
    name = f"of_{encoding}_{len(asked)}".lower()
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' "
            "LC_CTYPE 'C'".encode()
        )
    url = postgres.url(database=name, **LONG, **asked)
    for epoch, data in ((1, b"a"), (2, b"\xff\x00")):
        log = open_event_log(url)
        assert log.open() == epoch
        append(log, epoch, data)
        fence = fence_of(log)
        assert fence is not None
        assert "placet writer" in str(fence.holder())
        log.close()
    assert [data for _, data in open_event_log(url).read()] == [b"a", b"\xff\x00"]
    snapshots = snapshots_of(open_event_log(url))
    assert snapshots is not None
    assert snapshots.places() == []


def world_of(url):
    return address_of(url).world


def table(url, name):
    return sql.Identifier(address_of(url).schema, name)


# the fence


def test_a_second_writer_is_refused_with_the_name_of_the_live_first_one(log, url, postgres):
    append(log, log.open(), b"a")
    with pytest.raises(StoreError, match=r"'placet writer w\d+' at .* since 20") as refused:
        open_event_log(postgres.url(world_of(url), **SHORT)).open()  # it waits for its own lease
    append(log, 1, b"b")
    holder = log.fence.holder()
    assert holder is not None
    session, since = holder.split(", since ")
    assert f"{session}, writes it, since {since}. " in str(refused.value)


def test_a_reader_names_the_session_that_holds_the_fence(log, url):
    fence = fence_of(open_event_log(url))
    assert fence is not None
    assert fence.holder() is None
    log.open()
    assert log.fence.connection is not None
    process = log.fence.connection.info.backend_pid
    assert f"'placet writer {world_of(url)}' at " in str(fence.holder())
    assert f", server process {process}, since 20" in str(fence.holder())
    log.close()
    assert fence.holder() is None


@pytest.mark.slow
def test_an_idle_writer_keeps_its_lock(postgres):
    log = open_event_log(postgres.url(lease_s=3))
    epoch = log.open()
    Event().wait(4)
    append(log, epoch, b"a")
    log.close()


def test_a_writer_without_heartbeat_loses_its_lock(postgres, url, monkeypatch):
    log = open_event_log(postgres.url(world_of(url), **SHORT))
    assert isinstance(log, PostgresEventLog)
    monkeypatch.setattr(log.fence, "_give_signs", lambda connection: None)
    epoch = log.open()
    heir = open_event_log(url)
    assert heir.open() == epoch + 1
    with pytest.raises(StoreError, match="this writer is fenced"):
        append(log, epoch, b"zombie")
    heir.close()
    log.close()


@pytest.mark.parametrize(("is_over", "signs"), [(False, 2), (True, 1)])
def test_a_canceled_heartbeat_is_repeated(is_over, signs):
    """An operator cancels a statement, or a statement_timeout does: the session is still there."""
    fence = PostgresFence(address_of("postgresql://h/db?lease_s=0.1"))

    class Session:
        closed = is_over
        asked = 0

        def execute(self, *_: object) -> Any:
            self.asked += 1
            if self.asked == 2:
                fence._ended.set()
            raise psycopg.errors.QueryCanceled("canceling statement due to user request")

    session: Any = Session()
    fence._give_signs(session)
    assert session.asked == signs


def test_the_epoch_fences_a_writer_that_lost_its_lock(log, url, postgres):
    """A pooler, or an operator, can take away the lock: an append is refused all the same."""
    epoch = log.open()
    assert log.fence.connection is not None
    log.fence.connection.execute("SELECT pg_advisory_unlock_all()")
    heir = open_event_log(url)
    assert heir.open() == epoch + 1
    with pytest.raises(StoreError, match=r"fenced.*epoch 1.*latest is 2"):
        append(log, epoch, b"zombie")
    assert records_of(heir) == []
    heir.close()


def test_an_append_waits_for_a_concurrent_takeover_of_the_fence(log, url, postgres):
    """Neither sees the world as it was before the other."""
    epoch = log.open()
    with postgres.connect() as other:
        with other.transaction():
            other.execute(sql.SQL("UPDATE {} SET epoch = epoch + 1").format(table(url, "meta")))
            assert log.fence.connection is not None
            log.fence.connection.execute("SET lock_timeout = 50")
            with pytest.raises(StoreError, match="another session holds it locked"):
                append(log, epoch, b"a")
        log.open()
    assert records_of(log) == []


# what is lost


def test_a_lost_connection_stops_the_writer_without_resending(log, url, postgres):
    epoch = log.open()
    append(log, epoch, b"a")
    postgres.end_sessions("writer", world_of(url))
    with pytest.raises(StoreError, match="may be in the log or not"):
        append(log, epoch, b"b")
    with pytest.raises(StoreError, match="earlier append failed"):
        append(log, epoch, b"b")
    assert log.open() == epoch + 1
    assert records_of(log) == [b"a"]


def test_a_group_whose_acknowledgment_was_lost_is_not_repeated(log, url, postgres):
    """The group was committed without the writer's knowledge; recovery continues after it."""
    epoch = log.open()
    append = LogAppend(0, 0, 1, [b"a"])
    assert log.fence.connection is not None
    before = log._tail
    log.append(append, epoch)
    log._tail = before  # as if the answer had not come
    with pytest.raises(StoreError, match=r"expected an append from record 1"):
        log.append(append, epoch)
    assert log.open() == epoch + 1
    assert (log.count(), records_of(log)) == (1, [b"a"])


def test_a_damaged_row_is_named(log, url, postgres):
    epoch = log.open()
    for record in (b"a", b"b", b"c"):
        append(log, epoch, record)
    with postgres.connect() as other:
        flip = (
            "UPDATE {} SET blob = set_byte(blob, 3, get_byte(blob, 3) # 1) WHERE first_record = 1"
        )
        other.execute(sql.SQL(flip).format(table(url, "groups")))
    with pytest.raises(StoreError, match="append at record 1 fails its checksum"):
        records_of(log)
    with postgres.connect() as other:
        other.execute(sql.SQL("DELETE FROM {} WHERE first_record = 1").format(table(url, "groups")))
    with pytest.raises(StoreError, match="append at record 1 is missing"):
        records_of(log)
    with postgres.connect() as other:
        other.execute(sql.SQL("DELETE FROM {} WHERE first_record = 0").format(table(url, "groups")))
    with pytest.raises(
        StoreError, match="should begin at record 0, and its first append begins at 2"
    ):
        records_of(log)


# what the server says


def test_a_missing_world_has_its_own_error(url):
    with pytest.raises(NoWorldError, match="no such world"):
        records_of(open_event_log(url))


def test_worlds_in_one_database_are_independent(postgres):
    first, second = (open_event_log(postgres.url()) for _ in range(2))
    append(first, first.open(), b"a")
    assert second.open() == 1
    assert (records_of(first), records_of(second)) == ([b"a"], [])
    first.close()
    second.close()


def test_missing_privileges_are_reported(postgres):
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE guest LOGIN")
        admin.execute("REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    with pytest.raises(StoreError, match=r"permission was denied.*grant the role CREATE"):
        open_event_log(postgres.url(user="guest", **SHORT)).open()


def test_a_read_only_database_is_reported(postgres):
    url = postgres.url(options="-c default_transaction_read_only=on", **SHORT)
    with pytest.raises(StoreError, match=r"read-only.*primary"):
        open_event_log(url).open()


@pytest.mark.parametrize(
    ("options", "came"),
    [
        ({"database": "nowhere"}, 'cannot be reached.*"nowhere" does not exist'),
        ({"user": "nobody-here"}, 'cannot be reached.*"nobody-here" does not exist'),
        ({"port": 1}, "cannot be reached"),
        ({"wrld": "town"}, 'libpq cannot read the URL .*"wrld".*; correct'),
    ],
)
def test_a_refused_connection_is_reported(postgres, options, came):
    with pytest.raises(StoreError, match=came):
        open_event_log(postgres.url(**options)).open()


def test_a_schema_of_another_program_is_refused_unchanged(postgres, url):
    with postgres.connect() as other:
        other.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address_of(url).schema)))
        other.execute(sql.SQL("CREATE TABLE {} ()").format(table(url, "theirs")))
    with pytest.raises(StoreError, match="got the tables theirs"):
        open_event_log(url).open()


def test_an_empty_schema_is_used(postgres, url, log):
    """An administrator may make it, so that the role of the world needs no right to."""
    with postgres.connect() as other:
        other.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address_of(url).schema)))
    assert log.open() == 1


def test_a_layout_of_another_release_is_refused(postgres, url, log):
    log.open()
    log.close()
    with postgres.connect() as other:
        other.execute(sql.SQL("UPDATE {} SET layout_version = 9").format(table(url, "meta")))
    for use in (open_event_log(url).open, open_event_log(url).count):
        with pytest.raises(StoreError, match=r"expected layout version 1, got 9"):
            use()


def test_a_server_of_an_old_version_is_refused(log, monkeypatch):
    monkeypatch.setattr("placet.stores.postgres.fence.SERVER_VERSION_MIN", 99)
    with pytest.raises(StoreError, match=r"expected PostgreSQL 99 or later, got \d\d; upgrade"):
        log.open()


def test_durability_is_the_level_of_synchronous_commit(postgres):
    for level, durability in (("on", "full"), ("local", "local"), ("off", "off")):
        url = postgres.url(synchronous_commit=level)
        log = open_event_log(url)
        log.open()
        assert log.durability == durability
        assert isinstance(log, PostgresEventLog)
        assert log.fence.connection is not None
        assert log.fence.connection.execute("SHOW synchronous_commit").fetchone() == (level,)
        log.close()
