"""Two processes write to one store: the newer one wins, and the older one finds out (G18, G2).

From the moment at which the second has opened the log, the first gets nothing into it: its next
commit fails, and what it could not commit is not there. A process that was stopped and goes on
hours later, a zombie, is no other than that.
"""

import signal
from collections.abc import Iterable

import pytest

from tests.crash import audit
from tests.crash.process_forker import Life, Told, Zygote
from tests.crash.single_client import config_of

CLERK = "tests.crash.single_client:live"
HANDOVERS = 12


class Store:
    """One store and the clerks that worked on it, one after the other or at a time."""

    def __init__(self, zygote: Zygote, url: str) -> None:
        self._zygote = zygote
        self._url = url
        self._lives: list[Life] = []

    def open(self, **how: object) -> Life:
        """Start a clerk and wait until it has taken the fence."""
        name = f"writer{len(self._lives)}"
        life = self._zygote.fork(CLERK, store=self._url, name=name, **how)
        self._lives.append(life)
        life.wait_for("opened")
        return life

    def close(self) -> None:
        for life in self._lives:
            life.kill()

    def complaints(self) -> list[str]:
        """Audit what all clerks were told; and nothing that failed may be in the log."""
        told = [line for life in self._lives for line in life.told]
        config = config_of(self._url).kernel_config()
        return [*audit.audit(self._url, config, told), *audit.ghosts(self._url, told)]


@pytest.fixture
def store(zygote, folder):
    store = Store(zygote, f"sqlite:///{folder}/a.db")
    yield store
    store.close()


def is_fenced(told: Iterable[Told]) -> bool:
    return any(
        line["what"] == "failed" and "this writer is fenced" in line["message"] for line in told
    )


def answers_of(life: Life) -> int:
    return sum(line["what"] == "answer" for line in life.told)


def test_the_first_of_two_writers_is_fenced(store):
    first = store.open()
    first.wait_for("answer")
    second = store.open()
    assert is_fenced(first.wait())
    second.wait_for("answer")
    second.kill()
    assert store.complaints() == []


@pytest.mark.slow
def test_writers_that_take_over_from_each_other_lose_nothing(store):
    lives = [store.open()]
    for _ in range(HANDOVERS):
        lives[-1].listen_for(0.03)
        lives.append(store.open())
        assert is_fenced(lives[-2].wait())
    lives[-1].wait_for("answer")
    lives[-1].kill()
    assert store.complaints() == []
    assert sum(map(answers_of, lives)) > HANDOVERS


def zombie_and_heir(store: Store, plant: str | None = None) -> tuple[Life, Life]:
    """Stop a writer in its tracks, and start another one, which keeps silent."""
    while True:
        zombie = store.open(plant=plant)
        zombie.wait_for("answer")
        zombie.stop()
        try:
            return zombie, store.open(batches=0)
        except AssertionError:  # it was stopped while it held the lock, which the other one says
            zombie.kill()


@pytest.mark.parametrize("round_", range(3))
def test_a_zombie_writes_nothing_more(store, round_):
    zombie, heir = zombie_and_heir(store)
    before = answers_of(zombie)
    zombie.signal(signal.SIGCONT)
    assert is_fenced(zombie.wait())
    # It may have been stopped between the commit and the telling.
    assert answers_of(zombie) <= before + 1
    assert not heir.is_over
    assert store.complaints() == []


def test_a_zombie_that_is_not_fenced_is_found(store):
    """The control: without the fence it goes on writing as long as the other one is silent."""
    zombie, _ = zombie_and_heir(store, "write_unfenced")
    before = answers_of(zombie)
    zombie.signal(signal.SIGCONT)
    for _ in range(2):
        zombie.wait_for("answer")
    assert answers_of(zombie) > before + 1
