"""The clients' history: each request, its answers, and the checks that follow from them."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict
from tests.simulation.durable_log import Archive, Findings, Key, LoggedRequest
from tests.simulation.swarm import Swarm


class ClientAnswer(NamedTuple):
    """The promised parts of an answer."""

    admitted: bool
    scheduled: bool
    seq: int | None
    seqs: tuple[int, ...]
    codes: tuple[str, ...]

    @classmethod
    def by(cls, verdict: Verdict) -> "ClientAnswer":
        seqs = tuple(result.seq for result in verdict.results if result.seq is not None)
        flags = (verdict.admitted, verdict.scheduled)
        return cls(*flags, verdict.seq, seqs, tuple(sorted(verdict.codes)))


class Request:
    """A batch of a client and its answers.

    Attributes:
        intents: Its content.
        options: What else stands in the batch.
        posts: Numbers of the attempts, in the order in which all clients posted.
        kept: The final answer, once there is one.
        kept_at: Where that was decided, as `_place` says.
        silent: Attempts that were not answered.
        is_own: It is of one agent, submitted by its handle, and not scheduled.
        is_void: Its agent was removed, and its answers with it.
    """

    def __init__(self, intents: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
        self.intents = list(intents)
        self.options = dict(options)
        self.posts: list[int] = []
        self.kept: ClientAnswer | None = None
        self.kept_at = (0, 0)
        self.silent = 0
        self.is_own = not options.keys() & {"sim_time", "dry_run"}
        self.is_void = False

    @property
    def batch(self) -> dict[str, Any]:
        return {"intents": self.intents, **self.options}

    @property
    def keys(self) -> list[Key]:
        return [(intent["agent_id"], intent["req_id"]) for intent in self.intents]

    @property
    def is_dry(self) -> bool:
        return bool(self.options.get("dry_run"))


class Memory:
    """All requests of all clients, and the checks of each answer."""

    def __init__(self, archive: Archive, findings: Findings, swarm: Swarm) -> None:
        self.archive = archive
        self.findings = findings
        self.quotas = swarm.config.quotas
        self.is_one_quota = len(self.quotas) == 1 and swarm.config.world_quota is None
        self.is_forgetful = swarm.is_forgetful
        self.requests: list[Request] = []
        self.posts = 0
        self.trace: list[str] = []
        self.outcomes: dict[str, int] = {}

    def ask(self, intents: Sequence[Mapping[str, Any]], **options: Any) -> Request:
        request = Request(intents, options)
        self.requests.append(request)
        return request

    def forget(self, agent: str) -> None:
        """Forget the requests of a removed agent."""
        for request in self.requests:
            request.is_void = request.is_void or any(agent == name for name, _ in request.keys)

    def post(self, request: Request) -> None:
        self.posts += 1
        request.posts.append(self.posts)
        request.silent += 1

    def note(self, request: Request, verdict: Verdict) -> None:
        """Record an answer, and check it against the durable log at this moment."""
        request.silent -= 1
        answer = ClientAnswer.by(verdict)
        for name in answer.codes or ("admitted",):
            self.outcomes[name] = self.outcomes.get(name, 0) + 1
        self.trace.append(f"{request.keys} {answer} {verdict.current_seq}")
        expect = self.findings.expect
        latest = max(verdict.current_seq, verdict.seq or 0) if not verdict.dry_run else 0
        expect(latest <= self.archive.seq, "G2", f"{verdict} of {request.keys} is not durable")
        if verdict.admitted:
            ids = [req_id for _, req_id in request.keys]
            expect(verdict.req_ids == ids, "G4", f"{verdict.req_ids} answers {ids}")
        if verdict.dry_run or request.is_void:
            return
        self._check_retry(request, verdict)
        if is_kept(verdict):
            self._check_durable(request, answer)
            self._check_same(request, answer)
            if request.kept is None:
                request.kept_at = _place(verdict)
            request.kept = answer
        elif self.is_forgetful and "req_id_too_old" in answer.codes:
            return
        elif request.kept is not None and request.kept_at < _place(verdict):
            before = {r.stage.value for r in verdict.refusals} <= {"admission", "agent"}
            expect(before, "G5", f"{request.keys} was {request.kept}, and then {answer}")
        else:
            reused = {"req_id_reused", "req_id_too_old"} & set(answer.codes)
            expect(not reused, "G5", f"{request.keys} was new, and {answer}")

    def note_altered(self, request: Request, verdict: Verdict) -> None:
        """Take in the answer to another content under the same ids."""
        stages = {refusal.stage.value for refusal in verdict.refusals}
        expected = {"req_id_reused", *(["req_id_too_old"] if self.is_forgetful else [])}
        is_refused = expected & set(verdict.codes) or stages & {"admission", "agent"}
        self.findings.expect(is_refused, "G5", f"altered {request.keys} got {verdict}")

    def check_asked(self, key: Key, verdict: Verdict) -> None:
        """Check the answer of `verdict_of` against the durable log at this moment."""
        answer, logged = (
            ClientAnswer.by(verdict),
            self.archive.logged_requests.get(key, LoggedRequest()),
        )
        seqs_of_key = [seq for seq in answer.seqs if seq in logged.seqs]
        is_there = answer.seq in logged.scheduled if answer.scheduled else bool(seqs_of_key)
        is_there = is_there or (not answer.admitted and answer.codes in logged.refusals)
        self.findings.expect(
            is_there, "G2", f"{key} was answered {answer}, which is not in the log"
        )

    def _check_durable(self, request: Request, answer: ClientAnswer) -> None:
        logged_requests = [
            self.archive.logged_requests.get(key, LoggedRequest()) for key in request.keys
        ]
        expect, text = self.findings.expect, f"{answer} of {request.keys} is not in the log"
        if answer.scheduled:
            expect(all(answer.seq in logged.scheduled for logged in logged_requests), "G2", text)
        elif answer.admitted:
            pairs = zip(answer.seqs, logged_requests, strict=True)
            expect(all(seq in logged.seqs for seq, logged in pairs), "G2", text)
        else:
            expect(all(answer.codes in logged.refusals for logged in logged_requests), "G2", text)

    def _check_same(self, request: Request, answer: ClientAnswer) -> None:
        before = request.kept
        if before is None or before == answer or (before.scheduled and not answer.scheduled):
            return
        if answer.scheduled and not before.scheduled:  # an older answer, received later
            return
        self.findings.expect(False, "G5", f"{request.keys} was {before}, and then {answer}")

    def _check_retry(self, request: Request, verdict: Verdict) -> None:
        """A quota's `retry_after` is enough, and no more than that: by the law of the windows."""
        waits, kinds = [], {(intent["agent_id"], intent["kind"]) for intent in request.intents}
        if verdict.codes == () or set(verdict.codes) != {"quota_exceeded"} or len(kinds) != 1:
            return
        bucket = kinds.pop()
        quota = self.quotas.get(bucket[1])
        if quota is None or not self.is_one_quota:
            return
        interval, total = ceil(SECOND_NS / quota["rate"]), len(request.intents)
        now_ns = round(verdict.sim_time * SECOND_NS)
        for at_ns, before, count in reversed(self.archive.charges.get(bucket, [])):
            if before < verdict.current_seq:
                total += count
                waits.append(at_ns + (total - quota["burst"]) * interval - now_ns)
        wait, said = max(waits, default=0) / SECOND_NS, verdict.refusals[0].retry_after
        is_tight = said is not None and abs(wait - said) < 1e-3
        self.findings.expect(is_tight, "G11", f"retry_after is {said}, the log says {wait}")

    # at the end

    def check_all(self) -> None:
        """Check the whole log against the answers of all clients."""
        expect, logged_requests = self.findings.expect, self.archive.logged_requests
        for request in self.requests:
            if request.is_void:
                continue
            logged_each = [logged_requests.get(key, LoggedRequest()) for key in request.keys]
            seqs = {len(logged.seqs) for logged in logged_each}
            expect(len(seqs) == 1, "G3", f"a part of {request.keys} was admitted")
            expect(seqs <= {0, 1}, "G5", f"{request.keys} was admitted {seqs} times")
            is_logged = any(logged.records for logged in logged_each)
            if request.kept is None and not request.silent:
                expect(not is_logged, "G6", f"{request.keys} left a record without an answer")
            if request.is_dry:
                expect(not is_logged, "G10", f"the dry run {request.keys} is in the log")
            if request.kept is not None:
                expect(is_logged, "G19", f"{request.kept} of {request.keys} was lost")
                if request.kept.admitted and not request.kept.scheduled:
                    is_there = [logged.seqs for logged in logged_each] == [
                        [seq] for seq in request.kept.seqs
                    ]
                    expect(is_there, "G19", f"{request.kept} of {request.keys} has moved")
        self._check_own_order()
        self._check_quotas()

    def _check_own_order(self) -> None:
        by_agent: dict[str, list[tuple[int, int, int]]] = {}
        for request in self.requests:
            logged = self.archive.logged_requests.get(request.keys[0]) if request.intents else None
            if logged is None or not logged.records or not request.is_own or request.is_void:
                continue
            agent = request.intents[0]["agent_id"]
            place = (request.posts[0], request.posts[-1], logged.records[0])
            by_agent.setdefault(agent, []).append(place)
        for agent, places in by_agent.items():
            places.sort(key=lambda place: place[2])
            for number, (first, _, record) in enumerate(places):
                overtaken = [p for p in places[number + 1 :] if p[1] < first]
                text = f"{agent}: record {record} came before one of a batch posted earlier"
                self.findings.expect(not overtaken, "G4", text)

    def _check_quotas(self) -> None:
        for (agent, kind), charges in self.archive.charges.items():
            quota = self.quotas.get(kind)
            if quota is None:
                continue
            for first in range(len(charges)):
                total = 0
                for at_ns, _, count in charges[first:]:
                    total += count
                    seconds = (at_ns - charges[first][0]) / SECOND_NS
                    most = quota["burst"] + quota["rate"] * seconds + 1e-6
                    text = f"{agent} had {total} {kind} in {seconds} s, at most {most} are allowed"
                    self.findings.expect(total <= most, "G11", text)


def is_kept(verdict: Verdict) -> bool:
    """Return whether an answer is final."""
    return verdict.admitted or verdict.refusals[0].stage.value in {"staleness", "domain"}


def _place(verdict: Verdict) -> tuple[int, int]:
    """Return the place of a decision in the log; clients may await answers in another order."""
    return verdict.current_seq, int(verdict.batch_id[1:] or 0)
