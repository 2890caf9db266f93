"""How long does the worst batch of each built-in kind hold the event loop?

    ./dev python benchmarks/bench_work.py [--repeats N] [--json]

For each kind: its worst intent alone, and 512 of it in one batch (fewer where it would exceed
`batch_bytes_max`), at the default limits. A batch holds the loop twice: while it is checked, and
while it is decided. Each is divided by the time of the reference loop (`placet_bench`) for a batch
of 512 `Move`, measured before and after the case. CPU time; the least of the repeats counts.

It does not show: JSON of a client, the store, a group of several batches, domains of others.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple

from placet.domains.accounts import Accounts
from placet.domains.accounts.domain import MANAGER
from placet.domains.accounts.payloads import DEPTH_MAX
from placet.domains.approvals import Approvals
from placet.domains.memory import Memory
from placet.domains.session import RECORDER, Sessions
from placet.domains.world import World
from placet.kernel import Domain, Kernel
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, PREVIEW, REQUESTS, SETTLE
from placet.kernel.plugin.approved import RECORDER as APPROVALS_RECORDER
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits
from placet_bench.reference_loop import ReferenceWorld, submit
from placet_bench.report import machine
from placet_design import Design
from placet_design.payloads import ACCESS_NAMES_MAX
from placet_files import Files
from placet_program import Program
from placet_tools.pinned import recorded_tools

MANY: Final = Limits().batch_intents_max
_WIRE_BYTES: Final = 2 * Limits().batch_bytes_max
_NUMBERS: Final = count(1)

Payload = dict[str, Json]
_NOBODY: Final[Mapping[str, Payload]] = MappingProxyType({})


class Case(NamedTuple):
    """One worst case: a kernel is made for each measurement, because a batch changes it.

    Attributes:
        kind: The kind.
        name: The case.
        kernel: Makes a world in the worst state.
        payload: Makes the payload of the n-th intent.
        agent_id: The agent that proposes it.
    """

    kind: str
    name: str
    kernel: Callable[[], Kernel]
    payload: Callable[[int], Payload]
    agent_id: str = "ann"


class Hold(NamedTuple):
    """How long one batch holds the loop, checked and decided, and its answer."""

    check: float
    decide: float
    answer: str


def intents(kind: str, agent_id: str, payloads: list[Payload], seq: int = 0) -> list[Payload]:
    """Make intents with new req_ids."""
    return [
        {
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": f"n:{next(_NUMBERS)}",
            "context_seq": seq,
            "priority": 10,
            "schema_version": "1.0.0",
        }
        for payload in payloads
    ]


def world_of(
    domain: Domain, agents: Mapping[str, Payload] = _NOBODY, *, effects: tuple[str, ...] = ()
) -> Kernel:
    """Make a world with the agent `ann`, and others with their attributes."""
    kernel = Kernel(domain)
    for name, attributes in {"ann": {}, **agents}.items():
        kernel.register_agent(name, **attributes)
    for effect in effects:
        kernel.change_executor(effect, 1_000_000)
    return kernel


def act(kernel: Kernel, kind: str, *payloads: Payload, agent_id: str = "ann") -> None:
    """Decide batches of one intent that prepare a state."""
    for payload in payloads:
        verdict = kernel.decide(intents(kind, agent_id, [payload], kernel.seq))
        assert verdict.admitted, verdict.refusals


def world_cases() -> Iterator[Case]:
    """Yield the cases of the domain `world`."""

    def narrow() -> Kernel:
        return world_of(World(bounds=[[0, 0], [9, 9]], max_step=20.0))

    def hoard() -> Kernel:
        lamps = {f"lamp_{n}": {"position": [0, 0]} for n in range(4_000)}
        kernel = world_of(World(objects=lamps))
        kernel.register_agent("bob", inventory=[f"lamp_{n}" for n in range(2_000)])
        return kernel

    def take(n: int) -> Payload:
        return {"target_id": f"lamp_{2_000 + n}", "interaction_type": "pickup"}

    def drop(n: int) -> Payload:
        return {"target_id": f"lamp_{2_000 + n}", "interaction_type": "drop"}

    plain = lambda: world_of(World())  # noqa: E731  # as short as what it makes
    yield Case("Move", "within bounds", narrow, lambda n: {"to": [n % 9, 1.5, 0.0]})
    yield Case("Move", "out of bounds", narrow, lambda _: {"to": [1e9, 0.0, 0.0]})
    yield Case("Move", "not a place", narrow, lambda _: {"to": ["x" * 1_000] * 3})
    yield Case("Speak", "long", plain, lambda _: {"text": "x" * 64_000})
    yield Case("Speak", "two bytes a letter", plain, lambda _: {"text": "é" * 32_000})
    yield Case("Interact", "full hands", hoard, take, "bob")
    yield Case("Interact", "not held", hoard, drop, "bob")
    yield Case(
        "Interact", "unknown", plain, lambda _: {"target_id": "a", "interaction_type": "x" * 64}
    )
    yield Case("Custom", "many numbers", plain, lambda _: {"action": "a", "more": [1] * 32_000})
    yield Case(
        "Custom",
        "many fields",
        plain,
        lambda _: {"action": "a", **{f"f{i}": i for i in range(6_000)}},
    )
    yield Case("Custom", "deep", plain, lambda _: {"action": "a", "more": nested(60)})
    yield Case("Custom", "too deep", plain, lambda _: {"action": "a", "more": nested(70)})


def nested(depth: int) -> Json:
    """Make an array in an array, and so on."""
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


def memory_cases() -> Iterator[Case]:
    """Yield the cases of the domain `memory`."""

    def full() -> Kernel:
        kernel = world_of(Memory())
        act(kernel, "memory.remember", *({"key": key(n), "value": "x" * 900} for n in range(64)))
        return kernel

    def key(n: int) -> str:
        return "a" * 50 + f"b{n % 64:02d}"

    yield Case("memory.remember", "replace", full, lambda n: {"key": key(n), "value": "x" * 1_000})
    yield Case(
        "memory.remember", "too large", full, lambda n: {"key": key(n), "value": [1] * 30_000}
    )
    yield Case("memory.forget", "unknown", full, lambda _: {"key": "a" * 60})


def session_cases() -> Iterator[Case]:
    """Yield the cases of the domain `session`, whose kinds are the recorder's."""

    def turn(n: int, text: str = "") -> Payload:
        return {
            "session": "s", "turn": n + 1, "agent": "ann", "mode": "m", "route": "agent",
            "message": text,
        }  # fmt: skip

    def grant(n: int) -> Payload:
        return {
            "grant": f"g{n}", "proposer": "ann", "kinds": "*", "equals": {}, "uses": 1_000,
            "seconds": 1e6, "by": "bob",
        }  # fmt: skip

    recorder: dict[str, Payload] = {RECORDER: {}}

    def opened(grants: int = 0) -> Kernel:
        kernel = world_of(Sessions(), recorder)
        act(kernel, "session.turn", turn(0), agent_id=RECORDER)
        for n in range(grants):
            act(kernel, "session.grant", grant(n), agent_id=RECORDER)
        return kernel

    def end(_: int) -> Payload:
        more = [{"more": [1] * 3_000}]
        return {"session": "s", "turn": 1, "outcome": "o", "stop": "s", "text": "", "results": more}

    ask = {"session": "s", "turn": 1, "attempt": 1, "adapter": "a", "digest": ""}
    yield Case("session.turn", "long", opened, lambda n: turn(n + 1, "x" * 32_000), RECORDER)
    yield Case("session.ask", "again", lambda: asking(opened()), lambda _: ask, RECORDER)
    yield Case("session.end", "many results", opened, end, RECORDER)
    yield Case(
        "session.grant", "half full", lambda: opened(grants=500), lambda n: grant(n + 500), RECORDER
    )
    yield Case(
        "session.grant", "full", lambda: opened(grants=1_024), lambda n: grant(n + 2_000), RECORDER
    )
    yield Case(
        "session.use",
        "one grant",
        lambda: opened(grants=9),
        lambda _: {"grant": "g1", "proposer": "ann", "uses": 1},
        RECORDER,
    )
    yield Case("session.guard", "another seq", opened, lambda _: {"seq": 1}, RECORDER)


