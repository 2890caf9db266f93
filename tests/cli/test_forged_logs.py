"""Logs with valid checksums and a valid chain, whose values no kernel wrote: an error in one line.

A person reads such a log who got it from somebody else. A command may show it or refuse it; it
must not raise, hang, or write outside its folder.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.domains.world import World
from placet.history.pack import pack
from placet.kernel import Kernel
from placet.schemas.log.pack import decode_pack, encode_pack
from placet.schemas.log.record import record_hash
from tests.history.timeline.played_logs import log_of, move

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63 - 1, -(2**63), 2**64 - 1, 1e308, float("nan"), float("inf"), [], {},
    [[]], b"", b"\xff\xfe", "", "x", {"a": {"b": 1}}, [None] * 5, "\x1b[31m", "../../evil", "\0",
    "x" * 70_000, "world.agents", "</script><script>1", "=1+1",
)  # fmt: skip
READING = (
    ("log", "{log}"),
    ("log", "{log}", "--json"),
    ("log", "{log}", "--grep", "x"),
    ("replay", "{log}", "--path", "/"),
    ("verify", "{log}"),
    ("check", "{log}"),
    ("explain", "{log}", "ann", "q3"),
    ("explain", "{log}", "--seq", "5"),
    ("effects", "{log}"),
    ("export", "{log}", "--to", "{name}.tables"),
    ("report", "{log}", "--to", "{name}.html"),
    ("diff", "{log}", "good.pack"),
    ("bisect", "{log}", "good.pack"),
    ("compare", "{log}", "good.pack"),
    ("fork", "{log}", "{name}.db"),
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The pack of a short world: registered agents, admitted and refused batches, single ones."""
    folder = tmp_path_factory.mktemp("good")
    records: list[bytes] = []
    kernel = Kernel(World(bounds=[[0, 0], [9, 9]]), sink=records.append)
    for name in ("ann", "bob"):
        kernel.register_agent(name, position=[0.0, 0.0])
    for tick in range(6):
        far = 99.0 if tick % 3 == 2 else 1.0
        batches = [[move(name, f"q{tick}", [far, float(tick)])] for name in ("ann", "bob")]
        several = [move("ann", f"{name}{tick}", [1.0, 1.0]) for name in "xy"]
        kernel.step(1.0, [*batches, several])
    pack(log_of(records), folder / "good.pack")
    return (folder / "good.pack").read_bytes()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a decoded record, but not of the whole."""
    items = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def put(value: Any, at: Sequence[Any], new: object) -> None:
    for key in at[:-1]:
        value = value[key]
    value[at[-1]] = new


def forged(good: bytes, seed: int) -> bytes:
    """Return a pack of which one to three values are others; its hashes are right again."""
    source = random.Random(seed)
    held = decode_pack(good)
    records = [msgspec.msgpack.decode(data) for data in held.records]
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        record = source.choice(records)
        at = source.choice([one for one in places(record) if one != (1,)] or [(0,)])
        put(record, at, source.choice(VALUES))
    encoded: list[bytes] = []
    for record in records:
        if encoded and len(record) > 1 and isinstance(record[1], bytes):
            record[1] = record_hash(encoded[-1])
        encoded.append(msgspec.msgpack.encode(record))
    return encode_pack(msgspec.structs.replace(held, records=encoded))


def read_all(placet, good: bytes, seeds: Sequence[int]) -> None:
    (placet.folder / "good.pack").write_bytes(good)
    for seed in seeds:
        name = f"forged{seed}"
        (placet.folder / f"{name}.pack").write_bytes(forged(good, seed))
        for words in READING:
            arguments = [word.format(log=f"{name}.pack", name=name) for word in words]
            outcome = placet(*arguments)
            assert outcome.code in {0, 1, 2}, (seed, words)
            assert "Traceback" not in outcome.err, (seed, words)
            assert not set(outcome.out + outcome.err) & set("\x1b\0"), (seed, words)
    assert not list(Path(placet.folder.parent).glob("evil*"))


@pytest.mark.slow
def test_every_command_reads_a_forged_log_or_says_why_not(placet, good):
    read_all(placet, good, range(6))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 300, 50))
def test_every_command_reads_many_forged_logs_or_says_why_not(placet, good, first):
    read_all(placet, good, range(first, first + 50))
