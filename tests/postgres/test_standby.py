"""A standby takes over from a primary that was killed or has no heartbeat (G2, G18, G19).

The clients remember every answer; whoever takes over must know it, and nothing may be done twice.
"""

import json
import signal
from statistics import median
from threading import Event
from time import monotonic
from typing import Final

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.snapshots.standby import Standby
from placet.stores.url import open_event_log
from tests.crash import audit
from tests.crash.load_scenario import config_of
from tests.crash.process_forker import ChildProcess, Message, ProcessForker
from tests.crash.single_client import config_of as config_of_client
from tests.kernel.domains import Lab
from tests.postgres.server import Server

TAKEOVERS: Final = 50
TAKEOVER_SECONDS_MAX: Final = 5.0
LOAD_SECONDS: Final = 0.15
NOTICED_SECONDS_MAX: Final = 60


def until_taken(standby: Standby) -> None:
    """Look until the server has noticed that the writer is gone."""
    latest = monotonic() + NOTICED_SECONDS_MAX
    while not standby.look():
        assert monotonic() < latest, "the fence is not free"
        Event().wait(0.01)


class Line:
    """A line of primaries, each the heir of the one before.

    Attributes:
        messages: What all of them messages, in order.
        seconds: From each kill until the heir had opened the world.
    """

    def __init__(self, forker: ProcessForker, url: str, folder) -> None:
        self._zygote = forker
        self._url = url
        self._folder = folder
        self._begin: dict[str, int] = {}
        self._count = 0
        self.messages: list[Message] = []
        self.seconds: list[float] = []
        self.primary = self.stand_by()
        self.let_begin()
        self.primary.wait_for("answer")

    def stand_by(self) -> ChildProcess:
        self._count += 1
        heir = self._zygote.fork(
            "tests.postgres.heir:run",
            store=self._url,
            seed=7,
            begin_file=str(self._begin_file),
        )
        heir.wait_for("standing by")
        return heir

    @property
    def _begin_file(self):
        return self._folder / f"begin-{self._count}"

    def let_begin(self) -> None:
        draft = self._folder / "draft"
        draft.write_text(json.dumps(self._begin))
        draft.rename(self._begin_file)

    def succeed(self) -> None:
        """Kill the primary under load, and continue with its standby."""
        heir = self.stand_by()
        self.primary.listen_for(LOAD_SECONDS)
        killed_at = monotonic()
        self.receive(self.primary.kill())
        heir.wait_for("opened")
        self.seconds.append(monotonic() - killed_at)
        self.primary = heir
        self.let_begin()
        heir.wait_for("answer")

    def receive(self, messages: list[Message]) -> None:
        self.messages += messages
        for line in messages:
            if line["what"] == "answer":
                self._begin[line["by"]] = line["n"] + 1

    def complaints(self) -> list[str]:
        config = config_of(self._url).kernel_config()
        return audit.audit(self._url, config, self.messages)


def succeed(forker: ProcessForker, url: str, folder, takeovers: int) -> Line:
    line = Line(forker, url, folder)
    for _ in range(takeovers):
        line.succeed()
    line.receive(line.primary.kill())
    return line


@pytest.mark.slow
def test_a_takeover_loses_no_answer(postgres, forker, tmp_path):
    line = succeed(forker, postgres.url(), tmp_path, 3)
    assert line.complaints() == []
    assert max(line.seconds) < TAKEOVER_SECONDS_MAX


@pytest.mark.soak
def test_fifty_takeovers_in_a_row_lose_nothing(postgres, forker, tmp_path, record_property):
    line = succeed(forker, postgres.url(), tmp_path, TAKEOVERS)
    assert line.complaints() == []
    answers = sum(one["what"] == "answer" for one in line.messages)
    record_property(
        "figures",
        f"{TAKEOVERS} takeovers, {answers} answers; seconds until the heir was open: median "
        f"{median(line.seconds):.3f}, longest {max(line.seconds):.3f}",
    )
    assert max(line.seconds) < TAKEOVER_SECONDS_MAX


@pytest.mark.slow
def test_a_stopped_primary_loses_its_lock_and_writes_nothing_more(postgres, forker, tmp_path):
    """A paused process keeps its session: it is the lease that ends it, and then the epoch."""
    url = postgres.url(lease_s=1.5)
    zombie = forker.fork("tests.crash.single_client:run", store=url, name="zombie")
    zombie.wait_for("answer")
    zombie.stop()
    stopped_at = monotonic()
    begin = tmp_path / "begin"
    heir = forker.fork("tests.postgres.heir:run", store=url, seed=7, begin_file=str(begin))
    heir.wait_for("opened")
    seconds = monotonic() - stopped_at
    zombie.signal(signal.SIGCONT)
    messages = zombie.wait()
    heir.kill()
    failures = [line["message"] for line in messages if line["what"] == "failed"]
    assert len(failures) == 1
    assert "this writer is fenced, it holds epoch 1 and the latest is 2" in failures[0]
    assert seconds < TAKEOVER_SECONDS_MAX
    assert audit.audit(url, config_of_client(url).kernel_config(), messages) == []
    assert audit.ghosts(url, messages) == []


def test_a_standby_has_the_world_before_it_has_the_fence(postgres):
    url = postgres.url()
    writer, standby = open_event_log(url), Standby(open_event_log(url))
    epoch = writer.open()
    assert not standby.look()
    assert standby.recovery is not None
    assert standby.recovery.past.journal.count == 0
    writer.close()
    until_taken(standby)
    assert epoch + 1 == standby.log.open()
    standby.log.close()


async def test_a_standby_folds_the_records_of_its_primary(postgres):
    url = postgres.url()
    config = OrchestratorConfig(store=url, snapshot_every_seqs=None)
    standby = Standby(open_event_log(url))
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("ada")
        assert not standby.look()
        await world.register_agent("ben")
        assert not standby.look()
        assert standby.recovery is not None
        assert set(standby.recovery.past.ledger.agents) >= {"ada", "ben"}
        assert standby.recovery.folded == world.records
    standby.log.close()


@pytest.mark.slow
def test_a_standby_reconnects_after_its_server_restarted(postgres):
    with Server(postgres.programs) as server:
        url = server.url()
        log = open_event_log(url)
        epoch = log.open()
        standby = Standby(open_event_log(url))
        assert not standby.look()
        server.stop()
        assert not standby.look()
        assert standby.recovery is None
        assert not standby.look()
        assert "cannot be reached" in str(standby.failure)
        server.start()
        with pytest.raises(StoreError):
            log.append(LogAppend(0, 0, 1, [b"x"]), epoch)
        log.close()
        until_taken(standby)
        assert standby.failure is None
        standby.log.close()


async def test_a_store_without_a_lock_has_no_standby(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path}/a.db", standby=True)
    with pytest.raises(StoreError, match=r"cannot stand by.*postgresql://"):
        async with Orchestrator(Lab(), config):
            pass