def approvals_cases() -> Iterator[Case]:
    """Yield the cases of the domain `approvals`, whose kinds are the recorder's."""

    def request(n: int) -> Payload:
        intents = [
            {"agent": "ann", "key": f"k{n}-{k}", "kind": "x", "payload": {"n": n}}
            for k in range(510)
        ]
        return {
            "id": f"q{n}", "agent": "ann", "intents": intents, "about": {}, "risk": "low",
            "foreseen": "", "shown": [], "undecided": [[], []], "unshown": [], "role": "operator",
            "seconds": 1e6,
        }  # fmt: skip

    def decision(n: int) -> Payload:
        fields = {"by": "bob", "role": "operator", "digest": "", "reason": "", "id": f"q{n % 64}"}
        return {"decision": "stale", **fields}

    def amendment(n: int) -> Payload:
        fields = {"by": "bob", "role": "operator", "digest": digests[n % 64], "reason": ""}
        return {"id": f"q{n % 64}", **fields, "request": request(n + 64)}

    def settlement(n: int) -> Payload:
        about = {"effect": f"world/{n}/0", "kind": "x", "call": "k" * 128, "agent": "ann"}
        return {**about, "outcome": "done", "by": "bob", "reason": "r" * 2_000}

    def asked() -> Kernel:
        kernel = opened(64, kept=600)
        digests.extend(kernel.state[REQUESTS][f"q{n}"]["digest"] for n in range(64))
        return kernel

    def opened(requests: int, *, ended: bool = False, kept: int = 0) -> Kernel:
        kernel = world_of(Approvals(kept=max(1, kept, requests)), {APPROVALS_RECORDER: {}})
        for n in range(requests):
            act(kernel, ASK, request(n), agent_id=APPROVALS_RECORDER)
            if ended:
                act(kernel, DECIDE, decision(n), agent_id=APPROVALS_RECORDER)
        return kernel

    digests: list[str] = []
    recorder = APPROVALS_RECORDER
    yield Case(ASK, "the first", lambda: opened(0), request, recorder)
    yield Case(
        ASK, "drops one", lambda: opened(64, ended=True), lambda n: request(n + 64), recorder
    )
    yield Case(
        PREVIEW, "of a request", lambda: opened(64), lambda n: {"id": f"q{n % 64}"}, recorder
    )
    yield Case(DECIDE, "stale", lambda: opened(64), decision, recorder)
    yield Case(AMEND, "of a request", asked, amendment, recorder)
    yield Case(SETTLE, "the longest", lambda: opened(0), settlement, recorder)


