"""The table of requests whose end two programs could read differently, and of broken ones.

Each row is sent with `BEHIND` after it: bytes that are the next request, or what a broken request
hides. A row lists the answers, and the paths that the application receives.
"""

from typing import NamedTuple

BEHIND = b"GET /behind HTTP/1.1\r\nhost: x\r\n\r\n"
GET = b"GET /first HTTP/1.1\r\nhost: x\r\n"
POST = b"POST /first HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: "
HANDSHAKE = (
    GET + UPGRADE + b"websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
LENGTH = b"content-length: %d\r\n\r\n" % len(BEHIND) + BEHIND
"""A body that is a request itself."""

CHUNK = b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(BEHIND) + BEHIND + b"\r\n0\r\n\r\n"


class Attack(NamedTuple):
    """The bytes of a client, with their answers.

    Attributes:
        data: Bytes before `BEHIND`.
        statuses: Status of each answer; the connection closes after the last.
        paths: Paths that the application receives; a request whose body breaks is among them.
    """

    data: bytes
    statuses: tuple[int, ...] = (400,)
    paths: tuple[str, ...] = ()


def _target(target: bytes, more: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n" + more + b"\r\n"


def _refused(**rows: bytes) -> dict[str, Attack]:
    return {name.replace("_", " "): Attack(data) for name, data in rows.items()}


def _chunks(**rows: bytes) -> dict[str, Attack]:
    return {
        f"chunks: {name.replace('_', ' ')}": Attack(CHUNKED + data, paths=("/first",))
        for name, data in rows.items()
    }


BOTH = ("/first", "/behind")
READ_ALIKE = {
    "no body": Attack(GET + b"\r\n", (200, 200), BOTH),
    "a body of declared length": Attack(POST + LENGTH, (200, 200), BOTH),
    "a length with zeros and spaces": Attack(
        POST + b"content-length:\t007 \r\n\r\n[1,2,3]", (200, 200), BOTH
    ),
    "a length of none": Attack(POST + b"content-length: 0\r\n\r\n", (200, 200), BOTH),
    "a body in chunks": Attack(POST + CHUNK, (200, 200), BOTH),
    "chunks with an extension": Attack(
        CHUNKED + b'1;a=b;c="d"\r\n[\r\n0\r\n\r\n', (200, 200), BOTH
    ),
    "chunks with trailers": Attack(CHUNKED + b"0\r\nhost: y\r\na: b\r\n\r\n", (200, 200), BOTH),
    "chunks with zeros": Attack(
        CHUNKED + b"0000000000000000001\r\n[\r\n00\r\n\r\n", (200, 200), BOTH
    ),
    "a trailer of an upgrade": Attack(
        CHUNKED + b"0\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", (200, 200), BOTH
    ),
    "empty lines before a request": Attack(b"\r\n\r\n" + GET + b"\r\n", (200, 200), BOTH),
    "a URL of the same host": Attack(_target(b"http://X/first"), (200, 200), BOTH),
    "a host with a port": Attack(
        b"GET /first HTTP/1.1\r\nhost: [::1]:80\r\n\r\n", (200, 200), BOTH
    ),
    "HTTP/1.0 without a host": Attack(b"GET /first HTTP/1.0\r\n\r\n", (200,), ("/first",)),
    "HTTP/0.9": Attack(b"GET /first\r\n\r\n", (200,), ("/first",)),
    "HTTP/1.0 that expects": Attack(
        b"POST /first HTTP/1.0\r\nexpect: 100-continue\r\n" + LENGTH, (200,), ("/first",)
    ),
    "an upgrade without a body": Attack(GET + UPGRADE + b"h2c\r\n\r\n", (200,), ("/first",)),
    "an upgrade that the connection denies": Attack(
        GET + UPGRADE + b"websocket\r\nconnection: close\r\n\r\n", (200,), ("/first",)
    ),
    "an upgrade that the connection does not name": Attack(
        GET + b"upgrade: h2c\r\n\r\n", (200,), ("/first",)
    ),
    "a body that is expected": Attack(
        POST + b"expect: 100-continue\r\n" + LENGTH, (100, 200), ("/first",)
    ),
    "no body that is expected": Attack(GET + b"expect: 100-continue\r\n\r\n", (200, 200), BOTH),
}
HEADS = {
    **_refused(
        nothing_of_HTTP=b"\x00\x01\x02\x03\r\n\r\n",
        a_TLS_hello=bytes.fromhex("16030100c8010000c40303") + bytes(200),
        the_preface_of_HTTP_2=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        a_version_of_2=b"GET /first HTTP/2.0\r\nhost: x\r\n\r\n",
        another_version=b"GET /first HTTP/9.9\r\nhost: x\r\n\r\n",
        an_unknown_method=b"STEAL /first HTTP/1.1\r\nhost: x\r\n\r\n",
        a_space_in_a_name=GET + b"a b: c\r\n\r\n",
        a_space_before_the_colon=b"GET /first HTTP/1.1\r\nhost : x\r\n\r\n",
        a_NUL_in_a_name=GET + b"a\x00b: c\r\n\r\n",
        a_NUL_in_a_value=GET + b"a: b\x00c\r\n\r\n",
        a_line_break_in_a_value=GET + b"a: b\rc\r\n\r\n",
        a_folded_header=GET + b"a: b\r\n c\r\n\r\n",
        a_header_folded_by_a_tab=GET + b"transfer-encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n",
        a_folded_first_line=b"GET /first HTTP/1.1\r\n host: x\r\n\r\n",
        no_colon=GET + b"abc\r\n\r\n",
        bare_line_feeds=b"GET /first HTTP/1.1\nhost: x\n\n",
        a_bare_line_feed_after_a_header=GET + b"a: b\n\r\n",
        a_bare_line_feed_at_the_end=GET + b"\n",
        two_returns_at_the_end=GET + b"\r\r\n",
        no_host=b"GET /first HTTP/1.1\r\n\r\n",
        two_hosts=GET + b"host: y\r\n\r\n",
        one_host_twice=GET + b"Host: x\r\n\r\n",
        two_hosts_of_HTTP_1_0=b"GET /first HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n",
        a_list_of_hosts=b"GET /first HTTP/1.1\r\nhost: x, y\r\n\r\n",
        a_host_with_a_user=b"GET /first HTTP/1.1\r\nhost: a@x\r\n\r\n",
        a_host_with_a_path=b"GET /first HTTP/1.1\r\nhost: x/y\r\n\r\n",
        a_URL_of_another_host=_target(b"http://y/first"),
        a_URL_with_a_user=_target(b"http://a@x/first"),
        a_URL_of_another_scheme=_target(b"ftp://x/first"),
        a_URL_without_a_path=_target(b"http://x"),
        an_authority_as_target=b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n",
        no_path_as_target=_target(b"*"),
    ),
    **_refused(
        a_length_that_is_no_number=POST + b"content-length: five\r\n\r\nabcde",
        a_negative_length=POST + b"content-length: -5\r\n\r\nabcde",
        a_signed_length=POST + b"content-length: +5\r\n\r\nabcde",
        a_hexadecimal_length=POST + b"content-length: 0x5\r\n\r\nabcde",
        an_underscore_in_a_length=POST + b"content-length: 1_0\r\n\r\nabcde",
        an_empty_length=POST + b"content-length: \r\n\r\n",
        two_lengths=POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        a_length_twice=POST + b"content-length: 5\r\ncontent-length: 5\r\n\r\nabcde",
        a_list_of_lengths=POST + b"content-length: 5, 5\r\n\r\nabcde",
        a_length_beyond_64_bits=POST + b"content-length: 99999999999999999999\r\n\r\n",
        a_length_and_chunks=POST + b"content-length: 5\r\n" + CHUNK,
        chunks_and_a_length=POST + b"transfer-encoding: chunked\r\n" + LENGTH,
        an_unknown_coding=POST + b"transfer-encoding: gzip\r\n\r\n",
        no_coding=POST + b"transfer-encoding: identity\r\n" + LENGTH,
        an_empty_coding=POST + b"transfer-encoding: \r\n\r\n",
        another_name_of_chunks=POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        chunks_with_a_parameter=POST + b"transfer-encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
        chunks_before_another_coding=POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        chunks_behind_another_coding=POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        chunks_twice=POST + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        two_codings=POST + b"transfer-encoding: chunked\r\n" + CHUNK,
        chunks_of_HTTP_1_0=b"POST /first HTTP/1.0\r\nhost: x\r\n" + CHUNK,
        an_upgrade_with_a_length=POST + UPGRADE + b"h2c\r\n" + LENGTH,
        an_upgrade_with_chunks=POST + UPGRADE + b"foo\r\n" + CHUNK,
        an_upgrade_of_HTTP_1_0=b"GET /first HTTP/1.0\r\n" + UPGRADE + b"h2c\r\n\r\n",
        an_upgrade_that_is_not_named_with_a_length=POST + b"upgrade: h2c\r\n" + LENGTH,
        two_upgrades=GET + UPGRADE + b"websocket\r\nupgrade: h2c\r\n\r\n",
        a_handshake_with_a_length=HANDSHAKE + LENGTH,
        a_handshake_with_chunks=HANDSHAKE + CHUNK,
        a_handshake_of_HTTP_1_0=HANDSHAKE.replace(b"/1.1", b"/1.0") + b"\r\n",
    ),
    "another expectation": Attack(POST + b"expect: 200-ok\r\n" + LENGTH, (417,)),
    "two expectations": Attack(POST + b"expect: 100-continue\r\nexpect: 200-ok\r\n" + LENGTH),
}
CHUNKS = _chunks(
    no_size=b"xyz\r\n",
    an_empty_size=b"\r\n\r\n",
    a_negative_size=b"-1\r\n",
    a_signed_size=b"+1\r\n[\r\n0\r\n\r\n",
    a_prefix_of_a_size=b"0x1\r\n[\r\n0\r\n\r\n",
    a_space_before_a_size=b" 1\r\n[\r\n0\r\n\r\n",
    a_space_behind_a_size=b"1 \r\n[\r\n0\r\n\r\n",
    an_underscore_in_a_size=b"1_0\r\n[\r\n0\r\n\r\n",
    a_size_beyond_64_bits=b"ffffffffffffffffff\r\n",
    a_longer_chunk=b"1\r\n[]\r\n0\r\n\r\n",
    no_line_break=b"2\r\n[]0\r\n\r\n",
    a_NUL=b"2\x00\r\n[]\r\n",
    a_bare_line_feed_behind_a_size=b"1\n[\r\n0\r\n\r\n",
    a_bare_line_feed_behind_an_extension=b"1;a\n[\r\n0\r\n\r\n",
    a_bare_line_feed_behind_data=b"1\r\n[\n0\r\n\r\n",
    a_bare_line_feed_at_the_end=b"1\r\n[\r\n0\r\n\n",
    a_bare_return_in_an_extension=b"1;a\rb\r\n[\r\n0\r\n\r\n",
    a_line_break_in_a_quoted_extension=b'1;a="\r\n"\r\n[\r\n0\r\n\r\n',
    a_length_as_trailer=b"0\r\ncontent-length: 5\r\n\r\n",
    a_coding_as_trailer=b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    a_folded_trailer=b"0\r\na: b\r\n c\r\n\r\n",
    a_trailer_of_bytes=b"2\r\n[]\r\n0\r\n\x00\x01\r\n\r\n",
)
REFUSED = {**HEADS, **CHUNKS}
ATTACKS = {**READ_ALIKE, **REFUSED}
