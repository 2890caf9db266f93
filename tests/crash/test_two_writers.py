"""Two processes write to one store: the newer one fences the older one (G18, G2).

From the moment at which the second has opened the log, the first gets nothing into it: its next
commit fails, and what it could not commit is not there. A process that was stopped and goes on
hours later, a zombie, is no other than that.
"""

import signal
from collections.abc import Iterable

import pytest

from tests.crash import audit
from tests.crash.process_forker import ChildProcess, Message, ProcessForker
from tests.crash.single_client import config_of

CLIENT = "tests.crash.single_client:run"


class Store:
    """One store and the clients that worked on it, one after the other or at a time."""

    def __init__(self, forker: ProcessForker, url: str) -> None:
        self._zygote = forker
        self._url = url
        self._children: list[ChildProcess] = []

    def open(self, **how: object) -> ChildProcess:
        """Start a client and wait until it has taken the fence."""
        name = f"writer{len(self._children)}"
        child = self._zygote.fork(CLIENT, store=self._url, name=name, **how)
        self._children.append(child)
        child.wait_for("opened")
        return child

    def close(self) -> None:
        for child in self._children:
            child.kill()

    def complaints(self) -> list[str]:
        """Audit all messages; no batch that failed may be in the log."""
        messages = [line for child in self._children for line in child.messages]
        config = config_of(self._url).kernel_config()
        return [*audit.audit(self._url, config, messages), *audit.ghosts(self._url, messages)]


@pytest.fixture
def store(forker, folder):
    store = Store(forker, f"sqlite:///{folder}/a.db")
    yield store
    store.close()


def is_fenced(messages: Iterable[Message]) -> bool:
    return any(
        line["what"] == "failed" and "this writer is fenced" in line["message"] for line in messages
    )


def answers_of(child: ChildProcess) -> int:
    return sum(line["what"] == "answer" for line in child.messages)


@pytest.mark.slow
def test_the_first_of_two_writers_is_fenced(store):
    first = store.open()
    first.wait_for("answer")
    second = store.open()
    assert is_fenced(first.wait())
    second.wait_for("answer")
    second.kill()
    assert store.complaints() == []


@pytest.mark.parametrize(
    "handovers", [pytest.param(3, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.soak)]
)
def test_writers_that_take_over_from_each_other_lose_nothing(store, handovers):
    children = [store.open()]
    for _ in range(handovers):
        children[-1].listen_for(0.03)
        children.append(store.open())
        assert is_fenced(children[-2].wait())
    children[-1].wait_for("answer")
    children[-1].kill()
    assert store.complaints() == []
    assert sum(map(answers_of, children)) > handovers


def zombie_and_heir(store: Store, plant: str | None = None) -> tuple[ChildProcess, ChildProcess]:
    """Stop a writer in its tracks, and start another one, which keeps silent."""
    while True:
        zombie = store.open(plant=plant)
        zombie.wait_for("answer")
        zombie.stop()
        try:
            return zombie, store.open(batches=0)
        except AssertionError:  # it was stopped while it held the lock, which the other one says
            zombie.kill()


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_zombie_without_a_fence_is_found(store):
    """The control: without the fence it goes on writing as long as the other one is silent."""
    zombie, _ = zombie_and_heir(store, "write_unfenced")
    before = answers_of(zombie)
    zombie.signal(signal.SIGCONT)
    for _ in range(2):
        zombie.wait_for("answer")
    assert answers_of(zombie) > before + 1