def accounts_cases() -> Iterator[Case]:
    """Yield the cases of the domain `accounts`: a chain of eight accounts, all of them full."""
    last, units = f"a{DEPTH_MAX - 1}", [f"u{n}" for n in range(8)]

    def opened(reservations: int = 0) -> Kernel:
        chain = {
            f"a{n}": {
                "give": dict.fromkeys(units, 10**9),
                "refill": {unit: {"amount": 1, "seconds": 1.0} for unit in units},
                **({"parent": f"a{n - 1}"} if n else {}),
            }
            for n in range(DEPTH_MAX)
        }
        more: dict[str, Payload] = {f"b{n}": {"give": {}} for n in range(1_000)}
        kernel = world_of(Accounts(accounts={**chain, **more}), {MANAGER: {}})
        act(kernel, "account.reserve", *map(reserve, range(reservations)))
        return kernel

    def reserve(n: int) -> Payload:
        return {"account": last, "id": f"r{n}", "unit": units[n % 8], "amount": 1}

    def gift(n: int) -> Payload:
        return {"account": f"c{n}", "give": dict.fromkeys(units, 1), "parent": "a5"}

    yield Case("account.open", "many accounts", opened, gift, MANAGER)
    yield Case("account.reserve", "deep", opened, reserve)
    yield Case("account.settle", "deep", lambda: opened(600), lambda n: {"id": f"r{n}", "used": 2})
    yield Case("account.release", "deep", lambda: opened(600), lambda n: {"id": f"r{n}"})


