"""A log whose world may not be named so today is verified, replayed, continued and forked."""

import pytest

from placet.history.reader import fold
from placet.history.verify_log import verify_log
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.schemas.names import path_part_fault
from placet.stores.url import open_event_log
from tests.history.forks import DOMAINS, kernel_in, log_of, make_fork, records_in
from tests.kernel.builders import kernel_of
from tests.kernel.domains import THINGS

OLD_NAMES = ["a/b", ".hid", "con", "x ", "caf\u00ade"]
EACH_NAME = pytest.mark.parametrize("name", OLD_NAMES)


def begun_before(name: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Make the log of a world as a release without the rule for names did."""
    log: list[bytes] = []
    with monkeypatch.context() as before:
        before.setattr("placet.kernel.kernel.require_world_name", lambda _: None)
        kernel_of(DOMAINS, sink=log, world=name)
    return log


@EACH_NAME
def test_a_world_with_an_old_name_is_verified_replayed_and_continued(name, monkeypatch):
    log = begun_before(name, monkeypatch)
    checked = verify_log(log_of(log), DOMAINS)
    assert checked.integrity.is_ok
    assert checked.unverified == ()
    header = fold(log_of(log)).header
    assert header is not None
    assert header.world == name
    continued = Kernel(DOMAINS, KernelConfig(world=name), history=folded(log), sink=log.append)
    continued.register_agent("zoe")
    assert verify_log(log_of(log), DOMAINS).integrity.is_ok
    with pytest.raises(ValueError, match="name of a world must"):
        Kernel(DOMAINS, KernelConfig(world=name))


@EACH_NAME
def test_a_fork_of_a_world_with_an_old_name_gets_a_name_of_today(name, monkeypatch, tmp_path):
    log = begun_before(name, monkeypatch)
    made = make_fork(log, tmp_path, put={f"{THINGS}/new": {}})
    assert not path_part_fault(made.world)
    assert made.parent == name
    assert kernel_in(made).tree.exists(THINGS, "new")
    assert verify_log(open_event_log(made.store), DOMAINS).integrity.is_ok
    with pytest.raises(ValueError, match="needs another name"):
        make_fork(log, tmp_path, name="g.db", world=f"{name}\t")


@EACH_NAME
@pytest.mark.parametrize("put", [{}, {f"{THINGS}/new": {}}])
def test_a_fork_with_an_old_name_is_verified_continued_and_forked(name, put, monkeypatch, tmp_path):
    log: list[bytes] = []
    kernel_of(DOMAINS, sink=log)
    with monkeypatch.context() as before:
        before.setattr("placet.history.fork.require_fork", lambda *_: None)
        made = make_fork(log, tmp_path, world=name, put=put)
    assert made.world == name
    assert verify_log(open_event_log(made.store), DOMAINS).integrity.is_ok
    kernel_in(made).register_agent("zoe")
    again = make_fork(records_in(made.store), tmp_path, name="g.db", dropped=["bob"])
    assert verify_log(open_event_log(again.store), DOMAINS).integrity.is_ok
