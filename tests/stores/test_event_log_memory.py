"""The log in memory is full at a bound."""

import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.memory import MemoryEventLog


def test_a_full_log_refuses_appends_with_advice():
    log = MemoryEventLog(log_bytes_max=10)
    epoch = log.open()
    log.append(LogAppend(0, 0, 1, [b"12345", b"12345"]), epoch)
    with pytest.raises(StoreError) as caught:
        log.append(LogAppend(2, 1, 2, [b"6"]), epoch)
    assert str(caught.value) == (
        "the log in memory is full: limit 'log_bytes_max' allows 10 bytes, with this append it "
        "would be 11; raise the limit, or keep the log in a file: store='sqlite:///world.db'"
    )
    assert (caught.value.store, caught.value.seq) == ("memory://", 1)
    with pytest.raises(StoreError, match="earlier append failed"):
        log.append(LogAppend(2, 1, 2, [b""]), epoch)
    assert (log.count(), log.size_bytes()) == (2, 10)