def gateway_cases() -> Iterator[Case]:
    """Yield the cases of the domain of a gateway, whose own kinds are the recorder's."""
    domain = recorded_tools()
    recorder = domain.recorder

    def opened() -> Kernel:
        return world_of(recorded_tools(), {recorder: {}})

    def plan(n: int) -> Payload:
        return {"keys": [f"k{n}-{k}" for k in range(256)]}

    mark: dict[str, Json] = {"name": "m", "fields": {"order": "A"}}
    counted: Payload = {"marking": "m", "step": "add", "marks": [mark] * 256}
    refused = [{"key": "k", "tool": "t", "arguments": {}, "codes": ["c"], "message": "m"}] * 16
    tools = [f"tool_{n}" for n in range(1_024)]
    rows: tuple[tuple[str, str, Callable[[int], Payload]], ...] = (
        ("plan", "many calls", plan),
        ("undo", "unknown", lambda n: {"plan": f"k{n}-0", "key": f"k{n}-1"}),
        ("release", "unknown", lambda n: {"plan": f"k{n}-0"}),
        ("count_calls", "no policy", lambda _: counted),
        ("erase", "new subject", lambda n: {"subject": f"{n:016x}"}),
        ("refuse_calls", "many calls", lambda _: {"agent": "a", "calls": refused, "left_out": 1}),
        ("pin", "undeclared", lambda _: {"tools": tools}),
        ("note_time", "an opening", lambda n: {"at": f"2026-11-27T12:00:{n % 60:02d}+00:00"}),
    )
    for kind, name, payload in rows:
        yield Case(domain.kind_of(kind), name, opened, payload, recorder)


def asking(kernel: Kernel) -> Kernel:
    """Add the executor of the effect of `session.ask`."""
    kernel.change_executor("session.propose", 1_000_000)
    return kernel


def design_cases() -> Iterator[Case]:
    """Yield the cases of the domain `design`."""
    effects = ("design.run_phases", "design.export")

    def design() -> Kernel:
        return world_of(Design(), {"op": {"role": "operator"}}, effects=effects)

    def changed() -> Kernel:
        kernel = design()
        for n in range(600):
            act(kernel, "design.set", {"path": "hull.beam", "value": 10.0 + n % 7})
        return kernel

    def undone() -> Kernel:
        kernel = changed()
        for _ in range(520):
            act(kernel, "design.undo", {})
        return kernel

    def plan(n: int) -> Payload:
        return {"plan_id": f"p{n}", "intent_id": "i", "design_id": "d", "design_version_before": 0}

    def lock(n: int) -> Payload:
        return {"path": "hull.loa", "reason": "r" * 3_900, "for_s": n + 1.0}

    def move(to: str) -> Payload:
        return {"phase": "hull", "to": to, "source": "s"}

    def share(n: int) -> Payload:
        names = [f"{'a' * 116}{n % 1_000}{i:05}" for i in range(ACCESS_NAMES_MAX)]
        return {"owner": "operator", "editors": names, "readers": names}

    said = {"intent_id": "i", "design_id": "d", "intent_type": "x", "confidence": 0.5}
    bad = "hull.loa_propulsion.propeller_diameterm"
    rows: tuple[tuple[str, str, Callable[[], Kernel], Callable[[int], Payload]], ...] = (
        ("set", "clamped", design, lambda n: {"path": "hull.beam", "value": 1e9 + n, "unit": "ft"}),
        ("set", "unknown path", design, lambda _: {"path": bad * 3, "value": 1.0}),
        ("increase", "a little", changed, lambda _: {"path": "hull.beam", "amount": 0.001}),
        ("decrease", "a little", changed, lambda _: {"path": "hull.beam", "amount": 0.001}),
        ("lock", "a reason", design, lock),
        ("unlock", "free", design, lambda _: {"path": "hull.loa"}),
        ("request_clarification", "long", design, lambda _: {"message": "x" * 3_900}),
        ("noop", "nothing", design, lambda _: {}),
        ("create", "again", design, lambda _: {"design_id": "d", "name": "x" * 3_900}),
        ("undo", "600 commits", changed, lambda _: {}),
        ("redo", "500 commits", undone, lambda _: {}),
        ("assume", "unknown", design, lambda _: {"path": bad * 3, "value": 1.0}),
        ("transition", "illegal", design, lambda _: move("approved")),
        ("transition", "legal", design, lambda n: move(("skipped", "pending")[n % 2])),
        ("run_phases", "all", design, lambda _: {}),
        ("export", "json", changed, lambda _: {"format": "json"}),
        ("plan", "many", design, plan),
        ("intent", "long", design, lambda _: {**said, "raw_text": "x" * 3_900}),
    )  # fmt: skip
    for kind, name, kernel, payload in rows:
        yield Case(f"design.{kind}", name, kernel, payload)
    yield Case("design.set_access", "many agents", design, share, "op")


