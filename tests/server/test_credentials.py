"""Tokens: random, stored as hashes, read from a file with their rights."""

import hmac

import pytest

from placet.schemas.identity import OPERATOR
from placet.server import credentials
from placet.server.credentials import (
    PREFIX,
    Credentials,
    CredentialsError,
    KnownToken,
    Principal,
    entry_text,
    hash_of,
    new_token,
    read_tokens,
)


def test_a_token_has_256_random_bits():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(one.startswith(PREFIX) and len(one) == len(PREFIX) + 43 for one in tokens)


def test_a_token_identifies_its_holder():
    mine, ops = new_token(), new_token()
    known = Credentials([KnownToken("alice", hash_of(mine)), KnownToken(OPERATOR, hash_of(ops))])
    assert known.who(mine) == Principal("alice")
    assert not Principal("alice").is_operator
    found = known.who(ops)
    assert found is not None
    assert found.is_operator
    for stranger in ("", "x", mine[:-1], mine + "x", hash_of(mine), "\ud800", "x" * 10**6):
        assert known.who(stranger) is None
    assert Credentials().who("0" * 64) is None


def test_half_a_hash_is_not_enough(monkeypatch):
    mine = new_token()
    half = hash_of(mine)[:32]
    known = Credentials([KnownToken("alice", half + "0" * 32)])
    assert known.who(mine) is None


def test_every_token_is_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(kept, shown):
        compared.append((kept, shown))
        return hmac.compare_digest(kept, shown)

    monkeypatch.setattr(credentials, "compare_digest", compare)
    mine = new_token()
    known = Credentials([KnownToken("alice", hash_of(mine))])
    known.who(mine)
    known.who("a stranger's")
    assert [shown for _, shown in compared] == [hash_of(mine), hash_of("a stranger's")]


@pytest.mark.parametrize(
    ("submitter", "digest"),
    [
        ("alice", ""),
        ("alice", "x" * 64),
        ("alice", "A" * 64),
        ("alice", "0" * 63),
        ("system", "0" * 64),
        ("", "0" * 64),
        ("a\n", "0" * 64),
    ],
)
def test_an_invalid_token_is_refused(submitter, digest):
    with pytest.raises(CredentialsError):
        Credentials([KnownToken(submitter, digest)])


def test_a_token_has_one_holder_and_a_holder_several_tokens():
    first, second = hash_of("a"), hash_of("b")
    Credentials([KnownToken("alice", first), KnownToken("alice", second)])
    Credentials([KnownToken("alice", first), KnownToken("alice", first)])
    with pytest.raises(CredentialsError, match="speak for"):
        Credentials([KnownToken("alice", first), KnownToken("bob", first)])


@pytest.mark.parametrize("name", ["zoe\u200d", "caf\u00ade", "a\U000e0041"])
def test_an_agent_of_an_old_log_keeps_its_token(tmp_path, name):
    kept = KnownToken(name, hash_of("a"))
    text = entry_text(kept)
    assert text.isascii()
    (tmp_path / "tokens.toml").write_text(text, "utf-8")
    (read,) = read_tokens(tmp_path / "tokens.toml")
    assert read == kept
    assert len(Credentials([read])) == 1


def test_a_token_file_is_read_back(tmp_path):
    tokens = [
        KnownToken('al"ice\\ é', hash_of("a")),
        KnownToken(OPERATOR, hash_of("b")),
    ]
    path = tmp_path / "tokens.toml"
    path.write_text("".join(map(entry_text, tokens)), encoding="utf-8")
    assert read_tokens(path) == tokens
    assert "token-of" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[tokens", "is not TOML"),
        ("\xff", "is not TOML"),
        ("x = 1", "nothing else"),
        ("tokens = 1", "nothing else"),
        ("tokens = [1]", "nothing else"),
        ("[[tokens]]\nagent = 'a'", "entry 1"),
        ("[[tokens]]\nagent = 'operator'\nsha256 = ''", "entry 1"),
        ("[[tokens]]\nagent = 'system'\nsha256 = ''", "entry 1"),
        ("[[tokens]]\nagent = 1\nsha256 = ''", "entry 1"),
        ("[[tokens]]\nagent = 'a'\nsha256 = 1", "entry 1"),
        ("[[tokens]]\noperator = false\nsha256 = ''", "entry 1"),
        ("[[tokens]]\noperator = true\nagent = 'a'\nsha256 = ''", "entry 1"),
        ("[[tokens]]\nagent = 'a'\nsha256 = ''\nrole = 'operator'", "entry 1"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "tokens.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CredentialsError, match=said):
        read_tokens(path)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(CredentialsError, match="cannot read the tokens"):
        read_tokens(tmp_path / "no.toml")
