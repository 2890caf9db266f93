"""Changed rules continue a log: compatibility, the record of the change, and upcasting."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.kernel.gate.structure import upcast
from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import resume, take
from placet.kernel.log.verify import Maker, Verifier
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.plugin.domain import Upcaster
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.recorded_batch import recorded_batch
from placet.kernel.state.draft import Draft
from placet.schemas.errors import StoreError
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Admitted, Refused, RulesChanged, Scheduled, decode_record
from tests.kernel.builders import intent

TANK = "tank.tanks"


class Liters(TypedDict):
    liters: int


class Milliliters(TypedDict):
    milliliters: int


def pour(draft: Draft, given: Intent) -> None:
    payload = given["payload"]
    amount = payload["liters"] * 1000 if "liters" in payload else payload["milliliters"]
    if not draft.exists(TANK, "it"):
        draft.create(TANK, "it", {"ml": 0})
    draft.put(TANK, "it", "ml", draft.get(TANK, "it", "ml") + amount)


class Tank(Domain):
    """Counted in liters in version 1, in milliliters since."""

    name = "tank"

    def __init__(self, kinds: Sequence[Kind], version: str = "1") -> None:
        self.kinds = kinds
        self.version = version


def in_milliliters(payload: dict[str, Any]) -> dict[str, Any]:
    return {"milliliters": payload["liters"] * 1000}


def tank_1() -> Tank:
    return Tank([Kind("Pour", Liters, pour)])


def tank_2(upcaster: Upcaster | None = in_milliliters) -> Tank:
    upcasters = {} if upcaster is None else {"1": upcaster}
    return Tank([Kind("Pour", Milliliters, pour, version="2", upcasters=upcasters)])


def history_of(domain: Domain, log: list[bytes], **options: Any) -> Kernel:
    return Kernel(domain, KernelConfig(), sink=log.append, history=tuple(log), **options)


def decided(log: list[bytes], domain: Tank | Maker) -> Verifier:
    again = Verifier([domain] if isinstance(domain, Tank) else domain)
    for data in log:
        again.apply(data)
    return again


def poured_in_liters() -> list[bytes]:
    """Two liters poured, and one more to come at second 9."""
    log: list[bytes] = []
    kernel = history_of(tank_1(), log)
    kernel.register_agent("alice")
    kernel.decide([intent("Pour", {"liters": 2}, "p")], 1.0)
    kernel.decide({"intents": [intent("Pour", {"liters": 1}, "q")], "sim_time": 9}, 1.0)
    return log


def test_a_log_of_a_version_without_upcaster_is_not_opened():
    log = poured_in_liters()
    with pytest.raises(StoreError) as raised:
        history_of(tank_2(None), log)
    assert str(raised.value) == (
        "the log holds Pour of version 1, the world is opened with version 2, which has no "
        "upcaster from it (it has none); give the kind upcasters={'1': ...}, or open the log with "
        "version '1'"
    )
    assert len(log) == len(poured_in_liters())


def test_a_newer_version_continues_a_log_and_records_it():
    log = poured_in_liters()
    before = list(log)
    kernel = history_of(tank_2(), log)
    (changed,) = map(decode_record, log[len(before) :])
    assert log[: len(before)] == before  # nothing is rewritten
    assert isinstance(changed, RulesChanged)
    assert (changed.seq, changed.kinds) == (kernel.seq, {"Pour": "2"})
    assert changed.fingerprint == kernel.registry.fingerprint
    again = list(log)
    history_of(tank_2(), again)
    assert again == log  # it is news once
    history_of(tank_2(), log)


def test_an_older_version_does_not_continue_a_newer_log():
    log = poured_in_liters()
    history_of(tank_2(), log)
    with pytest.raises(StoreError, match=r"holds Pour of version 2, .* opened with version 1"):
        history_of(tank_1(), log)


def test_a_batch_scheduled_before_an_upgrade_is_upcast_when_due():
    log = poured_in_liters()
    kernel = history_of(tank_2(), log)
    kernel.decide([intent("Pour", {"milliliters": 1}, "r")], 2.0)
    kernel.decide([], 10.0)
    due = [r for r in map(decode_record, log) if isinstance(r, Admitted)][-1]
    assert due.due_of == 1
    assert kernel.tree.get(TANK, "it", "ml") == 3001


def test_the_verdict_on_a_due_batch_shows_upcast_payloads():
    def pour_and_write(draft: Draft, given: Intent) -> None:
        pour(draft, given)
        draft.emit("mail", {})

    log = poured_in_liters()
    [poured] = tank_2().kinds
    kernel = history_of(Tank([replace(poured, rule=pour_and_write, effects=("mail",))]), log)
    kernel.change_executor("mail", 9)
    ((_, verdict),) = kernel.decide_checked((), 10 * SECOND_NS).answers
    assert verdict.results[0].normalized == {"milliliters": 1000}
    assert len(kernel.open_effects()) == 1


@pytest.mark.parametrize("upcaster", [lambda payload: payload["gallons"], lambda payload: object()])
def test_a_raising_upcaster_refuses_its_batch_alone(upcaster):
    log = poured_in_liters()
    kernel = history_of(tank_2(upcaster), log)
    told: list[str] = []
    kernel.rules.on_fault = lambda where, error: told.append(where)
    kernel.decide([], 10.0)
    refused = decode_record(log[-1])
    assert isinstance(refused, Refused)
    assert [code for _, _, code, _ in refused.refusals] == ["rule_error"]
    assert told == ["upcaster of Pour from version 1"]
    assert kernel.decide([intent("Pour", {"milliliters": 1}, "r")]).admitted


def test_an_upcast_payload_that_cannot_be_encoded_reaches_the_rule():
    def clamp(draft: Draft, given: Intent) -> None:
        draft.normalize({"milliliters": min(given["payload"]["milliliters"], 10)})
        draft.put(TANK, "it", "ml", 5)

    log = poured_in_liters()
    upcasters: dict[str, Upcaster] = {"1": lambda _: {"milliliters": 2**64}}
    domain = Tank([Kind("Pour", Milliliters, clamp, version="2", upcasters=upcasters)])
    ((_, verdict),) = history_of(domain, log).decide_checked((), 10 * SECOND_NS).answers
    assert verdict.results[0].normalized == {"milliliters": 10}
    again = history_of(domain, log)
    assert again.decide_checked((), 11 * SECOND_NS).answers == []
    assert again.tree.get(TANK, "it", "ml") == 5


def test_a_whole_log_is_verified_by_its_newer_rules():
    log = poured_in_liters()
    kernel = history_of(tank_2(), log)
    kernel.decide([intent("Pour", {"milliliters": 1}, "r")], 2.0)
    kernel.decide([], 10.0)
    again = decided(log, tank_2())
    assert (again.batches, again.unverified) == (4, [])
    assert again.state.digest().hex() == kernel.digest()


def test_a_log_is_verified_by_rules_with_a_kind_more():
    log = poured_in_liters()
    more = Tank([Kind("Pour", Liters, pour), Kind("Drain", Liters, pour)])
    assert not decided(log, more).unverified
    altered = Tank([Kind("Pour", Milliliters, pour), Kind("Drain", Liters, pour)])
    assert decided(log, altered).unverified


def test_only_changed_kinds_are_upcast():
    def two(*kinds: Kind) -> Tank:
        return Tank([*kinds, Kind("Fill", Liters, pour)])

    log: list[bytes] = []
    kernel = history_of(two(*tank_1().kinds), log)
    kernel.register_agent("alice")
    batch = [intent("Pour", {"liters": 2}, "p"), intent("Fill", {"liters": 1}, "q")]
    kernel.decide({"intents": batch, "sim_time": 9})
    kernel = history_of(two(*tank_2().kinds), log)
    kernel.decide([], 10.0)
    assert kernel.tree.get(TANK, "it", "ml") == 3000


def test_verify_finds_an_upcaster_that_changes_the_outcome():
    log = poured_in_liters()
    with pytest.raises(StoreError, match=r"tank\.tanks/it ml is 2, recorded is 2000"):
        decided(log, tank_2(lambda payload: {"milliliters": payload["liters"]}))


def test_an_upcaster_that_raises_is_a_divergence():
    log = poured_in_liters()
    why = "upcaster of Pour from version 1 raised KeyError"
    broken = tank_2(lambda payload: {"milliliters": payload["gallons"]})
    with pytest.raises(Divergence, match=rf"^record 3, after seq 2: {why}"):
        decided(log, broken)
    again = Verifier([broken], past=folded(log[:3]))
    with pytest.raises(Divergence, match=why):
        again.dry_run(decode_record(log[3]))  # type: ignore[arg-type]  # a batch


def test_records_of_missing_rules_are_folded_and_named():
    log = poured_in_liters()
    other = Tank([Kind("Pour", Liters, pour)], version="2")
    kernel = history_of(other, log)
    kernel.decide([intent("Pour", {"liters": 3}, "r")], 2.0)
    again = decided(log, other)
    assert again.batches == 1
    (unverified,) = again.unverified
    assert (unverified.first_record, unverified.last_record) == (2, 4)
    assert "decided by tank 1 (" in unverified.why
    both = decided(log, lambda rules: [tank_1() if rules.domains == [("tank", "1")] else other])
    assert (both.batches, both.unverified) == (3, [])


def test_a_kind_without_upcaster_is_not_verified():
    log = poured_in_liters()
    again = decided(log, tank_2(None))
    assert again.unverified[0].why == "Pour had version 1, and is 2 with no upcaster from it"
    gone = decided(log, Tank([Kind("Drain", Liters, pour)]))
    assert "is not there with no upcaster" in gone.unverified[0].why


def test_scheduled_batches_of_a_removed_kind_are_refused():
    log = poured_in_liters()
    kernel = history_of(Tank([Kind("Drain", Liters, pour)]), log)
    kernel.decide([], 10.0)
    refused = decode_record(log[-1])
    assert isinstance(refused, Refused)
    assert refused.refusals[0][2] == "kind_unknown"


class Watchman:
    def validate_intent(self, given: object, world_state: object) -> bool:
        return True


def test_the_header_names_the_hosts_validator():
    log = poured_in_liters()
    history_of(tank_1(), log, effect_validator=Watchman())
    changed = decode_record(log[-1])
    assert isinstance(changed, RulesChanged)
    assert changed.validator == f"{__name__}:Watchman"
    assert str(rules_in(changed)).endswith(f", with the validator {__name__}:Watchman")


def test_rules_in_force_survive_a_snapshot():
    log = poured_in_liters()
    history_of(tank_2(), log)
    past = resume(take(folded(log)))
    assert past.header is not None
    assert rules_in(past.header) == rules_in(decode_record(log[-1]))  # type: ignore[arg-type]  # it is
    taken: list[bytes] = []
    Kernel(tank_2(), KernelConfig(), sink=taken.append, history=past)
    assert taken == []


def test_a_scheduled_record_names_the_versions_of_its_kinds():
    scheduled = decode_record(poured_in_liters()[-1])
    assert isinstance(scheduled, Scheduled)
    assert scheduled.versions == {"Pour": "1"}


def tank_3(*versions: str) -> Tank:
    """Counted in milliliters still, and by another name."""
    upcasters: dict[str, Upcaster] = {
        "1": in_milliliters,
        "2": lambda payload: payload,
    }
    kept = {version: upcasters[version] for version in versions}
    return Tank([Kind("Pour", Milliliters, pour, version="3", upcasters=kept)])


def test_scheduled_batches_of_older_versions_need_upcasters_too():
    log = poured_in_liters()
    history_of(tank_2(), log)
    before = list(log)
    with pytest.raises(StoreError, match=r"holds Pour of version 1, .* \(it has 2\)"):
        history_of(tank_3("2"), log)
    assert log == before
    kernel = history_of(tank_3("1", "2"), log)
    kernel.decide([], 10.0)
    assert kernel.tree.get(TANK, "it", "ml") == 3000
    history_of(tank_3("2"), log)  # nothing of version 1 waits any more


def test_a_payload_without_upcaster_is_never_taken_for_the_present_version():
    batch = recorded_batch(decode_record(poured_in_liters()[-1]))  # type: ignore[arg-type]  # a batch
    with pytest.raises(PluginError, match="upcaster of Pour from version 1") as raised:
        upcast(batch, {"Pour": "1"}, Registry([tank_3("2")]))
    assert str(raised.value.error) == "there is none to version 3"
    assert batch.intents[0]["payload"] == {"liters": 1}


def test_an_interrupt_within_an_upcaster_is_not_its_fault():
    def interrupted(_payload: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    batch = recorded_batch(decode_record(poured_in_liters()[-1]))  # type: ignore[arg-type]  # a batch
    with pytest.raises(KeyboardInterrupt):
        upcast(batch, {"Pour": "1"}, Registry([tank_2(interrupted)]))


def test_a_kind_has_no_upcaster_from_itself():
    with pytest.raises(ValueError, match="which is its own version"):
        Kind("Pour", Liters, pour, upcasters={"1": in_milliliters})


def test_settings_must_be_plain():
    class Odd(Tank):
        def settings(self) -> dict[str, Any]:
            return {"size": object()}

    with pytest.raises(ValueError, match="the settings of domain 'tank' must be plain JSON"):
        Kernel(Odd(tank_1().kinds))