def files_cases() -> Iterator[Case]:
    """Yield the cases of the domain `files`."""
    kinds = ("files.create_file", "files.analyze_text", "files.inspect_zip")

    def files() -> Kernel:
        return world_of(Files(), effects=kinds)

    path = "/".join(["é" * 120] * 8)
    yield Case(kinds[0], "long paths", files, lambda n: {"filename": path + str(n), "content": ""})
    yield Case(kinds[0], "64 KiB", files, lambda n: {"filename": f"f{n}", "content": "x" * 60_000})
    yield Case(kinds[1], "long path", files, lambda _: {"path": path})
    yield Case(kinds[2], "not normal", files, lambda _: {"zip_path": "e\u0301" * 512})


def node(function: str, name: str, op: str, *inputs: str, **more: Json) -> Payload:
    """Make the mutation that puts a node."""
    made = {"op": op, "inputs": list(inputs), **more}
    return {"op": "set_node", "function": function, "name": name, "node": made}


def program_cases() -> Iterator[Case]:
    """Yield the cases of the domain `program`: 16 functions of 1 000 nodes, and one that recurs."""

    def small() -> Kernel:
        kernel = world_of(Program())
        params = [{"name": "n", "type": "int"}]
        act(kernel, "program.mutate_batch", {"mutations": [
            {"op": "add_function", "name": "loop", "params": params, "returns": "int"},
            node("loop", "n", "param", target="n"),
            node("loop", "zero", "const", value=0),
            node("loop", "one", "const", value=1),
            node("loop", "end", "le", "n", "zero"),
            node("loop", "less", "sub", "n", "one"),
            node("loop", "left", "call", "less", target="loop"),
            node("loop", "right", "call", "less", target="loop"),
            node("loop", "sum", "add", "left", "right"),
            node("loop", "result", "select", "end", "zero", "sum"),
            {"op": "set_result", "function": "loop", "node": "result"},
        ]})  # fmt: skip
        return kernel

    def large() -> Kernel:
        kernel = small()
        for f in range(16):
            name = f"f{f}"
            params = [{"name": "x", "type": "int"}]
            head = {"op": "add_function", "name": name, "params": params, "returns": "int"}
            first = node(name, "n0", "param", target="x")
            act(kernel, "program.mutate_batch", {"mutations": [head, first]})
            for start in range(1, 1_000, 111):
                numbers = range(start, start + 111)
                nodes = [node(name, f"n{n}", "add", f"n{n - 1}", "n0") for n in numbers]
                act(kernel, "program.mutate_batch", {"mutations": nodes})
            last = {"op": "set_result", "function": name, "node": "n999"}
            act(kernel, "program.mutate_batch", {"mutations": [last]})
        return kernel

    def edit(n: int) -> Payload:
        return {"mutations": [node(f"f{f}", f"z{n}", "const", value=1) for f in range(16)]}

    def remove(_: int) -> Payload:
        gone = [{"op": "remove_node", "function": "f1", "name": f"n{k}"} for k in range(600, 728)]
        return {"mutations": gone}

    def fuel(amount: int) -> Callable[[int], Payload]:
        return lambda _: {"function": "loop", "inputs": {"n": 150}, "fuel": amount}

    rows: tuple[tuple[str, str, Callable[[], Kernel], Callable[[int], Payload]], ...] = (
        ("mutate_batch", "16 functions", large, edit),
        ("mutate_batch", "128 nodes", large, remove),
        ("verify", "all", large, lambda _: {}),
        ("verify", "one", large, lambda _: {"function": "f1"}),
        ("compile", "1 000 nodes", large, lambda _: {"entry": "f1"}),
        ("simulate", "full fuel", small, fuel(100_000)),
        ("simulate", "fuel by default", small, fuel(4_000)),
        ("simulate", "1 000 nodes", large, lambda _: {"function": "f1", "inputs": {"x": 1}}),
        ("simulate", "unknown", large, lambda _: {"function": "f" * 48}),
        ("inspect", "search", large, lambda _: {"what": "search", "text": "zzz"}),
        ("inspect", "function", large, lambda _: {"what": "function", "function": "f1"}),
        ("inspect", "node", large, lambda _: {"what": "node", "function": "f1", "node": "n999"}),
        ("history_query", "list", large, lambda _: {"op": "list"}),
        ("history_query", "diff", large, lambda _: {"op": "diff"}),
        ("restore", "all", large, lambda _: {"to_seq": 60}),
    )  # fmt: skip
    for kind, name, kernel, payload in rows:
        yield Case(f"program.{kind}", name, kernel, payload)


