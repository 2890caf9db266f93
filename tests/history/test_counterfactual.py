"""Counterfactual replay: a parent's inputs in a fork that starts with a difference."""

from pathlib import Path
from typing import Any

from placet.history.counterfactual import CounterfactualReport
from placet.history.fork import ForkOptions, fork
from placet.history.verify_log import verify_log
from placet.kernel import Kernel, Kind
from placet.schemas.config import KernelConfig
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.limits import Limits
from placet.stores.url import open_event_log
from tests.golden.post import Post, Watchman
from tests.history.forks import DOMAINS, log_of, make_fork
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import COUNTS, MAIL, THINGS, Amount, Lab


def replayed(log: list[bytes], folder: Path, at: int, **options: Any) -> CounterfactualReport:
    """Fork with a replay of the later inputs, and check the integrity of the result."""
    made = make_fork(log, folder, at, **{"effects": "simulate", "is_replayed": True, **options})
    decided = verify_log(open_event_log(made.store), DOMAINS)
    assert decided.integrity.first_divergence is None
    assert made.counterfactual is not None
    return made.counterfactual


def changed_decisions(report: CounterfactualReport) -> list[tuple[str, str]]:
    return [
        (str(one.was), "not proposed" if one.now is None else str(one.now))
        for one in report.changed
    ]


