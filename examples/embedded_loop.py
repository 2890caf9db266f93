"""The kernel in a 60 Hz loop of one's own, with no event loop: `python embedded_loop.py 300 100`.

Each frame every player proposes a step, the kernel decides them all, and the loop asks for the
digest, as a game in lockstep would. At the end it says what that took of the frame.
"""

import sys
from time import perf_counter, sleep

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.schemas.verdict import Verdict

FRAME_S = 1 / 60


class Player:
    """Walks around a square, and takes a refusal as a sign to turn."""

    def __init__(self, kernel: Kernel, name: str, at: tuple[int, int]) -> None:
        self.kernel, self.name, self.sent = kernel, name, 0
        self.way = [(1, 0), (0, 1), (-1, 0), (0, -1)]
        kernel.register_agent(name, position=list(at))

    def propose(self) -> list[dict[str, object]]:
        x, y, _ = self.kernel.tree.get("world.agents", self.name, "position")
        dx, dy = self.way[0]
        self.sent += 1
        move: dict[str, object] = {"kind": "Move", "payload": {"to": [x + dx, y + dy]}}
        move |= {"agent_id": self.name, "req_id": f"{self.name}:{self.sent}"}
        return [move | {"context_seq": self.kernel.seq, "priority": 10, "schema_version": "1.0.0"}]

    def hear(self, verdict: Verdict) -> None:
        if not verdict.admitted:  # such as world.out_of_bounds
            self.way = [*self.way[1:], self.way[0]]


class Budget:
    """What a part of the frame took, in milliseconds."""

    def __init__(self) -> None:
        self.spent_ms: list[float] = []

    def __enter__(self) -> None:
        self.began = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.spent_ms.append(1000 * (perf_counter() - self.began))

    def __str__(self) -> str:
        ordered = sorted(self.spent_ms)
        return f"median {ordered[len(ordered) // 2]:6.3f} ms, worst {ordered[-1]:6.3f} ms"


def run(frames: int, players_count: int) -> None:
    kernel = Kernel(World(bounds=[[0, 0], [40, 40]], max_step=1.0), KernelConfig(seed=7))
    players = [Player(kernel, f"player_{n}", (n % 40, n // 40 % 40)) for n in range(players_count)]
    decide, digest, left = Budget(), Budget(), Budget()
    late = refused = 0
    due = perf_counter() + FRAME_S
    for _ in range(frames):
        batches = [player.propose() for player in players]  # a game reads its inputs here
        with decide:
            verdicts = kernel.step(FRAME_S, batches)
        with digest:
            kernel.digest()
        for player, verdict in zip(players, verdicts, strict=True):
            player.hear(verdict)
            refused += not verdict.admitted
        with left:  # ... and draws here
            if (rest := due - perf_counter()) > 0:
                sleep(rest)
            else:
                late += 1
        due = max(due + FRAME_S, perf_counter())
    print(f"{frames} frames of {1000 * FRAME_S:.2f} ms, {players_count} intents in each")
    print(f"  decide  {decide}\n  digest  {digest}\n  left    {left}")
    print(f"  {late} frames late, {refused} intents refused, digest {kernel.digest()}")


if __name__ == "__main__":
    try:
        arguments = [int(argument) for argument in sys.argv[1:]] or [120, 100]
    except ValueError:
        arguments = []
    if len(arguments) != 2 or min(arguments) < 1:
        sys.exit("usage: python embedded_loop.py FRAMES PLAYERS, each at least 1")
    run(*arguments)