def all_cases() -> Iterator[Case]:
    """Yield every case; each built-in kind has one at least."""
    yield from world_cases()
    yield from memory_cases()
    yield from session_cases()
    yield from approvals_cases()
    yield from accounts_cases()
    yield from gateway_cases()
    yield from design_cases()
    yield from files_cases()
    yield from program_cases()


def hold_of(case: Case, intents_max: int) -> Hold:
    """Check and decide one batch of a case, and time both."""
    kernel = case.kernel()
    size = len(json.dumps(case.payload(0))) + 200
    many = max(1, min(intents_max, _WIRE_BYTES // size))
    payloads = [case.payload(n) for n in range(many)]
    batch = intents(case.kind, case.agent_id, payloads, kernel.seq)
    kernel.decide_checked((), 0)  # the registrations' undo lists are freed
    begun = time.process_time()
    checked = kernel.check(batch, OPERATOR)
    middle = time.process_time()
    if not isinstance(checked, CheckedBatch):
        return Hold(middle - begun, 0.0, checked.codes[0])
    ((_, verdict),) = kernel.decide_checked((checked,), 0).answers
    answer = "admitted" if verdict.admitted else verdict.codes[0]
    return Hold(middle - begun, time.process_time() - middle, answer)


def reference_seconds(repeats: int = 5) -> float:
    """Return the least CPU time of the reference loop for one batch of 512 `Move`."""
    world = ReferenceWorld(
        ["ann"], frozenset({"Move"}), side=9.0, interval_ns=1, burst=10**9,
        threshold=10**9, window_ids=1_024,
    )  # fmt: skip
    times = []
    for repeat in range(repeats):
        batch = intents("Move", "ann", [{"to": [1.0, 2.0, 0.0]}] * MANY)
        begun = time.process_time()
        submit(world, batch, "ann", repeat * 10**9)
        times.append(time.process_time() - begun)
    return min(times)


def measure(case: Case, intents_max: int, repeats: int) -> Hold:
    """Return the least times of several measurements of a case, as multiples of the reference."""
    before = reference_seconds()
    holds = [hold_of(case, intents_max) for _ in range(repeats)]
    reference = (before + reference_seconds()) / 2
    check, decide = min(h.check for h in holds), min(h.decide for h in holds)
    return Hold(check / reference, decide / reference, holds[0].answer)


def main() -> None:
    """Print a row for each case, as multiples of the reference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Json]] = []
    for case in all_cases():
        for many in (1, MANY):
            hold = measure(case, many, options.repeats)
            rows.append(
                {
                    "kind": case.kind,
                    "case": case.name,
                    "intents": many,
                    "check": round(hold.check, 2),
                    "decide": round(hold.decide, 2),
                    "answer": hold.answer,
                }
            )
            if not options.json:
                print(
                    "{kind:26} {case:20} {intents:4} {check:7} {decide:7}  {answer}".format(
                        **rows[-1]
                    )
                )
    reference_ms = reference_seconds() * 1e3
    worst = max(max(row["check"], row["decide"]) for row in rows)
    if options.json:
        print(json.dumps({"machine": machine(), "reference_ms": reference_ms, "rows": rows}))
    else:
        print(f"worst {worst}; reference {reference_ms:.2f} ms; {machine()}")


if __name__ == "__main__":
    main()