def test_what_if_lists_the_decisions_that_change(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    at = kernel.seq
    kernel.decide([add("a:0", 30)])
    kernel.decide([add("a:1", 40)])  # 70 is more than 60
    kernel.decide([intent("Take", {"amount": 30}, "t")])
    kernel.decide([intent("Clamp", {"amount": 5}, "c")])
    poorer = replayed(log, tmp_path, at, put={f"{COUNTS}/alice/count": -20})
    assert changed_decisions(poorer) == [
        ("refused: invariant_violated", "admitted"),
    ]
    assert (poorer.admitted_instead, poorer.refused_instead, poorer.same) == (1, 0, 3)
    assert poorer.other_changes == 2  # what alice has after adding and after taking
    richer = replayed(log, tmp_path, at, name="r.db", put={f"{COUNTS}/alice/count": 50})
    assert changed_decisions(richer) == [("admitted", "refused: invariant_violated")]
    one = richer.changed[0]
    assert (one.seq, one.was.req_ids, one.was.agent_ids) == (at, ("a:0",), ("alice",))
    assert "more than 60" in one.why
    assert richer.as_dict()["changed"][0]["now"] == "refused: invariant_violated"
    assert richer.digest == richer.parent_digest  # alice's counter was set in the end
    assert richer.seq == richer.parent_seq - 1


def test_a_change_visible_only_in_the_digest_counts_as_changed(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    at = kernel.seq
    kernel.decide([add("a:0", 1)])
    report = replayed(log, tmp_path, at, put={f"{COUNTS}/alice/count": 0.0})
    assert (report.same, report.other_changes) == (1, 1)
    assert report.digest != report.parent_digest


def test_context_seqs_are_mapped_to_the_seqs_of_the_fork(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log, staleness_threshold=1)
    at = kernel.seq
    kernel.decide([add("a:0", 30, context_seq=kernel.seq)])
    kernel.decide([add("a:1", 1, context_seq=kernel.seq)])
    kernel.decide([add("b:0", 1, agent_id="bob", context_seq=kernel.seq)])
    report = replayed(log, tmp_path, at, put={f"{COUNTS}/alice/count": 59})
    # a:0 is refused, so all later seqs are one less: not from the future, and not stale either.
    assert changed_decisions(report) == [("admitted", "refused: invariant_violated")]


def test_intents_of_dropped_agents_are_omitted(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    at = kernel.seq
    kernel.decide([add("b:0", agent_id="bob")])
    kernel.decide([add("a:0"), add("b:1", agent_id="bob")])
    kernel.change_agent("bob", "suspended")
    kernel.change_agent("bob", "removed")
    kernel.register_agent("bob")
    report = replayed(log, tmp_path, at, dropped=["bob"])
    assert report.not_proposed == 1
    assert changed_decisions(report) == [("admitted", "refused: agent_unknown")]
    assert report.notes == []


def test_recorded_outcomes_are_applied_to_the_same_effects(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    kernel.decide([intent("Mail", {"count": 1}, "before")])
    at = kernel.seq
    kernel.decide([add("a:0", 30)])
    kernel.decide([intent("Mail", {"count": 2}, "m")])
    for effect in kernel.open_effects():
        kernel.settle(Settlement(effect.key, succeeded=True, output="sent"))
    same = replayed(log, tmp_path, at, put={f"{COUNTS}/alice/count": 59})
    assert (same.refused_instead, same.effects_answered, same.effects_unanswered) == (1, 3, 0)
    refused = replayed(log, tmp_path, at, name="r.db", effects="refuse")
    assert changed_decisions(refused) == [("admitted", "refused: tool_unregistered")]
    # what was open at the fork has its outcome; what was not asked for has none
    assert (refused.effects_answered, refused.effects_unanswered) == (1, 2)


def test_effects_started_in_the_parent_do_not_change_the_draws(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    kernel.decide([intent("Mail", {"count": 1}, "before")])
    at = kernel.seq
    kernel.decide([intent("Mail", {"count": 1}, "m")])
    first, second = kernel.open_effects()
    for effect in (first, second):
        kernel.mark_effect(effect.key, "started")
    kernel.mark_effect(second.key, "in_doubt", "no answer")
    kernel.settle(Settlement(first.key, succeeded=True, output="sent"))
    kernel.decide([intent("Look", {"thing": None}, "l")])
    again = replayed(log, tmp_path, at)
    assert (again.same, again.other_changes) == (2, 0)
    assert (again.seq, again.digest) == (again.parent_seq, again.parent_digest)
    refused = replayed(log, tmp_path, at, name="r.db", effects="refuse")
    assert (refused.effects_answered, refused.refused_instead) == (1, 1)


class Choosy(Lab):
    """Mails the agent's count, so that another count asks for another mail."""

    def __init__(self) -> None:
        super().__init__()

        def mail(draft: Any, given: Any) -> None:
            draft.emit(MAIL, {"count": draft.get(COUNTS, given["agent_id"], "count")})

        self.kinds = [*Lab.kinds, Kind("Tell", Amount, mail, effects=(MAIL,))]


def test_an_outcome_is_not_applied_to_another_effect(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(Choosy(), sink=log)
    at = kernel.seq
    kernel.decide([intent("Tell", {"amount": 0}, "m")])
    kernel.settle(Settlement(EffectKey("world", kernel.seq, 0), succeeded=True))
    options = ForkOptions(put={f"{COUNTS}/alice/count": 7}, effects="simulate", is_replayed=True)
    made = fork(log_of(log), str(tmp_path / "f.db"), options, at=at, domains=[Choosy()])
    assert made.counterfactual is not None
    assert (made.counterfactual.effects_answered, made.counterfactual.effects_unanswered) == (0, 1)
    assert made.counterfactual.same == 1


def test_a_batch_scheduled_in_one_world_is_due_in_that_world_only(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    at = kernel.seq
    kernel.decide({"intents": [add("s:0", agent_id="bob")], "sim_time": 5.0}, 1.0)
    kernel.decide({"intents": [add("s:1")], "sim_time": 6.0}, 1.0)
    kernel.tick(7.0)
    kernel.decide([add("a:0")], 8.0)
    same = replayed(log, tmp_path, at)
    assert (same.batches, same.same) == (5, 5)
    without = replayed(log, tmp_path, at, name="w.db", dropped=["bob"])
    assert (without.batches, without.same, without.not_proposed) == (3, 3, 2)


def test_inputs_impossible_in_the_fork_are_noted_with_their_recorded_decisions(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    seen = kernel.seq
    kernel.decide([add("a:0")])
    at = kernel.seq
    look = intent("Look", {"thing": "a"}, "l:0", context_seq=seen)
    kernel.decide({"intents": [look], "sim_time": 5.0}, 1.0)
    both = [intent("Look", {"thing": "a"}, "l:1", context_seq=seen), add("a:1", 99)]
    kernel.decide(both, 2.0)
    kernel.patch([(THINGS, "b", {"value": 1}, False)], "set right")
    kernel.decide([], 6.0)
    kernel.decide([add("a:2")], 6.0)
    report = replayed(log, tmp_path, at, put={f"{THINGS}/a/value": 5, f"{THINGS}/b": None})
    assert changed_decisions(report) == [
        ("scheduled", "refused: stale_context"),
        ("refused: invariant_violated", "refused: stale_context"),
        ("admitted", "not proposed"),
    ]
    assert (report.refused_instead, report.other_differences, report.same) == (2, 1, 1)
    assert "not re-executed" in report.notes[0]
    assert "no entity lab.things/b" in report.notes[0]


def test_recorded_changes_of_rules_and_settings_are_repeated(tmp_path):
    log: list[bytes] = []
    kernel = Kernel(Post(2), KernelConfig(), sink=log.append)
    kernel.register_agent("ann")
    kernel.change_executor("mail", 9)
    at = kernel.seq
    send = {"to": "ann", "weight": 3}
    kernel.decide([intent("Send", send, "s:0", agent_id="ann")])
    tight = KernelConfig(limits=Limits(batch_intents_max=2))
    kernel = Kernel(Post(), tight, sink=log.append, history=list(log))
    kernel.decide([intent("Send", {"to": "ann", "grams": 30}, "s:1", agent_id="ann")])
    kernel.decide([intent("Send", {"to": "nobody", "grams": 30}, "s:2", agent_id="ann")])

    def domains(then: Any) -> list[Post]:
        return [Post(2 if then.kinds["Send"] == "1" else 3)]

    options = ForkOptions(effects="simulate", is_replayed=True)
    made = fork(log_of(log), str(tmp_path / "f.db"), options, at=at, domains=domains)
    report = made.counterfactual
    assert report is not None
    assert (report.stopped, report.batches, report.same) == ("", 3, 3)
    assert report.digest == report.parent_digest
    assert verify_log(open_event_log(made.store), domains).integrity.is_ok

    def only_once(then: Any) -> list[Post]:
        return [Post(2)]

    made = fork(log_of(log), str(tmp_path / "g.db"), options, at=at, domains=only_once)
    assert made.counterfactual is not None
    assert "the given domains cannot re-execute the log" in made.counterfactual.stopped
    assert made.counterfactual.batches == 1


def test_a_given_host_validator_is_called(tmp_path):
    log: list[bytes] = []
    kernel = Kernel(Post(), KernelConfig(), effect_validator=Watchman(), sink=log.append)
    kernel.register_agent("ann")
    at = kernel.seq
    kernel.change_executor("mail", 9)
    kernel.decide([intent("Send", {"to": "ann", "grams": 770}, "s:0", agent_id="ann")])
    options = ForkOptions(effects="simulate", is_replayed=True)
    reports = [
        fork(log_of(log), str(tmp_path / f"{n}.db"), options, at=at, domains=[Post()], validator=v)
        for n, v in enumerate([None, Watchman()])
    ]
    without, beside = [made.counterfactual for made in reports]
    assert without is not None
    assert beside is not None
    assert changed_decisions(without) == [("refused: post.refused", "admitted")]
    assert "does not run here" in without.notes[0]
    assert (beside.same, beside.notes) == (1, [])


def test_claims_of_a_group_split_by_the_fork_are_noted_as_free(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    before = kernel.seq
    kernel.decide_group(
        [[intent("Grab", {"thing": "a"}, agent_id=name)] for name in ("alice", "bob")]
    )
    report = replayed(log, tmp_path, before + 1)
    assert report.batches == 0  # the second was refused at that very seq, and is before the fork
    log.clear()
    kernel = kernel_of(DOMAINS, sink=log)
    kernel.decide_group(
        [[intent("Put", {"thing": name, "field": "x"}, agent_id=name)] for name in ("alice", "bob")]
    )
    report = replayed(log, tmp_path, before + 1, name="g.db")
    assert report.same == 1
    assert "inside a group" in report.notes[0]
