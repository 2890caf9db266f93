"""Laws of the structure stage: any input ends as a verdict, and means the same in every form."""

import json
import sys
from collections import OrderedDict, UserDict
from collections.abc import Iterator
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, RootModel
from typing_extensions import TypedDict

from placet.kernel import Domain, Kind
from placet.schemas.codec import canonical, freeze, from_canonical, from_json, to_json
from tests.kernel.builders import add, checked, intent, kernel_of, reused, trace
from tests.kernel.domains import Annex, Lab, Panic


def is_json(verdict):
    """Check that a verdict can be encoded as strict JSON, by two encoders."""
    wire = verdict.as_dict()
    return json.loads(json.dumps(wire, allow_nan=False)) == json.loads(to_json(wire))


# Any input


class HostileDict(dict[Any, Any]):
    def __getitem__(self, key):
        raise RuntimeError("hostile")

    def get(self, key, default=None):
        raise RuntimeError("hostile")

    def items(self):
        raise RuntimeError("hostile")


class Endless(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield add("endless")


class EndlessMapping(UserDict[str, Any]):
    def items(self):
        while True:
            yield "a", 1


class HostileRepr:
    def __repr__(self) -> str:
        raise RuntimeError("hostile")


class LyingInt(int):
    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __lt__ = __gt__ = __le__


class LyingText(str):
    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        raise RuntimeError("hostile")

    def __str__(self) -> str:
        return "another"


class Color(IntEnum):
    RED = 1


class Bean(BaseModel):
    text: str = "bean"


class Pair(NamedTuple):
    a: int
    b: int


def holding_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def many_from_few() -> list[Any]:
    """Build a value of 2**60 leaves in 60 small lists."""
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    return value


ODDITIES = [
    {1, 2}, frozenset(), b"bytes", bytearray(b"x"), 1j, object(), HostileRepr(), HostileDict(a=1),
    Endless([1]), EndlessMapping(), LyingInt(2**70), LyingText("\ud800"), Color.RED, Bean(),
    iter([]),
    (letter for letter in "ab"), range(3), holding_itself(), nested(70), nested(5000),
    2**64, -(2**63) - 1, 2**64 - 1, 10**5000, float("nan"), float("inf"), -0.0, 1e308, "\ud800",
    "\x00", "", "a" * 70_000, {"\ud800": 1}, {1: 2}, {None: None}, {("a",): 1},
    MappingProxyType({}),
    OrderedDict(a=1), Pair(1, 2), type, len, ..., NotImplemented, [[]], None,
    Exception("x"), {"intents": Endless()}, {"intents": iter([])}, {"": ""}, {"/~": {"/~": set()}},
]  # fmt: skip

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def oddity(number: int) -> Any:
    return ODDITIES[number]


ANYTHING = st.recursive(
    JSON
    | st.sampled_from(range(len(ODDITIES))).map(oddity)
    | st.binary(max_size=4)
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.sets(st.integers(), max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = [
    "kind", "payload", "agent_id", "req_id", "context_seq", "priority", "schema_version",
    "valid_until", "surplus",
]  # fmt: skip


SOUND: list[tuple[str, dict[str, Any]]] = [
    ("Add", {"amount": 1}),
    ("Put", {"thing": "a", "field": "f", "value": {"x": [1]}}),
    ("Say", {"text": "a", "tags": ["b"]}),
    ("Custom", {"action": "wave", "more": {"deep": [1.5]}}),
    ("Place", {"at": [1, 2]}),
    ("annex.Count", {"amount": 1}),
]


@st.composite
def spoiled_intents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid intent with some invalid fields, or payload fields."""
    kind, payload = draw(st.sampled_from(SOUND))
    payload = dict(payload)
    if draw(st.booleans()):
        payload[draw(st.sampled_from([*payload, "surplus"]))] = draw(ANYTHING)
    spoiled = draw(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=2))
    return intent(kind, payload) | spoiled


BATCHES = (
    ANYTHING
    | spoiled_intents()
    | st.lists(spoiled_intents() | ANYTHING, max_size=3)
    | st.fixed_dictionaries(
        {"intents": st.lists(spoiled_intents(), max_size=2) | ANYTHING},
        optional={
            "sim_time": ANYTHING, "dry_run": ANYTHING, "valid_for_s": ANYTHING, "else": ANYTHING
        },
    )
)  # fmt: skip
LAB_AND_ANNEX = [Lab(), Annex()]


@pytest.fixture(autouse=True)
def _silence(monkeypatch):
    """Keep pydantic quiet, which prints that a tag's repr raised."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)


@given(BATCHES)
@example([add("a", valid_until=1e300)])
@example([add("a", valid_until=9.3e9)])
@example([add("a", context_seq=2**63)])
@example({"intents": [add("a")], "\ud800": 1})
@example({"intents": [add("a")], "sim_time": 9.2e9})
@example([add("a", schema_version="1.999999999.0", payload={"amount": 1, "\ud800": 1})])
def test_no_input_makes_the_kernel_raise(raw):
    """Any object -> a verdict that can be encoded."""
    kernel, _ = reused(domain=LAB_AND_ANNEX)
    before = trace(kernel)
    verdict = kernel.decide(raw)
    assert is_json(verdict)
    assert verdict.admitted or verdict.refusals
    if verdict.refusals and verdict.refusals[0].stage == "structure":
        assert trace(kernel) == before
    assert kernel.decide(add("after")).admitted


def is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # a mappingproxy has a hash since 3.12, and raises as its mapping does
        return False
    return True


@pytest.mark.parametrize("odd", ODDITIES, ids=lambda odd: type(odd).__name__)
def test_no_odd_value_at_any_place_makes_the_kernel_raise(odd):
    kernel = kernel_of()
    for raw in (
        odd,
        [odd],
        {"intents": odd},
        {"intents": [add("a")], "sim_time": odd},
        {"intents": [add("a")], "valid_for_s": odd},
        *[add("a", **{field: odd}) for field in FIELDS],
        intent("Put", {"thing": "a", "field": "f", "value": odd}, "b"),
        intent("Put", {"thing": "a", "field": "f", "value": {"deep": [odd]}}, "c"),
        intent("Say", {"text": "a", "tags": odd}, "d"),
        intent("Custom", {"action": "a", "more": odd}, "e"),
        intent("Custom", Bean(), "f"),
        intent("Place", {"at": (odd, odd)}, "g"),
        intent("Add", {odd: 1}, "h") if is_hashable(odd) else None,
    ):
        verdict = kernel.decide(raw)
        assert is_json(verdict)
        assert verdict.admitted or verdict.refusals


def test_shared_lists_are_too_large_before_they_fill_the_memory():
    many = many_from_few()
    for kind, payload in (
        ("Put", {"thing": "a", "field": "f", "value": many}),
        ("Say", {"text": "a", "tags": many}),
        ("Custom", {"action": "a", "more": many}),
    ):
        assert reused()[0].decide(intent(kind, payload)).codes == ("payload_too_large",)
    assert reused()[0].decide(add("a", priority=many)).codes == ("field_invalid",)
    assert reused()[0].decide({"intents": [add("a")], "sim_time": many}).codes == ("field_invalid",)


def test_values_that_are_encodable_but_not_json_are_refused():
    for odd in ({1, 2}, b"bytes", Color, object()):
        for kind, payload in (
            ("Put", {"thing": "a", "field": "f", "value": odd}),
            ("Custom", {"action": "a", "more": odd}),
            ("Say", {"text": "a", "tags": odd}),
        ):
            assert kernel_of().decide(intent(kind, payload)).codes == ("payload_invalid",)


def test_a_field_of_type_any_accepts_only_json():
    class Loose(TypedDict):
        metadata: Any

    class LooseDomain(Domain):
        name, version = "loose", "1"
        kinds = (Kind("Loose", Loose, lambda draft, intent: None),)

    kernel = kernel_of(LooseDomain(), agents=("alice",))
    assert kernel.decide(intent("Loose", {"metadata": {1}})).codes == ("payload_invalid",)
    assert kernel.decide(intent("Loose", {"metadata": (1,)})).results[0].normalized == {
        "metadata": [1]
    }


class PlacedData(TypedDict):
    at: tuple[int, int]
    data: JsonValue


class PlacedCounts(TypedDict):
    counts: dict[str, tuple[int, int]]


class Votes(TypedDict):
    votes: dict[int, int]


@pytest.mark.parametrize(
    ("model", "payload"),
    [
        (PlacedData, {"at": [1, 2], "data": {"a": [None]}}),
        (PlacedCounts, {"counts": {"a": [1, 2]}}),
        (Votes, {"votes": {"7": 1}}),
    ],
)
def test_json_only_conversions_work_beside_open_data(model, payload):
    """Lists for tuples, and text for the keys that are numbers."""

    class Mixed(Domain):
        name, version = "mixed", "1"
        kinds = (Kind("Mixed", model, lambda draft, intent: draft.answer(intent["payload"])),)

    kernel = kernel_of(Mixed(), agents=("alice",))
    for number, raw in enumerate([payload, as_objects(payload), from_json(json.dumps(payload))]):
        verdict = kernel.decide(intent("Mixed", raw, f"r{number}"))
        assert [result.output for result in verdict.results] == [freeze(payload)], verdict.refusals


def test_payload_depth_is_bounded_alike_for_text_and_objects():
    deepest, too_deep = nested(61), nested(62)
    for value, is_sound in ((deepest, True), (too_deep, False)):
        plain = intent("Put", {"thing": "a", "field": "f", "value": {"v": value}})
        as_tuple = intent(
            "Put", {"thing": "a", "field": "f", "value": MappingProxyType({"v": value})}
        )
        for raw in (plain, as_tuple, from_json(json.dumps(plain))):
            assert reused()[0].decide(raw).admitted is is_sound


@pytest.mark.parametrize("fault", [KeyError, Panic])
def test_a_raising_payload_validator_refuses_the_payload(fault):
    def explode(value: int) -> int:
        raise fault

    def enlarge(value: int) -> int:
        return value * 2**64

    def spoil(value: int) -> float:
        return float("nan")

    class Explosive(TypedDict):
        a: Annotated[int, AfterValidator(explode)]

    class Enlarging(TypedDict):
        a: Annotated[int, AfterValidator(enlarge)]

    class Spoiling(TypedDict):
        a: Annotated[int, AfterValidator(spoil)]

    class Mined(Domain):
        name, version = "mined", "1"
        kinds = (
            Kind("Explosive", Explosive, lambda draft, intent: None),
            Kind("Enlarging", Enlarging, lambda draft, intent: None),
            Kind("Spoiling", Spoiling, lambda draft, intent: None),
            Kind("Listing", list[int], lambda draft, intent: None),
            Kind("Counting", RootModel[list[int]], lambda draft, intent: None),
        )

    kernel = kernel_of(Mined(), agents=("alice",))
    said = [
        (found.at, found.message)
        for kind in ("Explosive", "Enlarging", "Spoiling")
        for found in kernel.decide(intent(kind, {"a": 1})).refusals
        if found.code == "payload_invalid"
    ]
    reading = (
        f"reading the batch raised {fault.__name__}; send plain JSON values, or report it to the "
        "author of the payload's model"
    )
    making = (
        "the payload model of Enlarging makes what cannot be recorded (OverflowError); report it "
        "to the domain's author"
    )
    assert said == [
        ("", reading),
        ("/intents/0/payload", making),
        ("/intents/0/payload/a", "a number must be finite, got nan"),
    ]
    listing = kernel.decide(intent("Listing", [1]))
    assert "a payload must be an object, got [1]" in listing.refusals[0].message
    counting = kernel.decide(intent("Counting", [1]))
    assert "a payload must be an object, got list" in counting.refusals[0].message


@pytest.mark.parametrize("spoiled", ["nan", "-nan", "inf", "-inf"])
def test_no_validator_makes_a_number_that_is_not_finite(spoiled):
    class Spoiling(TypedDict):
        a: Annotated[int, AfterValidator(lambda _: float(spoiled))]

    class Mined(Domain):
        name, version = "mined", "1"
        kinds = (Kind("Spoiling", Spoiling, lambda draft, intent: None),)

    kernel = kernel_of(Mined(), agents=("alice",))
    assert kernel.decide(intent("Spoiling", {"a": 1})).codes == ("payload_invalid",)


def test_changing_a_batch_after_check_has_no_effect():
    """Extra fields that a payload allows are copied like all others."""

    class Inner(TypedDict):
        a: int

    class Outer(TypedDict):
        __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # read by pydantic

        inner: Inner

    seen: list[Any] = []

    class Keeping(Domain):
        name, version = "keeping", "1"
        kinds = (Kind("Keep", Outer, lambda draft, intent: seen.append(intent["payload"])),)

    kernel = kernel_of(Keeping(), agents=("alice",))
    payload: Any = {"inner": {"a": 1, "more": [1]}, "more": [[1]]}
    batch = checked(kernel, [intent("Keep", payload)])
    payload["inner"]["more"].append(2)
    payload["more"][0].append(2)
    assert kernel.decide(batch).admitted
    assert seen == [{"inner": {"a": 1, "more": [1]}, "more": [[1]]}]


# However it comes


class PydanticIntent(BaseModel):
    kind: str
    payload: JsonValue
    agent_id: str
    req_id: str
    context_seq: int
    priority: int
    schema_version: str


class Text(str):
    __slots__ = ()


class Number(int):
    pass


def as_objects(value: Any) -> Any:
    """Convert a batch to other types: tuples, read-only mappings, subclasses."""
    if isinstance(value, dict):
        return MappingProxyType({Text(key): as_objects(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(as_objects(item) for item in value)
    if type(value) is str:
        return Text(value)
    return Number(value) if type(value) is int else value


PLAIN_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
SOUND_OR_NOT = st.one_of(
    st.builds(lambda amount: intent("Add", {"amount": amount}), PLAIN_JSON),
    st.builds(lambda v: intent("Put", {"thing": "a", "field": "f", "value": v}), PLAIN_JSON),
    st.builds(lambda tags: intent("Say", {"text": "a", "tags": tags}), PLAIN_JSON),
    st.builds(lambda more: intent("Custom", {"action": "a", "more": more}), PLAIN_JSON),
    st.builds(lambda at: intent("Place", {"at": at}), st.lists(st.integers(0, 9), max_size=3)),
    st.builds(
        lambda version, until: add("r", schema_version=version, valid_until=until, more=1),
        st.sampled_from(["1.0.0", "1.1.0", "2.0.0", "x"]),
        PLAIN_JSON,
    ),
)


@given(st.lists(SOUND_OR_NOT, min_size=1, max_size=3))
def test_a_batch_means_the_same_as_text_as_dicts_and_as_objects(intents):
    """JSON text = dicts = mappings, tuples and subclasses = models."""
    for number, one in enumerate(intents):
        one["req_id"] = f"r{number}"
    forms = [
        intents,
        from_json(json.dumps(intents)),
        from_json(to_json(intents)),
        as_objects(intents),
        {"intents": tuple(intents)},
    ]
    if all(set(one) == set(PydanticIntent.model_fields) for one in intents):
        forms.append([PydanticIntent(**one) for one in intents])
    verdicts, logs = [], []
    for form in forms:
        kernel, log = reused()
        verdicts.append(kernel.decide(form).as_dict())
        logs.append(list(log))
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert all(log == logs[0] for log in logs)


def test_one_intent_and_a_batch_object_are_batches_too():
    expected = kernel_of().decide([add("a")]).as_dict()
    for form in (add("a"), {"intents": [add("a")]}, {"intents": [add("a")], "sim_time": None}):
        assert kernel_of().decide(form).as_dict() == expected


def test_changing_submitted_objects_has_no_effect():
    value: list[Any] = [1]
    sent = intent("Put", {"thing": "a", "field": "f", "value": {"x": value}})
    kernel = kernel_of()
    checked = kernel.check([sent])
    value.append(2)
    assert kernel.decide(checked).admitted
    assert kernel.state["lab.things"]["a"]["f"] == {"x": (1,)}


def test_an_absent_time_limit_may_be_null():
    assert kernel_of().decide(add("a", valid_until=None)).admitted


@given(PLAIN_JSON)
def test_a_value_is_stored_read_and_recorded_unchanged(value):
    kernel, _ = reused()
    assert kernel.decide(intent("Put", {"thing": "a", "field": "f", "value": value})).admitted
    stored = kernel.tree.as_dict()["lab.things"]["a"]["f"]
    assert canonical(stored) == canonical(value)
    assert from_canonical(canonical(stored)) == stored


# Versions


def test_an_unknown_minor_is_accepted_with_one_warning_and_loses_its_unknown_fields():
    newer = {"schema_version": "1.7.0"}
    verdict = kernel_of().decide(
        [
            add("a", **newer, mood="glad"),
            intent("Add", {"amount": 1, "unit": "kg"}, "b", **newer),
            add("c", schema_version="1.8.0"),
            add("d"),
        ]
    )
    assert verdict.admitted
    assert [[(w.code, w.at) for w in result.warnings] for result in verdict.results] == [
        [("version_unknown", "/intents/0/schema_version"), ("field_dropped", "/intents/0/mood")],
        [("field_dropped", "/intents/1/payload/unit")],
        [("version_unknown", "/intents/2/schema_version")],
        [],
    ]
    assert verdict.results[0].warnings[0].message == (
        "read as '1.0.0': this world does not know '1.7.0'"
    )
    assert verdict.results[1].normalized == {"amount": 1}


def test_the_known_version_loses_no_field_silently():
    assert kernel_of().decide(add("a", mood="glad")).codes == ("field_unknown",)


def test_an_unknown_field_may_be_named_like_a_kind():
    kernel = kernel_of()
    found = kernel.decide(add("a", Take=1)).refusals
    assert [(r.code, r.at) for r in found] == [("field_unknown", "/intents/0/Take")]
    newer = kernel.decide(add("b", Take=1, schema_version="1.7.0"))
    assert [w.at for w in newer.results[0].warnings] == [
        "/intents/0/schema_version",
        "/intents/0/Take",
    ]


class Short(dict[str, Any]):
    """A dict that reports no more fields than an intent has."""

    def __len__(self) -> int:
        return 7


@pytest.mark.parametrize("make", [dict, Short])
@pytest.mark.parametrize("names", [("Note",), ("Note", "Mark")])
def test_no_field_is_lost_silently_where_a_payload_has_a_configuration_of_its_own(names, make):
    class Closed(TypedDict):
        __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
        text: str

    class Notes(Domain):
        name, version = "notes", "1"
        kinds = tuple(Kind(name, Closed, lambda _draft, _intent: None) for name in names)

    sent = intent("Note", {"text": "a"}, "a")
    kernel = kernel_of(Notes())
    assert kernel.decide([make(sent)]).admitted
    glad = make(sent | {"req_id": "b", "mood": "glad"})
    assert kernel.decide([glad]).codes == ("field_unknown",)
    found = kernel.decide([glad, make(sent | {"kind": 1})])
    assert [(r.code, r.at) for r in found.refusals] == [
        ("field_unknown", "/intents/0/mood"),
        ("field_invalid", "/intents/1/kind"),
    ]
    newer = kernel.decide(make(sent | {"req_id": "c", "mood": "glad", "schema_version": "1.7.0"}))
    assert [w.code for w in newer.results[0].warnings] == ["version_unknown", "field_dropped"]


def test_an_unknown_field_inside_a_union_is_reported():
    class Left(TypedDict):
        left: int

    class Right(TypedDict):
        right: int

    class Either(TypedDict):
        side: Left | Right

    class Sided(Domain):
        name, version = "sided", "1"
        kinds = (Kind("Turn", Either, lambda draft, intent: None),)

    kernel = kernel_of(Sided(), agents=("alice",))
    wrong = intent("Turn", {"side": {"left": 1, "more": 2}}, schema_version="1.1.0")
    verdict = kernel.decide(wrong)
    assert set(verdict.codes) == {"payload_invalid"}
    assert is_json(verdict)


def test_a_world_of_one_kind_reports_errors_like_one_of_many():
    kernel = kernel_of(Annex(), agents=("alice",))
    assert kernel.decide(intent("annex.Counts")).refusals[0].suggestions == ("annex.Count",)
    assert kernel.decide(intent("annex.Count", {"amount": "x"})).refusals[0].at == (
        "/intents/0/payload/amount"
    )
    assert kernel.decide({"kind": 7}).codes[-1] == "field_invalid"


# Sizes


def test_a_batch_of_any_size_is_one_array_in_the_log():
    for count in (1, 15, 16, 512):
        checked = kernel_of().check([add(f"r{n}") for n in range(count)])
        assert len(from_canonical(checked.encoded)) == count  # type: ignore[union-attr]


def test_the_fingerprint_depends_on_the_set_of_intents():
    kernel = kernel_of()
    one = kernel.check([add("a"), add("b")])
    other = kernel.check([add("b"), add("a")])
    different = kernel.check([add("b"), add("a", 2)])
    assert one.fingerprint == other.fingerprint != different.fingerprint  # type: ignore[union-attr]


def custom(req_id: str, **extra: Any) -> dict[str, Any]:
    return intent("Custom", {"action": "wave", **extra}, req_id)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ([custom("a", items=[0] * 100)], "payload_too_large"),
        ([custom("a", number=float("nan")), custom("b", items=[0] * 42)], "batch_too_large"),
        ([custom("a", number=float("nan")), custom("b", items=[0] * 200)], "batch_too_large"),
    ],
    ids=["alone", "validated in the full check", "copied in the full check"],
)
def test_values_of_a_batch_are_bounded_in_both_checks(batch, code):
    kernel = kernel_of(limits={"batch_values_max": 50})
    (refusal,) = kernel.decide(batch).refusals
    assert (refusal.stage.value, refusal.code) == ("structure", code)


def test_the_full_check_ends_with_the_part_that_fills_the_list():
    kernel = kernel_of(limits={"refusals_listed_max": 3})
    refusals = kernel.decide([add(f"r{n}", priority=101) for n in range(200)]).refusals
    assert [refusal.index for refusal in refusals] == [0, 1, 2]


def test_a_recorded_payload_beyond_the_limits_is_refused():
    kernel = kernel_of(limits={"payload_depth_max": 4})
    batch = checked(kernel, [custom("a", deep=[1])])
    nested: Any = [1]
    for _ in range(9):
        nested = [nested]
    batch.intents = [{**batch.intents[0], "payload": {"action": "wave", "deep": nested}}]
    refusals = kernel._structure.check_recorded(batch, {})
    assert refusals is not None
    assert "nested too deeply" in refusals[0].message
