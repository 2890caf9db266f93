"""A URL is parsed without a server, and its secrets are never printed."""

import sys

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from placet.cli.terminal import redact
from placet.schemas.errors import StoreError
from placet.stores.postgres.address import address_of, shown_url
from placet.stores.url import environment_of, open_event_log

SECRET = "s3cr:t"
WITH_SECRETS = [
    "postgresql://ann:s3cr%3At@host/db",
    "postgres://ann:s3cr%3At@host:5433,other/db?world=town",
    "postgresql://ann@host/db?password=s3cr%3At&world=town",
    "postgresql://host/db?world=no%20world&sslpassword=s3cr%3At",
    "postgresql://ann:s3cr%3At@host/db?synchronous_commit=maybe",
    "postgresql://ann:s3cr%3At@host/db?lease_s=never",
    "postgresql://ann:s3cr%3At@host/db?world",
    "postgresql://ann:s3cr%3At@[host/db",
    "postgresql://ann:s3cr/t@host/db",
    "postgresql://ann:5/s3cr@host/db",
    "postgresql://ann:s3cr?t@host/db",
    "postgresql://ann:s3cr/?x=s3cr@host/db",
    "postgresql://ann:s3cr#t@host/db",
]


@pytest.mark.parametrize(
    ("url", "shown", "conninfo"),
    [
        ("postgresql://h/db", "postgresql://h/db", "postgresql://h/db"),
        ("postgres://h/db?world=a", "postgresql://h/db?world=a", "postgresql://h/db"),
        (
            "postgresql:///db?host=/run/pg&world=a.b-c&lease_s=9&synchronous_commit=OFF",
            "postgresql:///db?host=/run/pg&world=a.b-c&lease_s=9&synchronous_commit=OFF",
            "postgresql:///db?host=/run/pg",
        ),
        (
            "postgresql://u:p%40@h1,h2:99/db?target_session_attrs=read-write",
            "postgresql://u@h1,h2:99/db?target_session_attrs=read-write",
            "postgresql://u@h1,h2:99/db?target_session_attrs=read-write",
        ),
        ("postgresql://", "postgresql://", "postgresql://"),
        (
            "postgresql://u@[::1]:5433,[::2],h:1/db",
            "postgresql://u@[::1]:5433,[::2],h:1/db",
            "postgresql://u@[::1]:5433,[::2],h:1/db",
        ),
    ],
)
def test_own_parameters_are_removed_and_others_are_passed_to_libpq(url, shown, conninfo):
    address = address_of(url)
    assert (address.url, address.conninfo) == (shown, conninfo)
    assert address_of(address.url).schema == address.schema


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgresql://u:a+b%2B@h/db", "a+b+"),
        ("postgresql://u@h/db?password=a+b%2B%20c", "a+b+ c"),
        ("postgresql://u:a#b?c[d@h/db?application_name=a@b", "a#b?c[d"),
    ],
)
def test_a_password_is_read_as_libpq_reads_it(url, password):
    assert address_of(url).password == password
    assert conninfo_to_dict(url)["password"] == password


def test_a_world_has_a_schema_and_separate_locks():
    town, other = address_of("postgresql://h/db?world=town"), address_of("postgresql://h/db")
    assert (town.schema, other.schema) == ("placet_town", "placet_world")
    keys = {one.key(what) for one in (town, other) for what in ("writer", "follower")}
    assert len(keys) == 4
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_a_password_is_passed_to_another_process_in_its_environment():
    log = open_event_log(WITH_SECRETS[0])
    assert environment_of(log) == {"PGPASSWORD": SECRET}
    assert environment_of(open_event_log("memory://")) == {}


def test_the_password_of_a_key_is_passed_to_libpq_here_and_in_another_process(monkeypatch):
    messages: list[str] = []

    def refuse(conninfo: str, **_: object) -> None:
        messages.append(conninfo_to_dict(conninfo)["sslpassword"])  # type: ignore[arg-type]
        raise psycopg.OperationalError("no server")

    log = open_event_log("postgresql://host/db?sslpassword=s3cr%3At")
    monkeypatch.setattr(psycopg, "connect", refuse)
    with pytest.raises(StoreError, match="no server"):
        log.open()
    for name, value in environment_of(log).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="no server"):
        open_event_log(log.url).open()
    assert messages == [SECRET, SECRET]


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_no_secret_is_printed(url):
    try:
        log = open_event_log(url)
        shown = [log.url, repr(log), repr(log.address), shown_url(url)]  # type: ignore[attr-defined]
    except StoreError as error:
        shown = [str(error), str(error.store), shown_url(url)]
    shown.append(redact(f"cannot use {url}, nor '{url}'; see above"))
    for text in shown:
        assert "s3cr" not in text


def test_other_parts_of_a_url_are_printed_unchanged():
    for text in ("postgresql://ann@host/db?world=a", "at 12:30 mail a@b about postgres", "a:b@c"):
        assert redact(text) == text


@pytest.mark.parametrize(
    ("query", "came"),
    [
        ("world=a/b", "a world's name is 1 to 56 of"),
        ("world=" + "a" * 57, "a world's name is 1 to 56 of"),
        ("synchronous_commit=maybe", "synchronous_commit must be one of on,"),
        ("lease_s=0", "lease_s must be 0.1 to 3600 seconds, got '0'"),
        ("lease_s=nan", "lease_s must be"),
        ("world", "it cannot be read"),
        ("world=a#b", "it cannot be read"),
    ],
)
def test_an_invalid_parameter_is_an_error(query, came):
    with pytest.raises(StoreError) as caught:
        open_event_log(f"postgresql://h/db?{query}")
    assert came in str(caught.value)


def test_a_missing_driver_is_reported_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "placet.stores.postgres.log", None)
    with pytest.raises(StoreError, match=r"pip install '\.\[postgres\]'"):
        open_event_log("postgresql://ann:secret@h/db")
